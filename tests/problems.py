"""Small problems whose answers are a line of algebra, and the few lines that train on them.

All have the sizes of `SPEC` and `ROWS` rows, so that what was compiled for one serves the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, NamedTuple, get_args, get_origin, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np

import tether
from tether.bonuses import ANCHOR, GRADIENT, LOG_PROBABILITY, SAMPLES, VALUE, Anchor, BonusTraits, FrozenBonus
from tether.data.columns import with_columns
from tether.data.dataset import Dataset
from tether.optimisation import Optimiser
from tether.training.loop import agent_epoch, learn, run_keys
from tether.training.sources import Rows
from tether.types import Batch, Key, Metrics, Problem, Spec, discrete_spec

SPEC = Spec(observation_size=2, action_low=(-1.0, 0.0), action_high=(1.0, 4.0))  # the second bounds are not symmetric
CHOICES = discrete_spec(observation_size=2, actions=2)
SPECS = {"continuous": SPEC, "discrete": CHOICES}
ROWS = 512
UPDATES = 250  # an epoch's

SMALL = {
    "batch_size": 32,
    "hidden_sizes": (16, 16),
    "predictor_sizes": (32, 32, 32),
    "target_sizes": (16, 16),
    "embedding_size": 4,
    "models": 3,
    "bits": 14,
    "learning_rate": 3e-3,
    "learning_rate_actor": 3e-3,
    "learning_rate_critic": 3e-3,
    "discount": 0.8,
    "target_mix": 0.05,
    "temperature": 1e-6,  # entropy must not show in values
    "divergence_weight": 1e-6,
    "conservative_weight": 1e-3,
    "sampled_actions": 2,
    "acting_samples": 10,
    "compared_actions": 2,
    "warm_up_steps": 0,
    "refresh_every": UPDATES,
    "alpha": 1e4,  # what an agent clones besides must not show in where its actor goes
    "bonus_weight": 0.5,
    "bonus_weight_actor": 5.0,
    "bonus_weight_critic": 0.5,
    "latent_size": 2,
    "steps": 1_000,
    "held_out_share": 0.05,
}


def small(kind: type, **settings: Any) -> Any:
    """The agent or bonus with what it has of the small settings, and with those given."""
    known = {field.name: SMALL[field.name] for field in fields(kind) if field.name in SMALL}
    return kind(**known | settings)


def with_one_setting_changed(thing: Any) -> dict[str, Any]:
    """By the name of each setting of an agent or bonus: the same with another value of that setting."""
    hints = get_type_hints(type(thing))

    def another(value: Any, hint: Any) -> Any:
        if isinstance(value, Optimiser):
            return Optimiser(clip_norm=0.5)
        if get_origin(hint) is Literal:
            return next(choice for choice in get_args(hint) if choice != value)
        if isinstance(value, bool):
            return not value
        if isinstance(value, tuple):
            return tuple(another(entry, type(entry)) for entry in value)
        return 2 * value + 1 if value != -1 else 1.0

    settings = {field.name: another(getattr(thing, field.name), hints[field.name]) for field in fields(thing)}
    return {name: replace(thing, **{name: value}) for name, value in settings.items()}


def transitions(
    action: np.ndarray, reward: np.ndarray | float, terminated: float, observation: np.ndarray | None = None
) -> Batch:
    """Rows whose observations, where none are given, say nothing."""
    random = np.random.default_rng(0)
    noise = random.normal(size=(2, ROWS, SPEC.observation_size))
    columns = (noise[0] if observation is None else observation, action, np.broadcast_to(reward, ROWS), noise[1])
    return Batch(*(jnp.asarray(column, jnp.float32) for column in columns), jnp.full(ROWS, terminated, jnp.float32))


def suited(rows: Batch, kind: str) -> Batch:
    """The same rows for actions of that kind. The first of two choices is an action whose first number is negative."""
    if kind == "continuous":
        return rows
    return rows._replace(action=jax.nn.one_hot((rows.action[:, 0] >= 0).astype(int), 2))


def uniform_actions() -> np.ndarray:
    return np.random.default_rng(1).uniform(SPEC.action_low, SPEC.action_high, (ROWS, SPEC.action_size))


def constant_reward(reward: float | np.ndarray = 1.0, terminated: float = 0.0) -> Batch:
    """Every step pays the same: Q = reward / (1 - discount) where nothing ends, Q = reward where every step ends."""
    return transitions(uniform_actions(), reward, terminated)


BEST = np.array([0.5, 1.0])


def bandit() -> Batch:
    """One step, all actions tried, reward -|a - BEST|^2. With a bowl of weighted steepness w around c, a mean of the two is best:

    argmax_a -|a - BEST|^2 - w |a - c|^2 = (BEST + w c) / (1 + w)
    """
    action = uniform_actions()
    return transitions(action, -np.sum((action - BEST) ** 2, axis=1), terminated=1.0)


def tempting_bandit() -> Batch:
    """One step, only actions near (0, 2) tried, and the more of the first the better: a critic extrapolates to its edge at 1."""
    action = np.array([0.0, 2.0]) + 0.1 * np.random.default_rng(2).normal(size=(ROWS, 2))
    return transitions(action, action[:, 0], terminated=1.0)


def linear_policy(observation: np.ndarray) -> np.ndarray:
    """`(0.1 + 0.5 s_1, 2 - s_2)`: within the bounds for observations within ±1."""
    return np.stack([0.1 + 0.5 * observation[:, 0], 2.0 - observation[:, 1]], axis=1)


def linear_behaviour() -> Batch:
    """What the linear policy did."""
    observation = np.random.default_rng(3).uniform(-1.0, 1.0, (ROWS, 2))
    return transitions(linear_policy(observation), 0.0, terminated=0.0, observation=observation)


def blob_action(observation: np.ndarray) -> np.ndarray:
    """(-0.5, 1) on the left, (0.5, 3) on the right."""
    return np.where(observation[:, :1] < 0, np.array([[-0.5, 1.0]]), np.array([[0.5, 3.0]]))


def two_blobs() -> Batch:
    """Observations close around (-1, 0) and (1, 0), and in each blob one action but for a little noise.

    One row in four is on the left: scaled halves would be mirror images, which a product of observation and action cannot tell.
    """
    random = np.random.default_rng(4)
    side = np.where(np.arange(ROWS) % 4 == 0, -1.0, 1.0)
    observation = np.stack([side, np.zeros(ROWS)], axis=1) + 0.1 * random.normal(size=(ROWS, 2))
    action = blob_action(observation) + 0.02 * random.normal(size=(ROWS, 2))
    return transitions(action, 0.0, terminated=0.0, observation=observation)


def as_dataset(rows: Batch, episodes: int = 8, spec: Spec = SPEC) -> Dataset:
    """The rows as a log of episodes of one length, all cut by a time limit."""
    ends = np.arange(1, episodes + 1) * (ROWS // episodes)
    truncated = np.isin(np.arange(1, ROWS + 1), ends)
    columns = Batch(*(np.asarray(column) for column in rows))
    return Dataset(columns, truncated, ends, np.zeros(episodes), spec, "problem", None, "0" * 64)


class BowlState(NamedTuple):
    floor: jax.Array  # ()
    steepness: jax.Array  # ()
    centre: jax.Array  # (A,)


@dataclass(frozen=True)
class Bowl:
    """A bonus of known shape, `floor + steepness |a - centre|^2`. The shape is its state: all bowls share what is compiled."""

    traits: ClassVar[BonusTraits] = BonusTraits(frozenset({VALUE, GRADIENT, SAMPLES, LOG_PROBABILITY, ANCHOR}))
    batch_shape: ClassVar[tuple[int, ...]] = (1,)

    steps: int = 0
    held_out_share: float = 0.0
    seed: int = 0

    def init(self, key: Key, problem: Problem) -> BowlState:
        return bowl_state()

    def update(self, fitting: BowlState, batch: Batch, key: Key) -> tuple[BowlState, Metrics]:
        return fitting, {}

    def frozen(self, fitting: BowlState) -> BowlState:
        return fitting

    def novelty(self, state: BowlState, observation: jax.Array, action: jax.Array, key: Key) -> jax.Array:
        return state.floor + state.steepness * jnp.sum(jnp.square(action - state.centre[None, :]), axis=1)

    def sample(self, state: BowlState, observation: jax.Array, key: Key) -> jax.Array:
        """Anything within the bounds."""
        low, high = jnp.asarray(SPEC.action_low)[None, :], jnp.asarray(SPEC.action_high)[None, :]
        return low + (high - low) * jax.random.uniform(key, (observation.shape[0], SPEC.action_size))

    def log_probability(self, state: BowlState, observation: jax.Array, action: jax.Array) -> jax.Array:
        return -self.novelty(state, observation, action, jax.random.key(0))

    def anchor(self, state: BowlState, observation: jax.Array) -> Anchor:
        """Its centre, give or take 0.5."""
        mean = jnp.broadcast_to(state.centre, (observation.shape[0], SPEC.action_size))
        return Anchor(mean, jnp.full_like(mean, 0.5))


def bowl_state(floor: float = 0.0, steepness: float = 0.0, centre: Sequence[float] | np.ndarray = (0.0, 2.0)) -> BowlState:
    return BowlState(*(jnp.asarray(value, jnp.float32) for value in (floor, steepness, centre)))


def rows_for(learner: Any, rows: Batch) -> Any:
    """The rows with the columns that the agent or bonus asks for, as eight episodes of one length."""
    spec = CHOICES if rows.action.shape == (ROWS, 2) and bool(jnp.all(jnp.sum(rows.action, axis=1) == 1.0)) else SPEC
    discount = getattr(learner, "discount", 1.0)  # a bonus has none
    return jax.tree.map(jnp.asarray, with_columns(as_dataset(rows, spec=spec), learner.traits.columns, discount))


def penalty(bowl: BowlState | None = None, kind: str = "continuous") -> FrozenBonus:
    """A bowl as an agent sees it; none: no bonus."""
    return FrozenBonus(Bowl(), bowl_state() if bowl is None else bowl, SPECS[kind])


def initial_state(agent: Any, spec: Spec = SPEC, seed: int = 0, rows: Batch | None = None, steps: int = 10_000) -> Any:
    """`rows` matter to an agent that looks at the data's moments.

    Operation by operation: these are compiled once for all agents, a whole `init` for each anew, which is dearer than an epoch.
    """
    if rows is None:
        rows = suited(constant_reward(), "discrete" if spec.discrete else "continuous")
    return agent.init(run_keys(seed)[0], Problem(spec, rows, steps))


def train(
    agent: Any, rows: Batch, bowl: BowlState | None = None, epochs: int = 1, seed: int = 0, kind: str = "continuous"
) -> tuple[Any, Metrics]:
    """The agent's state after some epochs under a bowl, and the metrics of the last. `kind` is that of the actions."""
    rows = suited(rows, kind)
    return go_on(agent, initial_state(agent, SPECS[kind], seed, rows), rows, bowl, epochs, seed, kind=kind)


def go_on(
    agent: Any,
    state: Any,
    rows: Batch,
    bowl: BowlState | None = None,
    epochs: int = 1,
    seed: int = 0,
    start: int = 0,
    kind: str = "continuous",
) -> tuple[Any, Metrics]:
    """The same from a state at epoch `start` on."""
    steps = UPDATES * agent.batch_shape[0]
    given = (penalty(bowl, kind),)
    ends = {"start": start * steps, "end": (start + epochs) * steps, "epoch_steps": steps, "stride": agent.batch_shape[0]}
    for epoch in learn(agent, state, Rows(rows_for(agent, rows)), run_keys(seed)[1], **ends, given=given, compiled=agent_epoch):  # noqa: B007
        pass
    return epoch.state, epoch.metrics


def named_log(seed: int = 0, columns: tuple[str, ...] = ("heat", "speed")) -> Dataset:
    """Twenty episodes of three rows."""
    import pandas as pd

    random = np.random.default_rng(seed)
    return tether.dataset(
        observations=pd.DataFrame(random.normal(size=(60, 2)), columns=list(columns)),
        actions=random.uniform(-1, 1, size=60),
        rewards=random.normal(size=60),
        terminated=np.zeros(60, bool),
        episode_ends=range(3, 63, 3),
    )

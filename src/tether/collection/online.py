"""TD3 or, where actions are discrete, DQN online, in blocks: act and learn for some thousand steps, evaluate, keep everything.

A block starts with a fresh episode and fresh random generators, all made from the seed and its first step. What it does thus
depends on nothing but the agent and the replay it starts from, and an interrupted training goes on from its last block to
the same end. The episode that runs when a block ends is cut, and recorded as cut.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from tether.agents import critic_steps
from tether.agents.dqn import DQN
from tether.agents.td3 import TD3
from tether.bonuses import FrozenBonus, NoBonus
from tether.collection.recording import Choose, Recorder, Recording, noisy, step_all, uniform
from tether.environments.making import action_limits, make_environment
from tether.environments.vectors import environment_spec
from tether.errors import TetherError
from tether.policies import act
from tether.training.loop import learn
from tether.training.sources import Replay
from tether.types import Batch, Problem, Spec, row_shapes

# Small networks, small batches and TD3's own learning rate, for speed. Pinned here, so that a new default for learning offline
# does not change what a command collects.
AGENT = TD3(
    hidden_sizes=(128, 128),
    layer_norm=False,
    batch_size=128,
    learning_rate_actor=1e-3,
    learning_rate_critic=1e-3,
    discount=0.99,
    target_mix=0.005,
    target_noise=0.2,
    target_noise_clip=0.5,
    actor_period=2,
)

# Without a bonus the weight is of nothing. The rates are those of common implementations for small tasks.
DISCRETE_AGENT = DQN(
    bonus_weight=0.0,
    hidden_sizes=(128, 128),
    batch_size=128,
    learning_rate=5e-4,
    discount=0.99,
    target_mix=0.005,
)

CHUNK = 50  # environment steps before as many critic steps; one compiled call takes the whole chunk


@dataclass(frozen=True)
class OnlineSettings:
    """Everything that decides how training goes, but not how long. Steps are of the environment; critic steps are as many."""

    env_id: str
    seed: int = 0
    warmup: int = 10_000  # steps of uniform actions before the first update
    exploration_noise: float = 0.1  # in half action ranges; where actions are discrete, the share of random ones
    evaluate_every: int = 5_000
    episodes: int = 5  # per evaluation
    agent: TD3 | DQN = AGENT

    def __post_init__(self) -> None:
        if critic_steps(self.agent) < 1 or CHUNK % critic_steps(self.agent):
            raise TetherError(f"agent.actor_period is {critic_steps(self.agent)}; it must divide {CHUNK}")
        if self.evaluate_every < CHUNK or self.evaluate_every % CHUNK:
            raise TetherError(f"--evaluate-every is {self.evaluate_every:,}; it must be a multiple of {CHUNK}")
        sizes = {"episodes": self.episodes, "batch-size": self.agent.batch_size, "hidden-sizes": min(self.agent.hidden_sizes)}
        for flag, size in sizes.items():
            if size < 1:
                raise TetherError(f"--{flag} is {size}; it must be at least 1")
        for flag, value in {"seed": self.seed, "warmup": self.warmup, "exploration-noise": self.exploration_noise}.items():
            if not value >= 0:
                raise TetherError(f"--{flag} is {value}; it must not be negative")


def spec_of(environment: gymnasium.Env, env_id: str) -> Spec:
    low, high = action_limits(environment)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise TetherError(f"environment {env_id} has unbounded actions, from {low} to {high}; collecting needs finite bounds")
    return environment_spec(environment)


def online_agent(env_id: str) -> TD3 | DQN:
    """The agent that can learn the environment's actions."""
    with closing(make_environment(env_id)) as environment:
        return DISCRETE_AGENT if environment_spec(environment).discrete else AGENT


def initial_state(settings: OnlineSettings, spec: Spec) -> Any:
    row = Batch(*(jnp.zeros((1, *shape)) for shape in row_shapes(spec)))  # there is no data yet to know anything of
    return settings.agent.init(_keys(settings)[0], Problem(spec, row))


def online_policy(settings: OnlineSettings, state: Any, spec: Spec) -> Any:
    """What acts, without noise."""
    return settings.agent.policies(state, penalty_of(spec))["online"]


def penalty_of(spec: Spec) -> FrozenBonus:
    return FrozenBonus(NoBonus(), (), spec)


def run_block(
    settings: OnlineSettings, environment: gymnasium.Env, state: Any, replay: Replay, show: Callable[[int], None]
) -> tuple[Any, Recording]:
    """One block, from as many steps on as the replay holds rows; it gets those of the block too."""
    agent, key, step = settings.agent, _keys(settings)[1], replay.size
    spec = environment_spec(environment)
    rng = generator(settings.seed, "block", step)
    recorder = Recorder(environment, settings.evaluate_every, seed=int(rng.integers(2**31)))
    explore_uniformly = uniform(rng, spec)
    metrics: dict[str, Any] = {}
    for start in range(step, step + settings.evaluate_every, CHUNK):
        explore = noisy(chooser(online_policy(settings, state, spec)), rng, settings.exploration_noise, spec)
        for at in range(start, start + CHUNK):
            choose = explore_uniformly if at < settings.warmup else explore
            step_all([recorder], choose)
        end = start + CHUNK
        replay.append(recorder.rows(start - step))
        if end > settings.warmup:
            # As many critic steps as steps of the environment, one epoch of updates, which are numbered by themselves.
            first, last = (at // critic_steps(agent) for at in (start, end))
            (epoch,) = learn(agent, state, replay, key, start=first, end=last, epoch_steps=CHUNK, given=(penalty_of(spec),))
            state, metrics = epoch.state, epoch.metrics
        show(end)
    broken = [name for name, value in metrics.items() if not np.isfinite(value)]
    if broken:
        raise TetherError(f"online training in {settings.env_id} diverged: {broken[0]} is not finite at step {end:,}")
    return state, recorder.finish()


def chooser(actor: Any) -> Choose:
    return lambda observations: np.asarray(act(actor, observations))


def generator(seed: int, purpose: str, *numbers: int) -> np.random.Generator:
    """A random generator of its own for each purpose."""
    return np.random.default_rng([seed, *purpose.encode(), *numbers])


def _keys(settings: OnlineSettings) -> Any:
    """Of the initial weights, and of the updates."""
    return jax.random.split(jax.random.key(settings.seed))

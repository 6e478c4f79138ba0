"""Behaviour cloning, the baseline for every score: the mean squared distance to the data's actions, and nothing else.

Discrete actions are cloned by cross-entropy; the policy takes the likeliest one.
The policy `target` is a slow average of the weights: nothing trains on it, and it scores better than the last weights do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import optax

from tether.agents.actor_critic import batch_number, data_distance
from tether.agents.base import AgentTraits
from tether.bonuses.base import VALUE
from tether.networks import Layers, make_network, observation_scaler
from tether.optimisation import ADAM, Optimiser, copy_of, mix
from tether.policies.deterministic import Deterministic, make_deterministic
from tether.policies.greedy import Greedy
from tether.settings import Amount, Share, ShareAboveZero, Size
from tether.types import Batch, Key, Metrics, Penalty, Problem

Cloner: TypeAlias = Deterministic | Greedy

ACTIVATIONS = ("tanh", "elu")


class BCState(NamedTuple):
    actor: Cloner
    target_actor: Cloner
    optimiser: optax.OptState


@dataclass(frozen=True)
class BC:
    """TD3's actor and optimiser, so that the difference between the two is the method and not the network."""

    traits: ClassVar[AgentTraits] = AgentTraits(
        policies=("online", "target"),
        actions=("continuous", "discrete"),
        requires=frozenset({VALUE}),
        usual_bonus="none",
        columns=("episode_rank",),
    )
    gone: ClassVar[tuple[str, ...]] = ("ema_mix", "ema_actor")  # of earlier versions: a setting, a part of the state
    discount: ClassVar[float] = 0.99  # it has no values; its episodes are weighed as those of agents that have

    best_share: ShareAboveZero = 1.0  # of the episodes, by return: only these are cloned; 0.1 is 10%-BC
    batch_size: Size = 256  # rows that are cloned at a step
    hidden_sizes: tuple[Size, ...] = (256, 256)  # tanh after the first, elu after the others
    layer_norm: bool = False
    learning_rate: Amount = 3e-4
    target_mix: Share = 0.005
    normalise_observations: bool = False  # by the data's moments
    optimiser: Optimiser = ADAM

    @property
    def batch_shape(self) -> tuple[int, ...]:
        # Drawn from all episodes: so many that about `batch_size` of them are of the best.
        return 1, math.ceil(self.batch_size / self.best_share)

    def init(self, key: Key, problem: Problem) -> BCState:
        actor = make_cloner(self, key, problem)
        return BCState(actor, copy_of(actor), self.optimiser.start(actor, self.learning_rate, problem.steps))

    def update(self, state: BCState, batches: Batch, key: Key, penalty: Penalty) -> tuple[BCState, Metrics]:
        batch, weight = batch_number(batches, 0), None
        if self.best_share < 1.0:
            batch, weight = best_rows(batch, self.best_share, self.batch_size)
        (loss, action), gradient = jax.value_and_grad(cloning_loss, has_aux=True)(
            state.actor, batch.observation, batch.action, weight
        )
        actor, optimiser = self.optimiser.step(state.actor, gradient, state.optimiser, self.learning_rate)
        # The bonus does not steer BC; it is reported to be compared with that of agents it does steer.
        bonus = penalty(batch.observation, action, key)
        state = BCState(actor, mix(state.target_actor, actor, self.target_mix), optimiser)
        distance = data_distance(action, batch.action)
        return state, {"actor/loss": loss, "actor/bonus": jnp.mean(bonus), "actor/data_distance": distance}

    def policies(self, state: BCState, penalty: Penalty) -> dict[str, Cloner]:
        return {"online": state.actor, "target": state.target_actor}

    def value(self, state: BCState, observation: jax.Array, action: jax.Array) -> None:
        return None


def make_cloner(agent: BC, key: Key, problem: Problem) -> Cloner:
    spec, scaler = problem.spec, observation_scaler(problem, agent.normalise_observations)
    layers = Layers(agent.hidden_sizes, ACTIVATIONS, "first" if agent.layer_norm else "none", scaler)
    if spec.discrete:
        return Greedy(make_network(key, spec, 0, layers, spec.action_size))
    return make_deterministic(key, spec, layers)


def best_rows(batch: Any, best_share: float, count: int) -> tuple[Any, jax.Array]:
    """The first `count` rows of the best episodes, and what each of them weighs, of mean 1.

    Where the batch has fewer of those, the rest weighs nothing.
    """
    best = batch.episode_rank < best_share
    (numbers,) = jnp.nonzero(best, size=count, fill_value=0)
    found = jnp.minimum(jnp.sum(best), count)
    weight = jnp.where(jnp.arange(count) < found, count / jnp.maximum(found, 1), 0.0)
    return jax.tree.map(lambda column: column[numbers], batch), weight


def cloning_loss(
    actor: Cloner, observation: jax.Array, recorded: jax.Array, weight: jax.Array | None = None
) -> tuple[jax.Array, jax.Array]:
    """The loss, its rows weighed by `(B,)` if that is given, and the actions that the policy takes, `(B, A)`."""
    if isinstance(actor, Deterministic):
        action = actor(observation)
        error = jnp.square(action - recorded)
        return jnp.mean(error if weight is None else error * weight[:, None]), action
    logits = actor.network(observation)
    action = jax.nn.one_hot(jnp.argmax(logits, axis=-1), logits.shape[1])
    likelihood = jnp.sum(recorded * jax.nn.log_softmax(logits), axis=-1)
    return -jnp.mean(likelihood if weight is None else likelihood * weight), action

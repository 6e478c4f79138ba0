"""Behaviour cloning, the baseline for every score: the mean squared distance to the data's actions, and nothing else.

Discrete actions are cloned by cross-entropy; the policy takes the likeliest one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax

from tether.networks import Actor, Greedy, make_actor, make_network
from tether.optimisation import adam_init, adam_step, copy_of, mix
from tether.types import Batch, Key, Metrics, Penalty, Spec


class BCState(NamedTuple):
    actor: Actor | Greedy
    target_actor: Actor | Greedy
    ema_actor: Actor | Greedy
    optimiser: optax.OptState


ACTIVATIONS = ("tanh", "elu")


@dataclass(frozen=True)
class BC:
    """TD3's actor and optimiser, so that the difference between the two is the method and not the network."""

    action_kinds: ClassVar[tuple[str, ...]] = ("continuous", "discrete")
    follows_penalty: ClassVar[bool] = False

    batch_size: int = 256
    hidden_sizes: tuple[int, int] = (256, 256)  # tanh after the first, elu after the second
    layer_norm: bool = False
    learning_rate: float = 3e-4
    target_mix: float = 0.005
    ema_mix: float = 0.0005

    @property
    def critic_steps(self) -> int:
        return 1

    def init(self, key: Key, spec: Spec) -> BCState:
        actor = make_cloner(self, key, spec)
        optimiser = adam_init(actor, self.learning_rate)
        return BCState(actor, copy_of(actor), copy_of(actor), optimiser)

    def update(self, state: BCState, batches: Batch, key: Key, penalty: Penalty) -> tuple[BCState, Metrics]:
        observation, recorded = batches.observation[0], batches.action[0]
        (loss, action), gradient = jax.value_and_grad(cloning_loss, has_aux=True)(state.actor, observation, recorded)
        actor, optimiser = adam_step(state.actor, gradient, state.optimiser, self.learning_rate)
        # The bonus does not steer BC; it is reported to be compared with that of agents it does steer.
        bonus = penalty(observation, action, key)
        state = BCState(
            actor,
            mix(state.target_actor, actor, self.target_mix),
            mix(state.ema_actor, actor, self.ema_mix),
            optimiser,
        )
        distance = jnp.mean(jnp.sum(jnp.square(action - recorded), axis=-1))
        return state, {"actor/loss": loss, "actor/bonus": jnp.mean(bonus), "actor/data_distance": distance}

    def policies(self, state: BCState, penalty: Penalty) -> dict[str, Actor | Greedy]:
        return {"online": state.actor, "target": state.target_actor, "ema": state.ema_actor}

    def value(self, state: BCState, observation: jax.Array, action: jax.Array) -> None:
        return None


def make_cloner(agent: BC, key: Key, spec: Spec) -> Actor | Greedy:
    if not spec.discrete:
        return make_actor(key, spec, agent.hidden_sizes, ACTIVATIONS, agent.layer_norm)
    activations = (*ACTIVATIONS, "none")
    return Greedy(make_network(key, spec, 0, agent.hidden_sizes, spec.action_size, activations, agent.layer_norm))


def cloning_loss(actor: Actor | Greedy, observation: jax.Array, recorded: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The loss, and the actions that the policy takes, `(B, A)`."""
    if isinstance(actor, Actor):
        action = actor(observation)
        return jnp.mean(jnp.square(action - recorded)), action
    logits = actor.network(observation)
    action = jax.nn.one_hot(jnp.argmax(logits, axis=-1), logits.shape[1])
    return -jnp.mean(jnp.sum(recorded * jax.nn.log_softmax(logits), axis=-1)), action

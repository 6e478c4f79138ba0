"""Behaviour cloning: the mean squared distance to the data's actions, and nothing else. The baseline for every score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax

from tether.networks import Actor, make_actor
from tether.optimisation import adam_init, adam_step, copy_of, mix
from tether.types import Batch, Key, Metrics, Penalty, Spec


class BCState(NamedTuple):
    actor: Actor
    target_actor: Actor
    ema_actor: Actor
    optimiser: optax.OptState


@dataclass(frozen=True)
class BC:
    """TD3's actor and optimiser, so that the difference between the two is the method and not the network."""

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
        actor = make_actor(key, spec, self.hidden_sizes, ("tanh", "elu"), self.layer_norm)
        optimiser = adam_init(actor, self.learning_rate)
        return BCState(actor, copy_of(actor), copy_of(actor), optimiser)

    def update(self, state: BCState, batches: Batch, key: Key, penalty: Penalty) -> tuple[BCState, Metrics]:
        def loss_of(actor: Actor) -> tuple[jax.Array, jax.Array]:
            action = actor(batches.observation[0])
            return jnp.mean(jnp.square(action - batches.action[0])), action

        (loss, action), gradient = jax.value_and_grad(loss_of, has_aux=True)(state.actor)
        actor, optimiser = adam_step(state.actor, gradient, state.optimiser, self.learning_rate)
        # The bonus does not steer BC; it is reported to be compared with that of agents it does steer.
        bonus = penalty(batches.observation[0], action, key)
        state = BCState(
            actor,
            mix(state.target_actor, actor, self.target_mix),
            mix(state.ema_actor, actor, self.ema_mix),
            optimiser,
        )
        distance = jnp.mean(jnp.sum(jnp.square(action - batches.action[0]), axis=-1))
        return state, {"actor/loss": loss, "actor/bonus": jnp.mean(bonus), "actor/data_distance": distance}

    def policies(self, state: BCState) -> dict[str, Actor]:
        return {"online": state.actor, "target": state.target_actor, "ema": state.ema_actor}

    def act(self, state: BCState, observation: jax.Array) -> jax.Array:
        return state.actor(observation)

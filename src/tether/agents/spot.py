"""SPOT (Wu et al. 2022): TD3 whose actor pays for actions that a CVAE finds unlikely. The nearest relative of TD3-CVAE.

    actor loss   E[lambda b(s, pi(s)) - Q_1(s, pi(s)) / E|Q_1|],   b the CVAE's negative bound

The critics' targets are TD3's own: the bonus is in the actor alone. The actor learns with dropout, and so does the target actor
propose, as in the authors' code. Presets give the CVAE the paper's settings: the bound as a mean over dimensions, two latents an
action, 750-750, a rate of 1e-3, batches of 256, 100,000 steps, normalised states. Other bonuses will do too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from tether.agents import actor_critic
from tether.agents.actor_critic import ActorCriticState, data_distance, unit_size
from tether.agents.base import AgentTraits
from tether.networks import Critics, Dropout, Norm
from tether.optimisation import ADAM, Optimiser
from tether.policies.deterministic import Deterministic
from tether.settings import Amount, Share, ShareBelowOne, Size
from tether.types import Batch, Key, Metrics, Penalty


@dataclass(frozen=True)
class SPOT:
    """Every knob of the agent; the paper's values."""

    traits: ClassVar[AgentTraits] = AgentTraits(main_policy="online", reward_scaling="none", values_of_rewards=True)

    bonus_weight_actor: Amount = 0.1  # the paper's lambda, which it chooses by dataset from 0.05 to 1
    batch_size: Size = 256
    hidden_sizes: tuple[Size, ...] = (256, 256)  # relu
    critic_norm: Norm = "none"  # layer norm in the critics alone
    layer_norm: bool = False
    dropout: ShareBelowOne = 0.1  # share of each hidden layer of the actor that is left out while it learns
    learning_rate_actor: Amount = 3e-4
    learning_rate_critic: Amount = 3e-4
    discount: ShareBelowOne = 0.99  # gamma
    target_mix: Share = 0.005  # share of the online weights mixed into the targets at each update (tau)
    ema_mix: Share = 0.0005  # the same for a slow average of the actor, never trained on
    target_noise: Amount = 0.2  # smoothing of the target action, in half action ranges
    target_noise_clip: Amount = 0.5
    actor_period: Size = 2  # critic steps per actor step
    normalise_observations: bool = True
    optimiser: Optimiser = ADAM

    batch_shape, init = actor_critic.batch_shape, actor_critic.start
    policies, value = actor_critic.policies, actor_critic.value

    def update(self, state: ActorCriticState, batches: Batch, key: Key, penalty: Penalty) -> tuple[ActorCriticState, Metrics]:
        proposing = partial(with_dropout, self.dropout, jax.random.fold_in(key, 1))
        return actor_critic.update(self, state, batches, key, partial(actor_loss, self, penalty), no_cost, proposing)


class Learning(NamedTuple):
    """An actor as it learns, parts of its layers left out."""

    actor: Deterministic
    dropout: Dropout

    def __call__(self, observation: jax.Array) -> jax.Array:
        return self.actor(observation, self.dropout)

    @property
    def low(self) -> tuple[float, ...]:
        return self.actor.low

    @property
    def high(self) -> tuple[float, ...]:
        return self.actor.high


def with_dropout(rate: float, key: Key, actor: Deterministic, rows: Batch) -> Deterministic | Learning:
    return Learning(actor, Dropout(rate, key)) if rate else actor


def no_cost(rows: Batch, action: jax.Array, proposed: jax.Array, key: Key) -> actor_critic.NextCostValue:
    return jnp.zeros(rows.reward.shape), {}


def actor_loss(
    agent: SPOT, penalty: Penalty, actor: Deterministic, critics: Critics, batch: Batch, key: Key
) -> tuple[jax.Array, Metrics]:
    action = with_dropout(agent.dropout, jax.random.fold_in(key, 1), actor, batch)(batch.observation)
    value, bonus = critics.first(batch.observation, action), penalty(batch.observation, action, key)
    loss = jnp.mean(agent.bonus_weight_actor * bonus - unit_size(value))
    metrics = {"actor/loss": loss, "actor/q": jnp.mean(value), "actor/bonus": jnp.mean(bonus)}
    return loss, metrics | {"actor/data_distance": data_distance(action, batch.action)}

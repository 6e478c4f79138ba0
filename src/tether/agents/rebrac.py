"""ReBRAC (Tarasov et al. 2023): TD3 that clones in the actor, and in the critic stays near the next recorded action.

    critic target   y = r + discount (1 - terminated) (min_i Qbar_i(s', a') - beta_c |a' - a'_recorded|^2)
    actor loss      E[beta_a |pi(s) - a|^2 - min_i Q_i(s, pi(s)) / E|min_i Q_i|]

Critics have layer norm after every hidden layer; three hidden layers, batches of 1,024, rates of 1e-3 (presets.py has the hand
tasks').
Differs from the paper: one pair of weights (its own for hopper-medium) instead of one for each dataset; the last layers start as
all others do; at the end of an episode, where no next action is recorded, the critic's penalty is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from tether.agents import actor_critic
from tether.agents.actor_critic import ActorCriticState, NextCostValue, data_distance, unit_size
from tether.agents.base import AgentTraits
from tether.bonuses.base import VALUE
from tether.networks import Critics, Norm, half_range
from tether.optimisation import ADAM, Optimiser
from tether.policies.deterministic import Deterministic
from tether.settings import Amount, Share, ShareBelowOne, Size
from tether.types import Batch, Key, Metrics, Penalty


@dataclass(frozen=True)
class ReBRAC:
    """Every knob of the agent; the paper's values for locomotion."""

    traits: ClassVar[AgentTraits] = AgentTraits(
        main_policy="online",
        requires=frozenset({VALUE}),
        usual_bonus="none",
        reward_scaling="none",
        columns=("next_action", "has_next_action"),
        holding_setting="cloning_weight_critic",
    )

    cloning_weight_actor: Amount = 0.01  # the paper's beta_1
    cloning_weight_critic: Amount = 0.01  # the paper's beta_2
    batch_size: Size = 1024
    hidden_sizes: tuple[Size, ...] = (256, 256, 256)  # relu
    critic_norm: Norm = "every"  # layer norm in the critics alone
    layer_norm: bool = False
    learning_rate_actor: Amount = 1e-3
    learning_rate_critic: Amount = 1e-3
    discount: ShareBelowOne = 0.99  # gamma
    target_mix: Share = 0.005  # share of the online weights mixed into the targets at each update (tau)
    ema_mix: Share = 0.0005  # the same for a slow average of the actor, never trained on
    target_noise: Amount = 0.2  # smoothing of the target action, in half action ranges
    target_noise_clip: Amount = 0.5
    actor_period: Size = 2  # critic steps per actor step
    normalise_observations: bool = False
    optimiser: Optimiser = ADAM

    batch_shape, init = actor_critic.batch_shape, actor_critic.start
    policies, value = actor_critic.policies, actor_critic.value

    def update(self, state: ActorCriticState, batches: Batch, key: Key, penalty: Penalty) -> tuple[ActorCriticState, Metrics]:
        unit = half_range(state.actor.low, state.actor.high)
        cost = partial(next_distance, self, unit)
        return actor_critic.update(self, state, batches, key, partial(actor_loss, self, penalty), cost)


def next_distance(agent: ReBRAC, unit: jax.Array, rows: Any, action: jax.Array, proposed: jax.Array, key: Key) -> NextCostValue:
    """The squared distance of the smoothed action to the next recorded one, in half action ranges."""
    distance = rows.has_next_action * jnp.sum(jnp.square((action - rows.next_action) / unit), axis=-1)
    return agent.cloning_weight_critic * distance, {"critic/cloning": distance}


def actor_loss(
    agent: ReBRAC, penalty: Penalty, actor: Deterministic, critics: Critics, batch: Batch, key: Key
) -> tuple[jax.Array, Metrics]:
    action = actor(batch.observation)
    value = jnp.min(critics(batch.observation, action), axis=0)
    cloning = jnp.mean(jnp.sum(jnp.square((action - batch.action) / half_range(actor.low, actor.high)), axis=-1))
    loss = agent.cloning_weight_actor * cloning - jnp.mean(unit_size(value))
    bonus = penalty(batch.observation, jax.lax.stop_gradient(action), key)  # told, not followed
    return loss, {
        "actor/loss": loss,
        "actor/q": jnp.mean(value),
        "actor/bonus": jnp.mean(bonus),
        "actor/cloning": cloning,
        "actor/data_distance": data_distance(action, batch.action),
    }

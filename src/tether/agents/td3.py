"""TD3 with an anti-exploration bonus in both losses (Rezaeifar et al., section 5; SPEC section 4).

    critic target   y = r + discount (1 - terminated) (min_i Qbar_i(s', a') - beta_c b(s', a'))
                    with a' = clip(pibar(s') + clip(noise))
    actor loss      - E[Q_1(s, pi(s)) - beta_a b(s, pi(s))]

Differs from the paper as printed:
- the critic's bonus is inside the discount and stops at termination, as in its section 3; its critic loss has it outside;
- the actor climbs the online Q_1, as TD3 does; the paper's equation has the target network;
- the actor's noise is 0 unless set.
Beyond the paper: a slow average of the actor is kept beside the target, to be evaluated with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp

from tether.agents import actor_critic
from tether.agents.actor_critic import ActorCriticState, data_distance, smoothed_action, unit_size
from tether.agents.base import AgentTraits
from tether.networks import Critics, Norm
from tether.optimisation import ADAM, Optimiser
from tether.policies.deterministic import Deterministic
from tether.settings import Amount, Share, ShareBelowOne, Size
from tether.types import Batch, Key, Metrics, Penalty, Problem

ACTIVATIONS = ("tanh", "elu")


@dataclass(frozen=True)
class TD3:
    """Every knob of the agent; the paper's values."""

    traits: ClassVar[AgentTraits] = AgentTraits(
        holding_setting="bonus_weight_critic", annealed=("bonus_weight_actor", "bonus_weight_critic"), values_of_rewards=True
    )

    bonus_weight_actor: Amount = 5.0  # the paper's beta_a: 5 for locomotion, 10 for manipulation
    bonus_weight_critic: Amount = 1.0  # the paper's beta_c: 1 for locomotion, 10 for manipulation
    batch_size: Size = 256
    hidden_sizes: tuple[Size, ...] = (256, 256)  # tanh after the first, elu after the others
    critic_norm: Norm = "none"  # layer norm in the critics alone: none, first or every (after each hidden layer)
    layer_norm: bool = False  # after the first product of actor and critics; measured both ways, see docs/paper-settings.md
    learning_rate_actor: Amount = 3e-4
    learning_rate_critic: Amount = 3e-4
    discount: ShareBelowOne = 0.99  # gamma
    target_mix: Share = 0.005  # share of the online weights mixed into the targets at each update (tau)
    targets_each_step: bool = False  # the critics' targets move with every critic step, not only with the actor
    ema_mix: Share = 0.0005  # the same for the slow average of the actor
    target_noise: Amount = 0.2  # smoothing of the target action, in half action ranges
    target_noise_clip: Amount = 0.5
    clean_bonus: bool = False  # the critics' bonus at the target action before its smoothing, which would itself be charged
    normalise_q: bool = False  # divide Q by its mean size in the actor's loss; the weight is then in that unit
    actor_noise: Amount = 0.0  # the paper's sigma in the actor loss, in half action ranges
    actor_period: Size = 2  # critic steps per actor step
    normalise_observations: bool = False  # by the data's moments, inside actor and critics
    optimiser: Optimiser = ADAM

    batch_shape, policies, value = actor_critic.batch_shape, actor_critic.policies, actor_critic.value

    def init(self, key: Key, problem: Problem) -> ActorCriticState:
        return actor_critic.start(self, key, problem, ACTIVATIONS)

    def update(self, state: ActorCriticState, batches: Batch, key: Key, penalty: Penalty) -> tuple[ActorCriticState, Metrics]:
        loss, cost = partial(actor_loss, self, penalty), partial(actor_critic.next_bonus, self, penalty)
        return actor_critic.update(self, state, batches, key, loss, cost, targets_each_step=self.targets_each_step)


def actor_loss(
    agent: TD3, penalty: Penalty, actor: Deterministic, critics: Critics, batch: Batch, key: Key
) -> tuple[jax.Array, Metrics]:
    key_noise, key_bonus = jax.random.split(key)
    proposed = actor(batch.observation)
    action = proposed
    if agent.actor_noise > 0:  # not clipped in itself: the paper's Gaussian; the bounds still hold
        action = smoothed_action(proposed, key_noise, agent.actor_noise, jnp.inf, actor.low, actor.high)
    value = critics.first(batch.observation, action)
    bonus = penalty(batch.observation, action, key_bonus)
    loss = -jnp.mean((unit_size(value) if agent.normalise_q else value) - agent.bonus_weight_actor * bonus)
    return loss, {
        "actor/loss": loss,
        "actor/q": jnp.mean(value),
        "actor/bonus": jnp.mean(bonus),
        "actor/data_distance": data_distance(proposed, batch.action),
    }

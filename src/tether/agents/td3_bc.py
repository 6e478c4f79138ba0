"""TD3+BC (Fujimoto and Gu 2021): TD3 whose actor also clones, with Q brought to one size so that the two can be weighed.

    actor loss   - lambda E[Q_1(s, pi(s))] + E[(pi(s) - a)^2],   lambda = alpha / E|Q_1(s, pi(s))|

States are normalised, networks are relu, rewards are as they were recorded.
The cloning term is in half action ranges, as it is for the paper's tasks. Beyond it: a bonus that has weights, as in `td3`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp

from tether.agents import actor_critic
from tether.agents.actor_critic import ActorCriticState, data_distance, unit_size
from tether.agents.base import AgentTraits
from tether.networks import Critics, Norm, half_range
from tether.optimisation import ADAM, Optimiser
from tether.policies.deterministic import Deterministic
from tether.settings import Amount, Share, ShareBelowOne, Size
from tether.types import Batch, Key, Metrics, Penalty, Problem


@dataclass(frozen=True)
class TD3BC:
    """Every knob of the agent; the paper's values."""

    traits: ClassVar[AgentTraits] = AgentTraits(
        main_policy="online",
        usual_bonus="none",
        reward_scaling="none",
        values_of_rewards=True,
        annealed=("bonus_weight_actor", "bonus_weight_critic"),
    )

    alpha: Amount = 2.5  # how much Q weighs against cloning
    bonus_weight_actor: Amount = 0.0  # in units of Q's mean size
    bonus_weight_critic: Amount = 0.0
    clean_bonus: bool = True  # the critics' bonus at the target action before its smoothing
    batch_size: Size = 256
    hidden_sizes: tuple[Size, ...] = (256, 256)  # relu
    critic_norm: Norm = "none"  # layer norm in the critics alone
    layer_norm: bool = False
    learning_rate_actor: Amount = 3e-4
    learning_rate_critic: Amount = 3e-4
    discount: ShareBelowOne = 0.99  # gamma
    target_mix: Share = 0.005  # share of the online weights mixed into the targets at each update (tau)
    ema_mix: Share = 0.0005  # the same for a slow average of the actor, never trained on
    target_noise: Amount = 0.2  # smoothing of the target action, in half action ranges
    target_noise_clip: Amount = 0.5
    actor_period: Size = 2  # critic steps per actor step
    normalise_observations: bool = True
    bound_values: bool = False  # critic targets stay within what the log's rewards allow
    optimiser: Optimiser = ADAM

    batch_shape = actor_critic.batch_shape
    policies, value = actor_critic.policies, actor_critic.value

    def init(self, key: Key, problem: Problem) -> ActorCriticState:
        state = actor_critic.start(self, key, problem, bounded=self.bound_values)
        if state.possible is None or self.bonus_weight_critic == 0.0:
            return state
        # What is to be paid for a bonus knows no least; an infinity in the state would be taken for a weight that diverged.
        return state._replace(possible=state.possible.at[0].set(jnp.finfo(jnp.float32).min))

    def update(self, state: ActorCriticState, batches: Batch, key: Key, penalty: Penalty) -> tuple[ActorCriticState, Metrics]:
        loss, cost = partial(actor_loss, self, penalty), partial(actor_critic.next_bonus, self, penalty)
        return actor_critic.update(self, state, batches, key, loss, cost)


def actor_loss(
    agent: TD3BC, penalty: Penalty, actor: Deterministic, critics: Critics, batch: Batch, key: Key
) -> tuple[jax.Array, Metrics]:
    action = actor(batch.observation)
    value, bonus = critics.first(batch.observation, action), penalty(batch.observation, action, key)
    cloning = jnp.mean(jnp.square((action - batch.action) / half_range(actor.low, actor.high)))
    loss = cloning - agent.alpha * jnp.mean(unit_size(value) - agent.bonus_weight_actor * bonus)
    metrics = {"actor/loss": loss, "actor/q": jnp.mean(value), "actor/bonus": jnp.mean(bonus), "actor/cloning": cloning}
    return loss, metrics | {"actor/data_distance": data_distance(action, batch.action)}

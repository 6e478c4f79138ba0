"""SAC (Haarnoja et al. 2018) with an anti-exploration bonus in both losses, as TD3 has it here.

    critic target   y = r + discount (1 - terminated) (min_i Qbar_i(s', a') - alpha log pi(a'|s') - beta_c b(s', a')), a' ~ pi(s')
    actor loss      E[alpha log pi(a|s) - min_i Q_i(s, a) + beta_a b(s, a)],   a ~ pi(s)

alpha tunes itself towards an entropy of -1 for each action, of actions in their own bounds. With `--bonus rnd-film` this is
SAC-RND (Nikulin et al. 2023), whose sizes the defaults are: three hidden layers, layer norm in the critics, batches of 1,024,
rates of 1e-3. It has one weight for actor and critics, chosen by dataset; ours are not, and have no claim. Differs from its code:
there the actor steps before the critics, its log-std is at least -5, its last layer and all biases start elsewhere, and the loss
of the temperature is in alpha, not in its logarithm.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp

from tether.agents import soft
from tether.agents.base import AgentTraits
from tether.agents.soft import Drawn, SoftState
from tether.networks import Norm
from tether.optimisation import ADAM, Optimiser
from tether.policies.gaussian import SquashedGaussian
from tether.settings import Amount, Share, ShareBelowOne, Size
from tether.types import Batch, Key, Metrics, Penalty


@dataclass(frozen=True)
class SAC:
    """Every knob of the agent; SAC-RND's values."""

    traits: ClassVar[AgentTraits] = AgentTraits(
        policies=("online", "target"),
        main_policy="online",
        usual_bonus="rnd-film",
        reward_scaling="none",
        holding_setting="bonus_weight_critic",
        annealed=("bonus_weight_actor", "bonus_weight_critic"),
    )

    bonus_weight_actor: Amount = 1.0  # the paper's beta_1
    bonus_weight_critic: Amount = 1.0  # the paper's beta_2
    temperature: Amount = 1.0  # alpha, at the start
    target_entropy: float = -1.0  # for each action
    batch_size: Size = 1024
    hidden_sizes: tuple[Size, ...] = (256, 256, 256)  # relu
    critic_norm: Norm = "every"  # layer norm in the critics
    learning_rate_actor: Amount = 1e-3  # also of the temperature
    learning_rate_critic: Amount = 1e-3
    discount: ShareBelowOne = 0.99  # gamma
    target_mix: Share = 0.005  # share of the online weights mixed into the targets at each step
    normalise_observations: bool = False
    optimiser: Optimiser = ADAM

    batch_shape, init, policies, value = soft.batch_shape, soft.start, soft.policies, soft.value

    def update(self, state: SoftState, batches: Batch, key: Key, penalty: Penalty) -> tuple[SoftState, Metrics]:
        temperature = jnp.exp(state.log_temperature)
        next_cost = partial(next_entropy_and_bonus, self, penalty, temperature)
        actor_cost = partial(entropy_and_bonus, self, penalty, temperature, batches.observation[0])
        return soft.update(self, state, batches, key, next_cost, actor_cost)


def next_entropy_and_bonus(
    agent: SAC, penalty: Penalty, temperature: jax.Array, policy: SquashedGaussian, batch: Batch, drawn: Drawn, key: Key
) -> tuple[jax.Array, Metrics]:
    bonus = penalty(batch.next_observation, drawn.action, key)
    return temperature * drawn.log_probability + agent.bonus_weight_critic * bonus, {"critic/bonus": jnp.mean(bonus)}


def entropy_and_bonus(
    agent: SAC,
    penalty: Penalty,
    temperature: jax.Array,
    observation: jax.Array,
    policy: SquashedGaussian,
    drawn: Drawn,
    key: Key,
) -> tuple[jax.Array, Metrics]:
    bonus = penalty(observation, drawn.action, key)
    return temperature * drawn.log_probability + agent.bonus_weight_actor * bonus, {"actor/bonus": jnp.mean(bonus)}

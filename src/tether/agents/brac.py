"""BRAC (Wu, Tucker and Nachum 2019): an actor that pays for its divergence from a cloned behaviour policy.

    D(s)            E[log pi(a|s) - log pi_b(a|s)],   a ~ pi(s):  the KL, by a few samples
    critic target   y = r + discount (1 - terminated) (min_i Qbar_i(s', a') - alpha_D D(s')),   in `brac-v` alone
    actor loss      E[alpha_D D(s) - min_i Q_i(s, a)],   in both; for the first `warm_up_steps` without Q

pi_b is the bonus: any that offers a log-probability, `density` unless another is named. Of the paper's divergences this is the KL
in its primal form. Differs from the paper: one weight and one rate of the actor for all datasets, where the paper searches for
each. Differs from its authors' code: pi_b is a Gaussian of the action itself, where theirs is one before tanh; all hidden layers
have 256 units, where their critics have 300 and their actor 200.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from tether.agents import soft
from tether.agents.base import AgentTraits
from tether.agents.soft import Drawn, SoftState
from tether.bonuses.base import LOG_PROBABILITY, VALUE
from tether.networks import Norm
from tether.optimisation import ADAM, Optimiser, steps_made
from tether.policies.gaussian import SquashedGaussian
from tether.settings import Amount, Share, ShareBelowOne, Size, Steps
from tether.types import Batch, Key, Metrics, Penalty


@dataclass(frozen=True)
class BRACp:
    """Every knob of the agent; the divergence is in the actor's loss alone."""

    traits: ClassVar[AgentTraits] = AgentTraits(
        policies=("online", "target"),
        main_policy="online",
        requires=frozenset({VALUE, LOG_PROBABILITY}),
        usual_bonus="density",
        reward_scaling="none",
        holding_setting="divergence_weight",
    )
    in_the_value: ClassVar[bool] = False
    temperature: ClassVar[float] = 1.0
    target_entropy: ClassVar[None] = None  # no temperature is tuned: the divergence holds the entropy
    formerly: ClassVar[dict[str, Any]] = {"divergence_samples": 1, "warm_up_steps": 0}  # what it was in runs that do not say

    divergence_weight: Amount = 1.0  # alpha_D
    divergence_samples: Size = 4  # actions by which the divergence is measured
    warm_up_steps: Steps = 20_000  # in which the actor looks at the divergence alone
    batch_size: Size = 256
    hidden_sizes: tuple[Size, ...] = (256, 256)  # relu
    critic_norm: Norm = "none"
    learning_rate_actor: Amount = 3e-4
    learning_rate_critic: Amount = 1e-3
    discount: ShareBelowOne = 0.99  # gamma
    target_mix: Share = 0.005  # share of the online weights mixed into the targets at each step
    normalise_observations: bool = False
    optimiser: Optimiser = ADAM

    batch_shape, init, policies, value = soft.batch_shape, soft.start, soft.policies, soft.value

    def update(self, state: SoftState, batches: Batch, key: Key, penalty: Penalty) -> tuple[SoftState, Metrics]:
        next_cost = partial(next_divergence, self, penalty)
        actor_cost = partial(divergence_here, self, penalty, batches.observation[0])
        q_share = jnp.where(steps_made(state.actor_optimiser) >= self.warm_up_steps, 1.0, 0.0)
        return soft.update(self, state, batches, key, next_cost, actor_cost, q_share=q_share)


@dataclass(frozen=True)
class BRACv:
    """The same with the divergence in the value too. Its settings are those above: nothing is inherited here."""

    traits: ClassVar[AgentTraits] = BRACp.traits
    in_the_value: ClassVar[bool] = True
    temperature: ClassVar[float] = 1.0
    target_entropy: ClassVar[None] = None
    formerly: ClassVar[dict[str, Any]] = BRACp.formerly

    divergence_weight: Amount = 1.0  # alpha_D
    divergence_samples: Size = 4  # actions by which the divergence is measured
    warm_up_steps: Steps = 20_000  # in which the actor looks at the divergence alone
    batch_size: Size = 256
    hidden_sizes: tuple[Size, ...] = (256, 256)  # relu
    critic_norm: Norm = "none"
    learning_rate_actor: Amount = 3e-4
    learning_rate_critic: Amount = 1e-3
    discount: ShareBelowOne = 0.99  # gamma
    target_mix: Share = 0.005  # share of the online weights mixed into the targets at each step
    normalise_observations: bool = False
    optimiser: Optimiser = ADAM

    batch_shape, init, policies, value = soft.batch_shape, soft.start, soft.policies, soft.value
    update = BRACp.update


def next_divergence(
    agent: Any, behaviour: Any, policy: SquashedGaussian, batch: Batch, drawn: Drawn, key: Key
) -> tuple[jax.Array, Metrics]:
    found = divergence(policy, behaviour, batch.next_observation, agent.divergence_samples, key)
    return agent.divergence_weight * found * agent.in_the_value, {"critic/divergence": jnp.mean(found)}


def divergence_here(
    agent: Any, behaviour: Any, observation: jax.Array, policy: SquashedGaussian, drawn: Drawn, key: Key
) -> tuple[jax.Array, Metrics]:
    key_divergence, key_bonus = jax.random.split(key)
    found = divergence(policy, behaviour, observation, agent.divergence_samples, key_divergence)
    bonus = behaviour(observation, jax.lax.stop_gradient(drawn.action), key_bonus)  # told, not followed
    return agent.divergence_weight * found, {"actor/divergence": jnp.mean(found), "actor/bonus": jnp.mean(bonus)}


def divergence(policy: SquashedGaussian, behaviour: Any, observation: jax.Array, samples: int, key: Key) -> jax.Array:
    """The mean of `log pi - log pi_b` over actions of the policy, `(B,)`. Neither network sees an observation more than once."""

    def of_one(key: Key) -> jax.Array:
        action, log_probability = policy.sample_with_log_probability(observation, key)
        return log_probability - behaviour.log_probability(observation, action)

    return jnp.mean(jax.vmap(of_one)(jax.random.split(key, samples)), axis=0)

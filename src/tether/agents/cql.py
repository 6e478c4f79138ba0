"""CQL(H), conservative Q-learning (Kumar et al. 2020): SAC whose critics are pushed down on what the policy would do.

    gap_i          E[log sum_a exp Q_i(s, a) - Q_i(s, a_recorded)],   the sum by importance over uniform actions, pi(s) and pi(s')
    critic loss    sum_i E[(r + discount (1 - terminated) min_j Qbar_j(s', a') - Q_i(s, a))^2] + weight sum_i gap_i
    actor loss     E[alpha log pi(a|s) - min_i Q_i(s, a)]

No entropy in the target, three hidden layers in actor and critics, the actor's rate a tenth of the critics'. A `gap_target` above
0 is the Lagrange variant: the weight is tuned until the gap is that large.
As in the authors' code the sum is not divided by how many proposals it has: a flat Q has a gap of log(30) + A log 2 on [-1, 1]^A.
Differs from it: the actor does not start by cloning, and has the paper's rate, where their README has 1e-4 or 3e-4. The Lagrange
variant is multiplier weight (gap - target) here, multiplier (weight gap - threshold) there: their threshold is weight times ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax

from tether.agents import soft
from tether.agents.base import AgentTraits
from tether.agents.soft import Drawn, SoftState
from tether.bonuses.base import VALUE
from tether.networks import Critics, Norm, half_range
from tether.optimisation import ADAM, Optimiser
from tether.policies.gaussian import SquashedGaussian
from tether.settings import Amount, Share, ShareBelowOne, Size
from tether.types import Batch, Key, Metrics, Penalty, Problem

MOST_WEIGHT = 1e6  # of the Lagrange variant


class CQLState(NamedTuple):
    soft: SoftState
    log_multiplier: jax.Array  # () of the Lagrange variant
    multiplier_optimiser: optax.OptState


@dataclass(frozen=True)
class CQL:
    """Every knob of the agent; the authors' values for locomotion."""

    traits: ClassVar[AgentTraits] = AgentTraits(
        policies=("online", "target"),
        main_policy="online",
        requires=frozenset({VALUE}),
        usual_bonus="none",
        reward_scaling="none",
        holding_setting="conservative_weight",
        raises_values=True,  # above those of others
    )

    conservative_weight: Amount = 10.0  # of the gap
    gap_target: Amount = 0.0  # above 0: the Lagrange variant, whose weight is tuned for this gap
    sampled_actions: Size = 10  # of each kind in the sum
    temperature: Amount = 1.0  # alpha, at the start
    target_entropy: float = -1.0  # for each action
    batch_size: Size = 256
    hidden_sizes: tuple[Size, ...] = (256, 256, 256)  # relu
    critic_norm: Norm = "none"
    learning_rate_actor: Amount = 3e-5  # also of the temperature
    learning_rate_critic: Amount = 3e-4
    discount: ShareBelowOne = 0.99  # gamma
    target_mix: Share = 0.005  # share of the online weights mixed into the targets at each step
    normalise_observations: bool = False
    optimiser: Optimiser = ADAM

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return 1, self.batch_size

    def init(self, key: Key, problem: Problem) -> CQLState:
        log_multiplier = jnp.zeros(())
        optimiser = self.optimiser.start(log_multiplier, self.learning_rate_critic, problem.steps)
        return CQLState(soft.start(self, key, problem), log_multiplier, optimiser)

    def update(self, state: CQLState, batches: Batch, key: Key, penalty: Penalty) -> tuple[CQLState, Metrics]:
        key_soft, key_gap = jax.random.split(key)
        inner, observation = state.soft, batches.observation[0]
        lagrange = self.gap_target > 0
        multiplier = jnp.minimum(jnp.exp(state.log_multiplier), MOST_WEIGHT) if lagrange else jnp.ones(())
        proposals = propose(self, inner.actor, observation, batches.next_observation[0], key_gap)

        def conservative(critics: Critics, values: jax.Array) -> tuple[jax.Array, Metrics]:
            gap = jnp.mean(conservative_gap(critics, observation, proposals, values), axis=1)
            weight = jax.lax.stop_gradient(multiplier) * self.conservative_weight
            return jnp.sum(weight * (gap - self.gap_target)), {"critic/gap": jnp.mean(gap)}

        temperature = jnp.exp(inner.log_temperature)
        inner, metrics = soft.update(
            self, inner, batches, key_soft, no_cost, partial(entropy, penalty, temperature, observation), conservative
        )
        if not lagrange:
            return state._replace(soft=inner), metrics
        # The slope of -multiplier (gap - target): the weight grows while the gap is too large.
        slope = -multiplier * self.conservative_weight * (metrics["critic/gap"] - self.gap_target)
        log_multiplier, optimiser = self.optimiser.step(
            state.log_multiplier, slope, state.multiplier_optimiser, self.learning_rate_critic
        )
        return CQLState(inner, log_multiplier, optimiser), metrics

    def policies(self, state: CQLState, penalty: Penalty) -> dict[str, SquashedGaussian]:
        return soft.policies(self, state.soft, penalty)

    def value(self, state: CQLState, observation: jax.Array, action: jax.Array) -> jax.Array:
        return soft.value(self, state.soft, observation, action)


class Proposals(NamedTuple):
    """Actions to push down, `(K, B, A)`, and the log-densities they were drawn with, `(K, B)`."""

    action: jax.Array
    log_density: jax.Array


def propose(agent: CQL, actor: SquashedGaussian, observation: jax.Array, next_observation: jax.Array, key: Key) -> Proposals:
    """Uniform actions, the policy's own, and its own of the next observation: as many of each."""
    key_uniform, key_here, key_next = jax.random.split(key, 3)
    low, size = jnp.asarray(actor.low), len(actor.low)
    unit = jax.random.uniform(key_uniform, (agent.sampled_actions, observation.shape[0], size))
    uniform = low[None, None, :] + unit * 2.0 * half_range(actor.low, actor.high)[None]
    volume = jnp.sum(jnp.log(2.0 * half_range(actor.low, actor.high)))

    def of(observations: jax.Array, key: Key) -> tuple[jax.Array, jax.Array]:
        return jax.vmap(lambda key: actor.sample_with_log_probability(observations, key))(
            jax.random.split(key, agent.sampled_actions)
        )

    here, there = of(observation, key_here), of(next_observation, key_next)
    density = jnp.concatenate([jnp.full(unit.shape[:2], -volume), here[1], there[1]])
    return Proposals(*jax.lax.stop_gradient((jnp.concatenate([uniform, here[0], there[0]]), density)))


def conservative_gap(critics: Critics, observation: jax.Array, proposals: Proposals, values: jax.Array) -> jax.Array:
    """`log sum exp` of Q over the proposals, each divided by its density, less Q of the recorded action: `(critics, B)`."""
    count, rows, size = proposals.action.shape
    # All pairs as rows of one product: with one axis more a CPU takes longer for the same products (docs/speed.md).
    repeated = jnp.tile(observation, (count, 1))
    pushed = critics(repeated, proposals.action.reshape(count * rows, size)).reshape(-1, count, rows)
    return jax.nn.logsumexp(pushed - proposals.log_density[None], axis=1) - values


def no_cost(policy: SquashedGaussian, batch: Batch, drawn: Drawn, key: Key) -> tuple[jax.Array, Metrics]:
    return jnp.zeros(batch.reward.shape), {}


def entropy(
    penalty: Penalty, temperature: jax.Array, observation: jax.Array, policy: SquashedGaussian, drawn: Drawn, key: Key
) -> tuple[jax.Array, Metrics]:
    bonus = penalty(observation, jax.lax.stop_gradient(drawn.action), key)  # told, not followed
    return temperature * drawn.log_probability, {"actor/bonus": jnp.mean(bonus)}

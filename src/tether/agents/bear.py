"""BEAR (Kumar et al. 2019): an actor that may do anything the data's policy might do, however seldom it did it.

    MMD(s)          distance between samples of pi(s) and of a generator G(s), by a kernel, before squashing
    critic target   y = r + discount (1 - terminated) max_k (0.75 min_i Qbar_i + 0.25 max_i Qbar_i)(s', a_k),   a_k ~ pibar(s')
    actor loss      E[multiplier (MMD(s) - threshold) - min_i Q_i(s, a)],   a ~ pi(s); in the first steps without Q
    multiplier      moves up while E[MMD] is above the threshold, down while it is below: a dual step
    acting          the best of 100 actions of pi by Q_1

G is the bonus: the CVAE, or any other that offers samples. Presets give it the authors' latents and rate.
The authors have two programs, that of the paper and that of D4RL's evaluations (2020). Of the first are the kernel and its width,
batches, sizes, warm-up and the slow actor of the target; of the second the rates, how networks start, a multiplier that starts
at 1, Q of one action in the actor's loss, the best of 100 actions for acting, and actions that are compared as they are drawn.
(The first clips their noise at half a standard deviation, takes the mean Q of all of them, has rates of 1e-3, starts networks as
PyTorch does and acts by the best of 10. The second has a Gaussian kernel of width 50, batches of 256 and a warm-up of 40,000.)
Differs from both: the CVAE is fitted beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax

from tether.agents.actor_critic import batch_number, bellman_target, critic_loss, data_distance
from tether.agents.base import AgentTraits
from tether.agents.bcq import best_of_mixed
from tether.bonuses.base import SAMPLES, VALUE
from tether.networks import Critics, Layers, make_critics, observation_scaler, scale_to_bounds
from tether.optimisation import ADAM, Optimiser, copy_of, mix
from tether.policies.best_of_samples import BestOfSamples
from tether.policies.gaussian import SquashedGaussian, before_squashing, make_squashed_gaussian
from tether.settings import Amount, Share, ShareBelowOne, Size, Steps
from tether.types import Batch, Key, Metrics, Penalty, Problem

LOG_MULTIPLIER_LIMITS = (-5.0, 10.0)
FLOOR = 1e-6  # under the root: its slope at 0 is infinite


class BEARState(NamedTuple):
    actor: SquashedGaussian
    target_actor: SquashedGaussian
    critics: Critics
    target_critics: Critics
    log_multiplier: jax.Array  # ()
    done: jax.Array  # () int32 steps
    actor_optimiser: optax.OptState
    critic_optimiser: optax.OptState
    multiplier_optimiser: optax.OptState


@dataclass(frozen=True)
class BEAR:
    """Every knob of the agent; the authors' values."""

    traits: ClassVar[AgentTraits] = AgentTraits(
        policies=("online", "target"),
        main_policy="online",
        requires=frozenset({VALUE, SAMPLES}),
        reward_scaling="none",
        values_of_rewards=True,
    )

    threshold: Amount = 0.05  # of the MMD
    kernel: Literal["laplacian", "gaussian"] = "laplacian"
    kernel_width: Amount = 20.0  # sigma
    compared_actions: Size = 5  # of the policy, and of the generator
    warm_up_steps: Steps = 20_000  # in which the actor looks at the MMD alone
    samples: Size = 10  # actions considered in the target
    acting_samples: Size = 100  # the same for acting
    least_share: Share = 0.75  # of the smaller critic in the target; the rest is of the larger
    batch_size: Size = 100
    hidden_sizes: tuple[Size, ...] = (400, 300)  # relu
    learning_rate_actor: Amount = 1e-4
    learning_rate_critic: Amount = 3e-4
    learning_rate_multiplier: Amount = 1e-3
    discount: ShareBelowOne = 0.99  # gamma
    target_mix: Share = 0.005  # share of the online weights mixed into the targets at each step
    normalise_observations: bool = False
    optimiser: Optimiser = ADAM

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return 1, self.batch_size

    def init(self, key: Key, problem: Problem) -> BEARState:
        key_actor, key_critics = jax.random.split(key)
        layers = Layers(self.hidden_sizes, scaler=observation_scaler(problem, self.normalise_observations))
        actor, critics = (
            make_squashed_gaussian(key_actor, problem.spec, layers._replace(last_within=1e-3)),
            make_critics(key_critics, problem.spec, 2, layers._replace(last_within=3e-3)),
        )
        log_multiplier = jnp.zeros(())
        return BEARState(
            actor=actor,
            target_actor=copy_of(actor),
            critics=critics,
            target_critics=copy_of(critics),
            log_multiplier=log_multiplier,
            done=jnp.zeros((), jnp.int32),
            actor_optimiser=self.optimiser.start(actor, self.learning_rate_actor, problem.steps),
            critic_optimiser=self.optimiser.start(critics, self.learning_rate_critic, problem.steps),
            multiplier_optimiser=self.optimiser.start(log_multiplier, self.learning_rate_multiplier, problem.steps),
        )

    def update(self, state: BEARState, batches: Batch, key: Key, penalty: Any) -> tuple[BEARState, Metrics]:
        batch = batch_number(batches, 0)
        key_next, key_actor, key_generator, key_bonus = jax.random.split(key, 4)
        target = bellman_target(batch.reward, batch.terminated, best_value(self, state, batch, key_next), self.discount)
        (loss, values), gradient = jax.value_and_grad(critic_loss, has_aux=True)(state.critics, batch, target)
        critics, critic_optimiser = self.optimiser.step(
            state.critics, gradient, state.critic_optimiser, self.learning_rate_critic
        )

        low, high = state.actor.low, state.actor.high
        repeated = jnp.tile(batch.observation, (self.compared_actions, 1))
        likely = before_squashing(penalty.sample(repeated, key_generator), low, high)
        likely = likely.reshape(self.compared_actions, *batch.action.shape)
        multiplier = jnp.exp(state.log_multiplier)
        warm = state.done >= self.warm_up_steps

        def loss_of(actor: SquashedGaussian) -> tuple[jax.Array, tuple[jax.Array, jax.Array, jax.Array]]:
            mean, log_std = actor.moments(batch.observation)
            raw = mean[None] + jnp.exp(log_std)[None] * jax.random.normal(key_actor, likely.shape)
            action = scale_to_bounds(jnp.tanh(raw[0]), low, high)
            value = jnp.min(critics(batch.observation, action), axis=0)
            distance = jnp.mean(mmd(raw, likely, self.kernel, self.kernel_width))
            followed = jnp.where(warm, jnp.mean(value), 0.0)
            return multiplier * (distance - self.threshold) - followed, (action, jnp.mean(value), distance)

        (actor_loss, (action, value, distance)), gradient = jax.value_and_grad(loss_of, has_aux=True)(state.actor)
        actor, actor_optimiser = self.optimiser.step(state.actor, gradient, state.actor_optimiser, self.learning_rate_actor)
        log_multiplier, multiplier_optimiser = self.optimiser.step(
            state.log_multiplier,
            -multiplier * (distance - self.threshold),  # the slope of what the multiplier climbs, downwards
            state.multiplier_optimiser,
            self.learning_rate_multiplier,
        )
        state = BEARState(
            actor=actor,
            target_actor=mix(state.target_actor, actor, self.target_mix),
            critics=critics,
            target_critics=mix(state.target_critics, critics, self.target_mix),
            log_multiplier=jnp.clip(log_multiplier, *LOG_MULTIPLIER_LIMITS),
            done=state.done + 1,
            actor_optimiser=actor_optimiser,
            critic_optimiser=critic_optimiser,
            multiplier_optimiser=multiplier_optimiser,
        )
        return state, {
            "critic/loss": loss,
            "critic/q": jnp.mean(values[0]),
            "critic/target": jnp.mean(target),
            "actor/loss": actor_loss,
            "actor/q": value,
            "actor/mmd": distance,
            "actor/multiplier": multiplier,
            "actor/bonus": jnp.mean(penalty(batch.observation, action, key_bonus)),
            "actor/data_distance": data_distance(action, batch.action),
        }

    def policies(self, state: BEARState, penalty: Penalty) -> dict[str, BestOfSamples]:
        return {
            "online": BestOfSamples(state.actor, state.critics, samples=self.acting_samples),
            "target": BestOfSamples(state.target_actor, state.target_critics, samples=self.acting_samples),
        }

    def value(self, state: BEARState, observation: jax.Array, action: jax.Array) -> jax.Array:
        return state.critics.first(observation, action)


def best_value(agent: BEAR, state: BEARState, batch: Batch, key: Key) -> jax.Array:
    """Of the best of a few next actions of the slow actor, by a mix of both critics that leans to the smaller: `(B,)`."""
    repeated = jnp.repeat(batch.next_observation, agent.samples, axis=0)
    action = state.target_actor.sample(repeated, key)
    return best_of_mixed(state.target_critics(repeated, action), agent.least_share, agent.samples)


def mmd(one: jax.Array, other: jax.Array, kernel: str, width: float) -> jax.Array:
    """Maximum mean discrepancy between two sets of actions at each row: `(n, B, A), (m, B, A) -> (B,)`."""

    def alike(left: jax.Array, right: jax.Array) -> jax.Array:
        difference = left[:, None] - right[None, :]
        size = jnp.abs(difference) if kernel == "laplacian" else jnp.square(difference)
        return jnp.mean(jnp.exp(-jnp.sum(size, axis=-1) / (2.0 * width)), axis=(0, 1))

    return jnp.sqrt(alike(one, one) + alike(other, other) - 2.0 * alike(one, other) + FLOOR)

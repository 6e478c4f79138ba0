"""BCQ, batch-constrained Q-learning (Fujimoto et al. 2019): only likely actions, moved a little, are ever considered.

    critic target   y = r + discount (1 - terminated) max_k (0.75 min_i Qbar_i + 0.25 max_i Qbar_i)(s', a_k),   k = 1 ... 10
                    with a_k = G(s') + xibar(s', G(s')),   G a generator of likely actions, xi the perturbation
    perturbation    - E[Q_1(s, G(s) + xi(s, G(s)))]
    acting          the best of 100 such actions by Q_1

G is the bonus: the CVAE, which presets give the authors' latents and rate, or any other that offers samples. Networks are
400-300, rates 1e-3, batches of 100, as in the paper.
Differs from the paper: the CVAE is fitted beforehand and not along with Q.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax

from tether.agents.actor_critic import batch_number, bellman_target, critic_loss, data_distance
from tether.agents.base import AgentTraits
from tether.bonuses.base import SAMPLES, VALUE
from tether.networks import MLP, Critics, Layers, make_critics, make_mlp, observation_scaler
from tether.optimisation import ADAM, Optimiser, copy_of, mix
from tether.policies.best_of_samples import BestOfSamples, perturbed
from tether.settings import Amount, Share, ShareBelowOne, Size
from tether.types import Batch, Key, Metrics, Penalty, Problem


class BCQState(NamedTuple):
    perturbation: MLP
    target_perturbation: MLP
    critics: Critics
    target_critics: Critics
    perturbation_optimiser: optax.OptState
    critic_optimiser: optax.OptState


@dataclass(frozen=True)
class BCQ:
    """Every knob of the agent; the paper's values."""

    traits: ClassVar[AgentTraits] = AgentTraits(
        policies=("online", "target"),
        main_policy="online",
        requires=frozenset({VALUE, SAMPLES}),
        reward_scaling="none",
        values_of_rewards=True,
    )

    samples: Size = 10  # actions considered in the target
    acting_samples: Size = 100  # the same for acting
    most_perturbed: Amount = 0.05  # the paper's Phi, in half action ranges
    least_share: Share = 0.75  # of the smaller critic in the target; the rest is of the larger
    batch_size: Size = 100
    hidden_sizes: tuple[Size, ...] = (400, 300)  # relu
    learning_rate: Amount = 1e-3
    discount: ShareBelowOne = 0.99  # gamma
    target_mix: Share = 0.005  # share of the online weights mixed into the targets at each step
    normalise_observations: bool = False
    optimiser: Optimiser = ADAM

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return 1, self.batch_size

    def init(self, key: Key, problem: Problem) -> BCQState:
        key_perturbation, key_critics = jax.random.split(key)
        spec = problem.spec
        layers = Layers(self.hidden_sizes, scaler=observation_scaler(problem, self.normalise_observations))
        perturbation = make_mlp(key_perturbation, spec.observation_size + spec.action_size, layers, spec.action_size, "tanh")
        critics = make_critics(key_critics, spec, 2, layers)
        return BCQState(
            perturbation=perturbation,
            target_perturbation=copy_of(perturbation),
            critics=critics,
            target_critics=copy_of(critics),
            perturbation_optimiser=self.optimiser.start(perturbation, self.learning_rate, problem.steps),
            critic_optimiser=self.optimiser.start(critics, self.learning_rate, problem.steps),
        )

    def update(self, state: BCQState, batches: Batch, key: Key, penalty: Any) -> tuple[BCQState, Metrics]:
        batch = batch_number(batches, 0)
        key_next, key_here, key_bonus = jax.random.split(key, 3)
        target = bellman_target(batch.reward, batch.terminated, best_value(self, state, batch, key_next, penalty), self.discount)
        (loss, values), gradient = jax.value_and_grad(critic_loss, has_aux=True)(state.critics, batch, target)
        critics, critic_optimiser = self.optimiser.step(state.critics, gradient, state.critic_optimiser, self.learning_rate)

        likely = penalty.sample(batch.observation, key_here)

        def loss_of(perturbation: MLP) -> tuple[jax.Array, jax.Array]:
            action = perturbed(perturbation, penalty.spec, batch.observation, likely, self.most_perturbed)
            return -jnp.mean(critics.first(batch.observation, action)), action

        (actor_loss, action), gradient = jax.value_and_grad(loss_of, has_aux=True)(state.perturbation)
        perturbation, optimiser = self.optimiser.step(
            state.perturbation, gradient, state.perturbation_optimiser, self.learning_rate
        )
        state = BCQState(
            perturbation=perturbation,
            target_perturbation=mix(state.target_perturbation, perturbation, self.target_mix),
            critics=critics,
            target_critics=mix(state.target_critics, critics, self.target_mix),
            perturbation_optimiser=optimiser,
            critic_optimiser=critic_optimiser,
        )
        return state, {
            "critic/loss": loss,
            "critic/q": jnp.mean(values[0]),
            "critic/target": jnp.mean(target),
            "actor/loss": actor_loss,
            "actor/q": -actor_loss,
            "actor/bonus": jnp.mean(penalty(batch.observation, action, key_bonus)),
            "actor/data_distance": data_distance(action, batch.action),
        }

    def policies(self, state: BCQState, penalty: Penalty) -> dict[str, BestOfSamples]:
        def policy(critics: Critics, perturbation: MLP) -> BestOfSamples:
            return BestOfSamples(penalty, critics, perturbation, self.acting_samples, self.most_perturbed)  # type: ignore[arg-type]

        return {
            "online": policy(state.critics, state.perturbation),
            "target": policy(state.target_critics, state.target_perturbation),
        }

    def value(self, state: BCQState, observation: jax.Array, action: jax.Array) -> jax.Array:
        return state.critics.first(observation, action)


def best_value(agent: BCQ, state: BCQState, batch: Batch, key: Key, generator: Any) -> jax.Array:
    """Of the best of a few likely next actions, by a mix of both critics that leans to the smaller: `(B,)`."""
    repeated = jnp.repeat(batch.next_observation, agent.samples, axis=0)
    likely = generator.sample(repeated, key)
    action = perturbed(state.target_perturbation, generator.spec, repeated, likely, agent.most_perturbed)
    return best_of_mixed(state.target_critics(repeated, action), agent.least_share, agent.samples)


def best_of_mixed(values: jax.Array, least_share: float, samples: int) -> jax.Array:
    """Of `samples` actions in a row the largest mix of the smallest and the largest critic: `(critics, B samples) -> (B,)`."""
    mixed = least_share * jnp.min(values, axis=0) + (1.0 - least_share) * jnp.max(values, axis=0)
    return jnp.max(mixed.reshape(-1, samples), axis=1)

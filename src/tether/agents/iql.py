"""IQL, implicit Q-learning (Kostrikov et al. 2021): no action but the recorded ones is ever valued.

    value loss    E[|tau - 1(u < 0)| u^2],  u = min_i Qbar_i(s, a) - V(s):  the tau-expectile of Q over the data's actions
    critic loss   sum_i E[(r + discount (1 - terminated) V(s') - Q_i(s, a))^2]
    actor loss    - E[min(exp(beta (min_i Qbar_i(s, a) - V(s))), 100) log pi(a|s)]

pi is a Gaussian around tanh of the network with one learned log-std for each action (weighted_cloning.py). The actor's rate falls
as a cosine over the whole training. Rewards are scaled by the range of returns.
Differs from the paper: weights start as PyTorch's do and not orthogonal. Its settings for the hand tasks are in presets.py.
Beyond it: the actor pays the bonus of its mean action, if that is given a weight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax

from tether.agents.actor_critic import batch_number, bellman_target, critic_loss
from tether.agents.base import AgentTraits
from tether.agents.weighted_cloning import Clone, advantage_weight, make_clone, weighted_cloning_loss
from tether.networks import MLP, Critics, Layers, make_critics, make_mlp, observation_scaler
from tether.optimisation import ADAM, Optimiser, copy_of, mix
from tether.policies.deterministic import Deterministic
from tether.settings import Amount, Share, ShareBelowOne, Size
from tether.types import Batch, Key, Metrics, Penalty, Problem

MOST_WEIGHT = 100.0  # of a row in the actor's loss
COSINE = Optimiser(schedule="cosine")


class IQLState(NamedTuple):
    actor: Clone
    target_actor: Clone  # a slow average, never trained on
    value: MLP
    critics: Critics
    target_critics: Critics
    actor_optimiser: optax.OptState
    value_optimiser: optax.OptState
    critic_optimiser: optax.OptState


@dataclass(frozen=True)
class IQL:
    """Every knob of the agent; the paper's values for locomotion."""

    traits: ClassVar[AgentTraits] = AgentTraits(
        policies=("online", "target"), main_policy="online", usual_bonus="none", reward_scaling="returns", values_of_rewards=True
    )

    expectile: ShareBelowOne = 0.7  # the paper's tau
    inverse_temperature: Amount = 3.0  # the paper's beta
    bonus_weight_actor: Amount = 0.0  # of the mean action's bonus
    dropout: ShareBelowOne = 0.0  # share of each hidden layer of the actor that is left out while it learns
    batch_size: Size = 256
    hidden_sizes: tuple[Size, ...] = (256, 256)  # relu
    learning_rate_actor: Amount = 3e-4
    learning_rate_value: Amount = 3e-4
    learning_rate_critic: Amount = 3e-4
    discount: ShareBelowOne = 0.99  # gamma
    target_mix: Share = 0.005  # share of the online weights mixed into the targets at each step
    normalise_observations: bool = False
    optimiser: Optimiser = ADAM  # of value and critics
    actor_optimiser: Optimiser = COSINE

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return 1, self.batch_size

    def init(self, key: Key, problem: Problem) -> IQLState:
        key_actor, key_value, key_critics = jax.random.split(key, 3)
        spec, steps = problem.spec, problem.steps
        layers = Layers(self.hidden_sizes, scaler=observation_scaler(problem, self.normalise_observations))
        actor = make_clone(key_actor, spec, layers)
        value = make_mlp(key_value, spec.observation_size, layers, 1)
        critics = make_critics(key_critics, spec, 2, layers)
        return IQLState(
            actor=actor,
            target_actor=copy_of(actor),
            value=value,
            critics=critics,
            target_critics=copy_of(critics),
            actor_optimiser=self.actor_optimiser.start(actor, self.learning_rate_actor, steps),
            value_optimiser=self.optimiser.start(value, self.learning_rate_value, steps),
            critic_optimiser=self.optimiser.start(critics, self.learning_rate_critic, steps),
        )

    def update(self, state: IQLState, batches: Batch, key: Key, penalty: Penalty) -> tuple[IQLState, Metrics]:
        batch = batch_number(batches, 0)
        recorded = jnp.min(state.target_critics(batch.observation, batch.action), axis=0)

        def value_loss(value: MLP) -> jax.Array:
            return jnp.mean(expectile_loss(recorded - value(batch.observation)[:, 0], self.expectile))

        gradient = jax.grad(value_loss)(state.value)
        value, value_optimiser = self.optimiser.step(state.value, gradient, state.value_optimiser, self.learning_rate_value)

        weight = advantage_weight(recorded - value(batch.observation)[:, 0], self.inverse_temperature, MOST_WEIGHT)
        gradient, metrics = jax.grad(weighted_cloning_loss, has_aux=True)(
            state.actor, batch, weight, key, penalty, self.bonus_weight_actor, self.dropout
        )
        actor, actor_optimiser = self.actor_optimiser.step(state.actor, gradient, state.actor_optimiser, self.learning_rate_actor)

        target = bellman_target(batch.reward, batch.terminated, value(batch.next_observation)[:, 0], self.discount)
        (loss, values), gradient = jax.value_and_grad(critic_loss, has_aux=True)(state.critics, batch, target)
        critics, critic_optimiser = self.optimiser.step(
            state.critics, gradient, state.critic_optimiser, self.learning_rate_critic
        )
        state = IQLState(
            actor=actor,
            target_actor=mix(state.target_actor, actor, self.target_mix),
            value=value,
            critics=critics,
            target_critics=mix(state.target_critics, critics, self.target_mix),
            actor_optimiser=actor_optimiser,
            value_optimiser=value_optimiser,
            critic_optimiser=critic_optimiser,
        )
        return state, metrics | {"critic/loss": loss, "critic/q": jnp.mean(values[0]), "critic/target": jnp.mean(target)}

    def policies(self, state: IQLState, penalty: Penalty) -> dict[str, Deterministic]:
        return {"online": state.actor.mean, "target": state.target_actor.mean}

    def value(self, state: IQLState, observation: jax.Array, action: jax.Array) -> jax.Array:
        return state.critics.first(observation, action)


def expectile_loss(error: jax.Array, expectile: float) -> jax.Array:
    """Squares, those of errors above zero weighed by `expectile` and those below by the rest. `(B,) -> (B,)`."""
    return jnp.where(error > 0, expectile, 1.0 - expectile) * jnp.square(error)

"""What agents with a stochastic actor and twin critics share: a squashed Gaussian, slow critics, a temperature that tunes itself.

    critic target   y = r + discount (1 - terminated) (min_i Qbar_i(s', a') - cost(s', a')),   a' ~ pi(s')
    temperature     - E[log alpha (log pi(a|s) + target entropy)]

Each agent says what a next action costs (entropy, a bonus, a divergence), what its actor minimises, and what else its critics do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import optax

from tether.agents.actor_critic import batch_number, bellman_target, data_distance, squared_td_error
from tether.networks import Critics, Layers, make_critics, observation_scaler
from tether.optimisation import copy_of, mix
from tether.policies.gaussian import SquashedGaussian, make_squashed_gaussian
from tether.types import Batch, Key, Metrics, Penalty, Problem

# An agent with the settings that are read below.
Soft: TypeAlias = Any


class SoftState(NamedTuple):
    actor: SquashedGaussian
    target_actor: SquashedGaussian  # a slow average, never trained on
    critics: Critics
    target_critics: Critics
    log_temperature: jax.Array  # ()
    actor_optimiser: optax.OptState
    critic_optimiser: optax.OptState
    temperature_optimiser: optax.OptState


class Drawn(NamedTuple):
    """Actions of the policy at some observations."""

    action: jax.Array  # (B, A)
    log_probability: jax.Array  # (B,)


# What the next actions cost, `(B,)`, and metrics: of the policy, rows, actions it drew at their next observations, and a key.
NextCost: TypeAlias = Callable[[SquashedGaussian, Batch, Drawn, Key], tuple[jax.Array, Metrics]]
# What is added to the critics' loss, and metrics: of the critics and their values at the batch, `(critics, B)`.
ExtraLoss: TypeAlias = Callable[[Critics, jax.Array], tuple[jax.Array, Metrics]]
# What the actor minimises beside -Q, `(B,)`, and metrics: of the actor, actions it drew at the batch's observations, and a key.
ActorCost: TypeAlias = Callable[[SquashedGaussian, Drawn, Key], tuple[jax.Array, Metrics]]


def start(agent: Soft, key: Key, problem: Problem) -> SoftState:
    key_actor, key_critics = jax.random.split(key)
    layers = Layers(agent.hidden_sizes, scaler=observation_scaler(problem, agent.normalise_observations))
    actor = make_squashed_gaussian(key_actor, problem.spec, layers)
    critics = make_critics(key_critics, problem.spec, 2, layers._replace(norm=agent.critic_norm))
    log_temperature = jnp.log(jnp.asarray(max(agent.temperature, 1e-8), jnp.float32))
    return SoftState(
        actor=actor,
        target_actor=copy_of(actor),
        critics=critics,
        target_critics=copy_of(critics),
        log_temperature=log_temperature,
        actor_optimiser=agent.optimiser.start(actor, agent.learning_rate_actor, problem.steps),
        critic_optimiser=agent.optimiser.start(critics, agent.learning_rate_critic, problem.steps),
        temperature_optimiser=agent.optimiser.start(log_temperature, agent.learning_rate_actor, problem.steps),
    )


def update(
    agent: Soft,
    state: SoftState,
    batches: Batch,
    key: Key,
    next_cost: NextCost,
    actor_cost: ActorCost,
    extra_loss: ExtraLoss | None = None,
    q_share: jax.Array | float = 1.0,
) -> tuple[SoftState, Metrics]:
    """One step of critics, actor and, where the agent aims at an entropy, temperature each. The actor climbs Q's share alone."""
    batch = batch_number(batches, 0)
    key_next, key_next_cost, key_actor, key_actor_cost = jax.random.split(key, 4)
    drawn = Drawn(*state.actor.sample_with_log_probability(batch.next_observation, key_next))
    cost, metrics = next_cost(state.actor, batch, drawn, key_next_cost)
    next_value = jnp.min(state.target_critics(batch.next_observation, drawn.action), axis=0)
    target = bellman_target(batch.reward, batch.terminated, next_value - cost, agent.discount)

    def critic_loss(critics: Critics) -> tuple[jax.Array, tuple[jax.Array, Metrics]]:
        values = critics(batch.observation, batch.action)
        extra, told = extra_loss(critics, values) if extra_loss else (0.0, {})
        loss = squared_td_error(values, target)
        return loss + extra, (values, told | {"critic/loss": loss})

    gradient, (values, critic_metrics) = jax.grad(critic_loss, has_aux=True)(state.critics)
    critics, critic_optimiser = agent.optimiser.step(state.critics, gradient, state.critic_optimiser, agent.learning_rate_critic)

    def actor_loss(actor: SquashedGaussian) -> tuple[jax.Array, tuple[Drawn, Metrics]]:
        drawn = Drawn(*actor.sample_with_log_probability(batch.observation, key_actor))
        value = jnp.min(critics(batch.observation, drawn.action), axis=0)
        cost, told = actor_cost(actor, drawn, key_actor_cost)
        loss = jnp.mean(cost - q_share * value)
        return loss, (drawn, told | {"actor/loss": loss, "actor/q": jnp.mean(value)})

    gradient, (drawn, actor_metrics) = jax.grad(actor_loss, has_aux=True)(state.actor)
    actor, actor_optimiser = agent.optimiser.step(state.actor, gradient, state.actor_optimiser, agent.learning_rate_actor)

    log_temperature, temperature_optimiser = state.log_temperature, state.temperature_optimiser
    if agent.target_entropy is not None:
        # The slope of -log alpha (log pi + target entropy): the temperature rises while the policy is less random than wanted.
        entropy_gap = jnp.mean(drawn.log_probability) + agent.target_entropy * drawn.action.shape[1]
        log_temperature, temperature_optimiser = agent.optimiser.step(
            log_temperature, -entropy_gap, temperature_optimiser, agent.learning_rate_actor
        )
        metrics |= {"actor/temperature": jnp.exp(log_temperature)}
    state = SoftState(
        actor=actor,
        target_actor=mix(state.target_actor, actor, agent.target_mix),
        critics=critics,
        target_critics=mix(state.target_critics, critics, agent.target_mix),
        log_temperature=log_temperature,
        actor_optimiser=actor_optimiser,
        critic_optimiser=critic_optimiser,
        temperature_optimiser=temperature_optimiser,
    )
    return state, metrics | critic_metrics | actor_metrics | {
        "critic/q": jnp.mean(values[0]),
        "critic/target": jnp.mean(target),
        "actor/entropy": -jnp.mean(drawn.log_probability),
        "actor/data_distance": data_distance(drawn.action, batch.action),
    }


def policies(agent: Soft, state: SoftState, penalty: Penalty) -> dict[str, SquashedGaussian]:
    return {"online": state.actor, "target": state.target_actor}


def value(agent: Soft, state: SoftState, observation: jax.Array, action: jax.Array) -> jax.Array:
    return state.critics.first(observation, action)


batch_shape = property(lambda agent: (1, agent.batch_size))

"""What agents with an actor and twin critics share: the state, the critics' step, the slow copies. Each has its own actor loss.

    critic target   y = r + discount (1 - terminated) (min_i Qbar_i(s', a') - beta_c b(s', a'))
                    with a' = clip(pibar(s') + clip(noise))

Actor and targets move once an update, after all critic steps of it, unless the critics' targets are to move at each. Agents take
`start`, `policies`, `value` and `batch_shape` as methods of their own: frozen dataclasses inherit nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import optax

from tether.networks import Critics, Layers, Norm, make_critics, observation_scaler
from tether.optimisation import copy_of, mix
from tether.policies.deterministic import make_deterministic
from tether.types import Batch, Key, Metrics, Penalty, Problem

Bounds = tuple[float, ...]

# The loss of an actor, and metrics, of: actor, critics, the last batch, key.
ActorLoss: TypeAlias = Callable[[Any, Critics, Batch, Key], tuple[jax.Array, Metrics]]
# What a next action costs, `(B,)`, and columns to be told as metrics, of: rows, the action, the same before smoothing, key.
NextCostValue: TypeAlias = tuple[jax.Array, Metrics]
NextCost: TypeAlias = Callable[[Batch, jax.Array, jax.Array, Key], NextCostValue]


# What acts at the next observations of rows, of what is learnt of it. For most agents that is the same.
Acting: TypeAlias = Callable[[Any, Batch], Any]


def itself(actor: Any, rows: Batch) -> Any:
    return actor


class ActorCriticState(NamedTuple):
    actor: Any  # a Deterministic, or the part of a policy that learns
    target_actor: Any
    ema_actor: Any  # a slower average than the target, never trained on
    critics: Critics
    target_critics: Critics
    actor_optimiser: optax.OptState
    critic_optimiser: optax.OptState
    possible: jax.Array | None = None  # (2,) the least and the most that a state can be worth; None: targets may be anything


# An agent with the settings that are read below.
ActorCritic: TypeAlias = Any


def start(
    agent: ActorCritic, key: Key, problem: Problem, activations: tuple[str, ...] | None = None, bounded: bool = False
) -> ActorCriticState:
    """Activations are relu unless they are given. `critic_norm` is for critics alone; `layer_norm` is for all.

    With `bounded`, next states are worth what the rewards allow. Where the critics pay a bonus too, there is no least.
    """
    key_actor, key_critics = jax.random.split(key)
    norm: Norm = "first" if agent.layer_norm else "none"
    layers = Layers(agent.hidden_sizes, activations, norm, observation_scaler(problem, agent.normalise_observations))
    actor = make_deterministic(key_actor, problem.spec, layers)
    critic_layers = layers if agent.critic_norm == "none" else layers._replace(norm=agent.critic_norm)
    critics = make_critics(key_critics, problem.spec, 2, critic_layers)
    updates = problem.steps // agent.batch_shape[0]
    return ActorCriticState(
        actor=actor,
        target_actor=copy_of(actor),
        ema_actor=copy_of(actor),
        critics=critics,
        target_critics=copy_of(critics),
        actor_optimiser=agent.optimiser.start(actor, agent.learning_rate_actor, updates),
        critic_optimiser=agent.optimiser.start(critics, agent.learning_rate_critic, problem.steps),
        possible=possible_worths(problem.rows.reward, agent.discount) if bounded else None,
    )


def update(
    agent: ActorCritic,
    state: ActorCriticState,
    batches: Batch,
    key: Key,
    actor_loss: ActorLoss,
    next_cost: NextCost,
    acting: Acting = itself,
    targets_each_step: bool = False,
    waits: jax.Array | None = None,
) -> tuple[ActorCriticState, Metrics]:
    """A step of the critics for each batch, then one of the actor on the last of them.

    With `targets_each_step` the target critics move with every critic step; without, with the actor, as TD3 has it. While it
    `waits`, the actor steps along a gradient of zero, and none is computed.
    """
    key_target, key_actor = jax.random.split(key)
    steps = agent.batch_shape[0]
    stretch = 1 if targets_each_step else steps  # critic steps between two moves of the targets
    critics, critic_optimiser, target_critics = state.critics, state.critic_optimiser, state.target_critics
    if state.possible is not None:  # online, or in a later log, there may be rewards that the first did not have
        state = state._replace(possible=wider(state.possible, possible_worths(batches.reward, agent.discount)))
    critic_metrics, told = [], []
    for first in range(0, steps, stretch):
        coming = jax.tree.map(lambda column, first=first: column[first : first + stretch], batches)
        key_here = key_target if stretch == steps else jax.random.fold_in(key_target, first)
        now = state._replace(target_critics=target_critics)
        targets, costs = critic_targets(agent, now, coming, key_here, next_cost, acting)
        told.append({"critic/target": targets, **costs})
        for step in range(stretch):
            batch = batch_number(coming, step)
            (loss, values), gradient = jax.value_and_grad(critic_loss, has_aux=True)(critics, batch, targets[step])
            critics, critic_optimiser = agent.optimiser.step(critics, gradient, critic_optimiser, agent.learning_rate_critic)
            critic_metrics.append((loss, jnp.mean(values[0])))
        target_critics = mix(target_critics, critics, agent.target_mix)

    slope = jax.grad(actor_loss, has_aux=True) if waits is None else partial(gradient_unless, waits, actor_loss)
    gradient, actor_metrics = slope(state.actor, critics, batch_number(batches, -1), key_actor)
    actor, actor_optimiser = agent.optimiser.step(state.actor, gradient, state.actor_optimiser, agent.learning_rate_actor)

    state = state._replace(
        actor=actor,
        target_actor=mix(state.target_actor, actor, agent.target_mix),
        ema_actor=mix(state.ema_actor, actor, agent.ema_mix),
        critics=critics,
        target_critics=target_critics,
        actor_optimiser=actor_optimiser,
        critic_optimiser=critic_optimiser,
    )
    loss, value = (jnp.mean(jnp.stack(column)) for column in zip(*critic_metrics, strict=True))
    return state, {
        "critic/loss": loss,
        "critic/q": value,
        **{name: jnp.mean(jnp.stack([of[name] for of in told])) for name in told[0]},
        **actor_metrics,
    }


def gradient_unless(
    waits: jax.Array, loss: ActorLoss, actor: Any, critics: Critics, batch: Batch, key: Key
) -> tuple[Any, Metrics]:
    """The loss's gradient and metrics. While the actor `waits` the gradient is zero, and costs nothing."""
    # The key goes in as numbers: under a vmap, JAX's check for keys used twice takes both branches for uses of it.
    kind = jax.random.key_impl(key)

    def told(actor: Any, numbers: jax.Array) -> tuple[jax.Array, Metrics]:
        return loss(actor, critics, batch, jax.random.wrap_key_data(numbers, impl=kind))

    def no_gradient(actor: Any, numbers: jax.Array) -> tuple[Any, Metrics]:
        return jax.tree.map(jnp.zeros_like, actor), told(actor, numbers)[1]

    return jax.lax.cond(waits, no_gradient, jax.grad(told, has_aux=True), actor, jax.random.key_data(key))


def policies(agent: ActorCritic, state: ActorCriticState, penalty: Penalty) -> dict[str, Any]:
    return {"online": state.actor, "target": state.target_actor, "ema": state.ema_actor}


def value(agent: ActorCritic, state: ActorCriticState, observation: jax.Array, action: jax.Array) -> jax.Array:
    return state.critics.first(observation, action)


batch_shape = property(lambda agent: (agent.actor_period, agent.batch_size))


def critic_targets(
    agent: ActorCritic, state: ActorCriticState, batches: Batch, key: Key, next_cost: NextCost, acting: Acting = itself
) -> tuple[jax.Array, Metrics]:
    """Targets of all critic steps, `(critic steps, B)`, and what the cost has to say, computed as one batch.

    The target networks stand still meanwhile, so one large batch gives the same numbers as one batch a step, faster.
    """
    rows = jax.tree.map(lambda column: column.reshape(-1, *column.shape[2:]), batches)
    key_noise, key_cost = jax.random.split(key)
    actor = acting(state.target_actor, rows)
    proposed = actor(rows.next_observation)
    next_action = smoothed_action(proposed, key_noise, agent.target_noise, agent.target_noise_clip, actor.low, actor.high)
    cost, told = next_cost(rows, next_action, proposed, key_cost)
    next_value = jnp.min(state.target_critics(rows.next_observation, next_action), axis=0)
    if state.possible is not None:
        bounded = jnp.clip(next_value, *state.possible)
        told = {**told, "critic/bounded": (1.0 - rows.terminated) * (bounded != next_value)}
        next_value = bounded
    target = bellman_target(rows.reward, rows.terminated, next_value - cost, agent.discount)
    return target.reshape(batches.reward.shape), told


def possible_worths(reward: jax.Array, discount: float) -> jax.Array:
    """(2,) the least and the most that a state can be worth: the worst or best reward once, or for ever. `(...)` rewards."""
    least, most = jnp.min(reward), jnp.max(reward)
    for_ever = 1.0 / (1.0 - discount)
    return jnp.stack([jnp.minimum(least, least * for_ever), jnp.maximum(most, most * for_ever)])


def wider(one: jax.Array, other: jax.Array) -> jax.Array:
    return jnp.stack([jnp.minimum(one[0], other[0]), jnp.maximum(one[1], other[1])])


def next_bonus(
    agent: ActorCritic, penalty: Penalty, rows: Batch, action: jax.Array, proposed: jax.Array, key: Key
) -> NextCostValue:
    """What the critics' targets pay for the next action: its weighted bonus. Where nothing is paid, nothing is computed."""
    weight = agent.bonus_weight_critic
    if not isinstance(weight, jax.Array) and weight == 0.0:  # a traced one is falling to 0: `tether finetune`
        return jnp.zeros_like(rows.reward), {}
    bonus = penalty(rows.next_observation, proposed if agent.clean_bonus else action, key)
    return agent.bonus_weight_critic * bonus, {"critic/bonus": bonus}


def critic_loss(critics: Critics, batch: Batch, target: jax.Array) -> tuple[jax.Array, jax.Array]:
    values = critics(batch.observation, batch.action)
    return squared_td_error(values, target), values


def batch_number(batches: Batch, step: int) -> Any:
    """One of the batches that an update gets."""
    return jax.tree.map(lambda column: column[step], batches)


def bellman_target(reward: jax.Array, terminated: jax.Array, next_value: jax.Array, discount: float) -> jax.Array:
    """`r + discount * (1 - terminated) * next_value`, with no gradient. All `(B,)`."""
    return jax.lax.stop_gradient(reward + discount * (1.0 - terminated) * next_value)


def smoothed_action(action: jax.Array, key: Key, noise: float, noise_clip: float, low: Bounds, high: Bounds) -> jax.Array:
    """TD3's target smoothing: clipped Gaussian noise on every entry, then the action bounds. `(B, A) -> (B, A)`.

    `noise` and `noise_clip` are in units of half the action range, so that they mean the same for every bound.
    """
    bottom, top = jnp.asarray(low)[None, :], jnp.asarray(high)[None, :]
    perturbation = jnp.clip(noise * jax.random.normal(key, action.shape), -noise_clip, noise_clip)
    return jnp.clip(action + perturbation * 0.5 * (top - bottom), bottom, top)


def squared_td_error(values: jax.Array, target: jax.Array) -> jax.Array:
    """Mean over the batch, summed over the critics: `(critics, B), (B,) -> ()`."""
    return jnp.sum(jnp.mean(jnp.square(values - target[None, :]), axis=1))


def unit_size(value: jax.Array) -> jax.Array:
    """Q-values over their mean size, which has no gradient: what is weighed against them then weighs the same on every task."""
    return value / jax.lax.stop_gradient(jnp.maximum(jnp.mean(jnp.abs(value)), 1e-8))


def data_distance(action: jax.Array, recorded: jax.Array) -> jax.Array:
    """Squared distance of the policy's actions from the recorded ones, summed over dimensions, mean over the batch."""
    return jnp.mean(jnp.sum(jnp.square(action - recorded), axis=-1))

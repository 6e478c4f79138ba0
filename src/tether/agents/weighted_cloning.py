"""Cloning whose rows count by how good they are: the actor of AWR and IQL.

    actor loss    - E[weight(s, a) log pi(a|s)],   pi(s) = N(tanh of a network, one std for each action)

It acts by its mean, so the policy that is shipped is deterministic.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from tether.agents.actor_critic import data_distance
from tether.networks import Dropout, Layers, half_range
from tether.policies.deterministic import Deterministic, make_deterministic
from tether.types import Batch, Key, Metrics, Penalty, Spec

LOG_STD_LIMITS = (-5.0, 2.0)


class Clone(NamedTuple):
    """The Gaussian that is fitted."""

    mean: Deterministic
    log_std: jax.Array  # (A,) in half action ranges


def make_clone(key: Key, spec: Spec, layers: Layers) -> Clone:
    return Clone(make_deterministic(key, spec, layers), jnp.zeros(spec.action_size))


def advantage_weight(advantage: jax.Array, inverse_temperature: float, most: float) -> jax.Array:
    """How much a recorded action counts as one to clone, with no gradient. `(B,) -> (B,)`."""
    return jax.lax.stop_gradient(jnp.minimum(jnp.exp(inverse_temperature * advantage), most))


def weighted_cloning_loss(
    actor: Clone,
    batch: Batch,
    weight: jax.Array,
    key: Key,
    penalty: Penalty,
    bonus_weight: float = 0.0,
    dropout: float = 0.0,
) -> tuple[jax.Array, Metrics]:
    """And the bonus of the mean action, which counts as much as it is told to. `dropout` is of the mean's network."""
    left_out = Dropout(dropout, jax.random.fold_in(key, 1)) if dropout else None
    mean, log_std = actor.mean(batch.observation, left_out), jnp.clip(actor.log_std, *LOG_STD_LIMITS)[None, :]
    distance = (batch.action - mean) / half_range(actor.mean.low, actor.mean.high)
    log_probability = jnp.sum(-0.5 * jnp.square(distance / jnp.exp(log_std)) - log_std - 0.5 * jnp.log(2.0 * jnp.pi), axis=-1)
    bonus = penalty(batch.observation, mean, key)
    loss = jnp.mean(bonus_weight * bonus - weight * log_probability)
    return loss, {
        "actor/loss": loss,
        "actor/bonus": jnp.mean(bonus),
        "actor/weight": jnp.mean(weight),
        "actor/data_distance": data_distance(mean, batch.action),
    }

"""Arrays in, arrays out: the pieces that losses of several agents are made of."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from tether.types import Key

Bounds = tuple[float, ...]


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

"""A Gaussian squashed into the action bounds: the policy of soft and of likelihood-based agents."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp

from tether.networks import MLP, Layers, half_range, make_mlp, scale_to_bounds
from tether.types import Key, Spec

EDGE = 1e-6  # a recorded action on the bounds themselves would be infinitely far out before tanh


class SquashedGaussian(eqx.Module):
    """`tanh` of a Gaussian whose mean and log-std the network gives, scaled to the bounds. It acts by its mean."""

    network: MLP  # (B, O) -> (B, 2 A)
    low: tuple[float, ...] = eqx.field(static=True)
    high: tuple[float, ...] = eqx.field(static=True)
    log_std_min: float = eqx.field(static=True, default=-20.0)
    log_std_max: float = eqx.field(static=True, default=2.0)

    def __call__(self, observation: jax.Array) -> jax.Array:
        """`(B, O) -> (B, A)`, the mean's action."""
        return scale_to_bounds(jnp.tanh(self.moments(observation)[0]), self.low, self.high)

    def moments(self, observation: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Mean and log-std before squashing, `(B, A)` each."""
        mean, log_std = jnp.split(self.network(observation), 2, axis=-1)
        return mean, jnp.clip(log_std, self.log_std_min, self.log_std_max)

    def sample(self, observation: jax.Array, key: Key) -> jax.Array:
        """An action for each observation, `(B, O) -> (B, A)`."""
        return self.sample_with_log_probability(observation, key)[0]

    def sample_with_log_probability(self, observation: jax.Array, key: Key) -> tuple[jax.Array, jax.Array]:
        """Actions and their log-probabilities: `(B, A), (B,)`."""
        mean, log_std = self.moments(observation)
        raw = mean + jnp.exp(log_std) * jax.random.normal(key, mean.shape)
        return scale_to_bounds(jnp.tanh(raw), self.low, self.high), self._log_probability(raw, mean, log_std)

    def log_probability(self, observation: jax.Array, action: jax.Array) -> jax.Array:
        """Of given actions, `(B,)`."""
        return self._log_probability(before_squashing(action, self.low, self.high), *self.moments(observation))

    def _log_probability(self, raw: jax.Array, mean: jax.Array, log_std: jax.Array) -> jax.Array:
        gaussian = -0.5 * jnp.square((raw - mean) / jnp.exp(log_std)) - log_std - 0.5 * jnp.log(2.0 * jnp.pi)
        # log(1 - tanh(raw)^2), in a form that does not overflow; then the width of the bounds.
        squashing = 2.0 * (jnp.log(2.0) - raw - jax.nn.softplus(-2.0 * raw))
        return jnp.sum(gaussian - squashing - jnp.log(half_range(self.low, self.high)), axis=-1)


def before_squashing(action: jax.Array, low: tuple[float, ...], high: tuple[float, ...]) -> jax.Array:
    """What tanh and scaling have made the action of: `(B, A) -> (B, A)`."""
    unit = (action - jnp.asarray(low)[None, :]) / half_range(low, high) - 1.0
    return jnp.arctanh(jnp.clip(unit, -1.0 + EDGE, 1.0 - EDGE))


def make_squashed_gaussian(key: Key, spec: Spec, layers: Layers) -> SquashedGaussian:
    network = make_mlp(key, spec.observation_size, layers, 2 * spec.action_size)
    return SquashedGaussian(network, spec.action_low, spec.action_high)

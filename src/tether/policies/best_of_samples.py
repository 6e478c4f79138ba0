"""The best of a few likely actions: BCQ's policy (Fujimoto et al. 2019). A generator proposes, a critic chooses."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp

from tether.bonuses.cvae import CVAENetworks
from tether.networks import MLP, Critics, half_range

LATENT_CLIP = 0.5  # BCQ's: the generator is asked for nothing far out


class BestOfSamples(eqx.Module):
    """Of `samples` actions that the generator decodes, each moved a little by the perturbation, the one the critic likes best.

    Acting is deterministic: the same latents are decoded at each call and for each row.
    """

    generator: CVAENetworks
    critics: Critics
    perturbation: MLP | None = None  # (s, a) -> [-1, 1], in shares of `most_perturbed` half action ranges
    latent_size: int = eqx.field(static=True, default=12)
    samples: int = eqx.field(static=True, default=100)
    most_perturbed: float = eqx.field(static=True, default=0.05)

    def __call__(self, observation: jax.Array) -> jax.Array:
        """`(B, O) -> (B, A)`, within the bounds."""
        rows = observation.shape[0]
        latent = jnp.clip(jax.random.normal(jax.random.key(0), (self.samples, self.latent_size)), -LATENT_CLIP, LATENT_CLIP)
        repeated = jnp.repeat(observation, self.samples, axis=0)
        action = self.perturbed(repeated, self.generator.decode(repeated, jnp.tile(latent, (rows, 1))))
        best = jnp.argmax(self.critics.first(repeated, action).reshape(rows, self.samples), axis=1)
        return action.reshape(rows, self.samples, -1)[jnp.arange(rows), best]

    def perturbed(self, observation: jax.Array, action: jax.Array) -> jax.Array:
        """The action moved a little, within the bounds: `(B, A) -> (B, A)`."""
        if self.perturbation is None:
            return action
        low, high = self.generator.low, self.generator.high
        moved = self.perturbation(jnp.concatenate([observation, action], axis=-1)) * self.most_perturbed * half_range(low, high)
        return jnp.clip(action + moved, jnp.asarray(low)[None, :], jnp.asarray(high)[None, :])

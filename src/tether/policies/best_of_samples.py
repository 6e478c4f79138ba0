"""The best of a few likely actions: the policy of BCQ (Fujimoto et al. 2019) and BEAR. A generator proposes, a critic chooses."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp

from tether.bonuses.base import FrozenBonus
from tether.networks import MLP, Critics, half_range
from tether.policies.gaussian import SquashedGaussian
from tether.types import Key, Spec


class BestOfSamples(eqx.Module):
    """Of `samples` actions of the generator, each moved a little by the perturbation, the one that the critic likes best.

    Acting is deterministic: at each call and for each row the generator is asked with the same key.
    """

    generator: FrozenBonus | SquashedGaussian  # a bonus that offers samples, or a policy
    critics: Critics
    perturbation: MLP | None = None  # (s, a) -> [-1, 1], in shares of `most_perturbed` half action ranges
    samples: int = eqx.field(static=True, default=100)
    most_perturbed: float = eqx.field(static=True, default=0.05)

    def __call__(self, observation: jax.Array) -> jax.Array:
        """`(B, O) -> (B, A)`, within the bounds."""

        def one(row: jax.Array) -> jax.Array:
            repeated = jnp.tile(row[None, :], (self.samples, 1))
            action = self.propose(repeated, jax.random.key(0))
            return action[jnp.argmax(self.critics.first(repeated, action))]

        return jax.vmap(one)(observation)

    def propose(self, observation: jax.Array, key: Key) -> jax.Array:
        """A likely action for each observation, moved a little: `(B, O) -> (B, A)`."""
        action = self.generator.sample(observation, key)
        if self.perturbation is None:
            return action
        spec = self.generator.spec  # type: ignore[union-attr]
        return perturbed(self.perturbation, spec, observation, action, self.most_perturbed)


def perturbed(perturbation: MLP, spec: Spec, observation: jax.Array, action: jax.Array, most: float) -> jax.Array:
    """The action moved a little, within the bounds: `(B, A) -> (B, A)`."""
    low, high = spec.action_low, spec.action_high
    moved = perturbation(jnp.concatenate([observation, action], axis=-1)) * most * half_range(low, high)
    return jnp.clip(action + moved, jnp.asarray(low)[None, :], jnp.asarray(high)[None, :])

"""What is usually done, and a bounded step from there: the policy of the agent `tethered`."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp

from tether.bonuses.base import FrozenBonus
from tether.networks import MLP, half_range


class Tethered(eqx.Module):
    """The anchor of a bonus, moved in each action by at most `reach` of its standard deviations and `longest` half ranges."""

    step: MLP  # of the observation, each output in [-1, 1]: the share of what it may move that it does
    anchor: FrozenBonus  # one that offers an anchor
    reach: float = eqx.field(static=True)
    longest: float = eqx.field(static=True)

    def __call__(self, observation: jax.Array) -> jax.Array:
        """`(B, O) -> (B, A)`, within the bounds."""
        mean, room = self.room(observation)
        return self.bounded(mean + room * self.step(observation))

    def room(self, observation: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The anchor's action, and how far it may be left in each direction: `(B, A)` each."""
        mean, std = self.anchor.anchor(observation)
        return mean, jnp.minimum(self.reach * std, self.longest * half_range(self.low, self.high))

    def bounded(self, action: jax.Array) -> jax.Array:
        return jnp.clip(action, *(jnp.asarray(bound)[None, :] for bound in (self.low, self.high)))

    @property
    def low(self) -> tuple[float, ...]:
        return self.anchor.spec.action_low

    @property
    def high(self) -> tuple[float, ...]:
        return self.anchor.spec.action_high

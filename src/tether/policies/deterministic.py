"""One action for each observation: TD3's policy, and that of continuous cloning."""

from __future__ import annotations

import equinox as eqx
import jax

from tether.networks import MLP, Dropout, Layers, make_mlp, scale_to_bounds
from tether.types import Key, Spec


class Deterministic(eqx.Module):
    """A network whose tanh output is scaled to the action bounds, which it carries along."""

    network: MLP
    low: tuple[float, ...] = eqx.field(static=True)
    high: tuple[float, ...] = eqx.field(static=True)

    def __call__(self, observation: jax.Array, dropout: Dropout | None = None) -> jax.Array:
        """`(B, O) -> (B, A)`, within the bounds. It acts without `dropout`, which some learn with."""
        return scale_to_bounds(self.network(observation, dropout), self.low, self.high)


def make_deterministic(key: Key, spec: Spec, layers: Layers) -> Deterministic:
    network = make_mlp(key, spec.observation_size, layers, spec.action_size, "tanh")
    return Deterministic(network, spec.action_low, spec.action_high)

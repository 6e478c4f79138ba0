"""The best of a few choices: DQN's policy, and that of discrete cloning."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from tether.bonuses.base import novelties
from tether.networks import Network


class Greedy(eqx.Module):
    """The choice with the largest output of the network, less its weighted bonus if there is one."""

    network: Network  # an output for each action: Q-values, or logits
    penalty: Any = None  # a FrozenBonus, so that a policy carries its bonus
    weight: jax.Array | None = None  # () of the penalty

    def __call__(self, observation: jax.Array) -> jax.Array:
        """`(B, O) -> (B, A)`, one-hot."""
        outputs = self.network(observation)
        return jax.nn.one_hot(jnp.argmax(self.penalised(observation, outputs), axis=-1), outputs.shape[1])

    def penalised(self, observation: jax.Array, outputs: jax.Array) -> jax.Array:
        if self.penalty is None or self.weight is None:
            return outputs

        # Acting is deterministic: a bonus that samples draws the same at each call, and for each row, whatever else is asked.
        def bonuses(row: jax.Array) -> jax.Array:
            return novelties(self.penalty, row[None, :], outputs.shape[1], jax.random.key(0))[0]

        return outputs - self.weight * jax.vmap(bonuses)(observation)

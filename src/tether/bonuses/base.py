"""What a bonus is: a frozen dataclass whose fields are its settings and whose methods are pure functions.

A bonus is fitted first, then frozen: `init`, `steps` times `update`, then `frozen` gives the state that `score` reads.
A bonus with nothing to learn by gradient does all its work in `init` and has `steps = 0`.
"""

from __future__ import annotations

from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp

from tether.types import Batch, Key, Metrics, Spec


class Bonus(Protocol):
    @property
    def has_action_gradient(self) -> bool:
        """Whether an actor can follow `score` downhill. Without it the bonus is for agents that compare actions."""

    @property
    def steps(self) -> int:
        """Gradient steps of the fit."""

    @property
    def batch_size(self) -> int:
        """Rows in the batch that one step takes."""

    @property
    def held_out(self) -> float:
        """Share of the episodes kept out of the fit, to judge it by."""

    @property
    def seed(self) -> int:
        """Seed of the fit. It is the bonus's own, so that agents of many seeds share one fit."""

    def init(self, key: Key, spec: Spec, transitions: Batch) -> Any:
        """The state of a fit not yet begun: a pytree of arrays in which no buffer appears twice."""

    def update(self, fitting: Any, batch: Batch, key: Key) -> tuple[Any, Metrics]:
        """One step of the fit."""

    def frozen(self, fitting: Any) -> Any:
        """What `score` needs of the fit, and no more."""

    def score(self, state: Any, observation: jax.Array, action: jax.Array, key: Key) -> jax.Array:
        """`(B, O), (B, A) -> (B,)`: at least 0, small on pairs like the data, differentiable in the action if it says so."""


class FrozenBonus(eqx.Module):
    """A fitted bonus as a `Penalty`. It is a pytree, the state being its leaves, so that a policy can carry it along."""

    state: Any
    bonus: Bonus = eqx.field(static=True)

    def __call__(self, observation: jax.Array, action: jax.Array, key: Key) -> jax.Array:
        return self.bonus.score(self.state, observation, action, key)


def frozen_template(bonus: Bonus, spec: Spec) -> Any:
    """The shapes of what `bonus` scores with, to read it from a file. A table as long as the dataset has length 1 here."""
    sizes: tuple[tuple[int, ...], ...] = ((spec.observation_size,), (spec.action_size,), (), (spec.observation_size,), ())
    row = Batch(*(jax.ShapeDtypeStruct((1, *size), jnp.float32) for size in sizes))
    return jax.eval_shape(lambda key, rows: bonus.frozen(bonus.init(key, spec, rows)), jax.random.key(0), row)

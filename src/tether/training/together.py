"""Several seeds of one learner as one program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from tether.agents import refresh_period
from tether.training.loop import Epoch, Learner
from tether.types import Key, Metrics, Problem


@dataclass(frozen=True)
class Together:
    """`seeds` copies of a learner, each with its own weights, rows and keys. Arrays of the state have a leading axis of seeds.

    Keys are `(seeds,)`, one of each seed, so a copy has the weights, the rows and the noise that it would have alone. It does
    not repeat a run of its own bit for bit: a product of several matrices at once adds up in another order. What they learn
    with, such as a penalty, they share.
    """

    learner: Learner
    seeds: int

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.seeds, *self.learner.batch_shape

    def init(self, key: Key, problem: Problem) -> Any:
        return jax.vmap(lambda key: self.learner.init(key, problem))(key)

    def update(self, state: Any, batch: Any, key: Key, *given: Any) -> tuple[Any, Metrics]:
        return jax.vmap(lambda state, batch, key: self.learner.update(state, batch, key, *given))(state, batch, key)

    @property
    def refresh_every(self) -> int:
        return refresh_period(self.learner)

    def refresh(self, state: Any, rows: Any) -> Any:
        return jax.vmap(lambda state: self.learner.refresh(state, rows))(state)  # type: ignore[attr-defined]


def joined(states: Sequence[Any]) -> Any:
    """The states of several as one."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)


@jax.jit
def one_of(state: Any, seed: int | jax.Array) -> Any:
    """The state of one of them. Compiled, or every shape of an array would be by itself."""
    return jax.tree.map(lambda leaf: leaf[seed], state)


def epoch_of(epoch: Epoch, seed: int) -> Epoch:
    """What one of them has come to."""
    return Epoch(epoch.step, one_of(epoch.state, seed), {name: float(value[seed]) for name, value in epoch.metrics.items()})

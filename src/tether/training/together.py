"""Several seeds of one learner as one program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax

from tether.agents import refresh_period
from tether.training.loop import Learner
from tether.types import Key, Metrics, Problem


@dataclass(frozen=True)
class Together:
    """`seeds` copies of a learner, each with its own weights, rows and keys. Arrays of the state have a leading axis of seeds.

    What they learn with, such as a penalty, they share. A copy does not repeat, bit for bit, a run of its own.
    """

    learner: Learner
    seeds: int

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.seeds, *self.learner.batch_shape

    def init(self, key: Key, problem: Problem) -> Any:
        return jax.vmap(lambda key: self.learner.init(key, problem))(jax.random.split(key, self.seeds))

    def update(self, state: Any, batch: Any, key: Key, *given: Any) -> tuple[Any, Metrics]:
        keys = jax.random.split(key, self.seeds)
        return jax.vmap(lambda state, batch, key: self.learner.update(state, batch, key, *given))(state, batch, keys)

    @property
    def refresh_every(self) -> int:
        return refresh_period(self.learner)

    def refresh(self, state: Any, rows: Any) -> Any:
        return jax.vmap(lambda state: self.learner.refresh(state, rows))(state)  # type: ignore[attr-defined]


def one_of(state: Any, seed: int) -> Any:
    """The state of one of them."""
    return jax.tree.map(lambda leaf: leaf[seed], state)

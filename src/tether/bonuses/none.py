"""No bonus: zero everywhere. With it every agent is its plain self, and no agent needs a special case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

from tether.bonuses.base import BonusTraits
from tether.types import Batch, Key, Metrics, Problem


@dataclass(frozen=True)
class NoBonus:
    """Nothing to set."""

    traits: ClassVar[BonusTraits] = BonusTraits()
    steps: ClassVar[int] = 0
    batch_shape: ClassVar[tuple[int, ...]] = (1,)
    held_out_share: ClassVar[float] = 0.0
    seed: ClassVar[int] = 0

    def init(self, key: Key, problem: Problem) -> tuple[()]:
        return ()

    def update(self, fitting: tuple[()], batch: Batch, key: Key) -> tuple[tuple[()], Metrics]:
        return (), {}

    def frozen(self, fitting: tuple[()]) -> tuple[()]:
        return ()

    def novelty(self, state: tuple[()], observation: jax.Array, action: jax.Array, key: Key) -> jax.Array:
        return jnp.zeros(observation.shape[0])

"""The few types that every part of Tether shares. Importing this never imports JAX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import jax

Array: TypeAlias = Any  # a jax.Array on the device, a NumPy array on the host
Key: TypeAlias = "jax.Array"  # typed, from jax.random.key
Metrics: TypeAlias = "dict[str, jax.Array]"  # names are who/what, values are scalars
Penalty: TypeAlias = "Callable[[jax.Array, jax.Array, Key], jax.Array]"  # (B, O), (B, A), key -> (B,)


class Batch(NamedTuple):
    """Transitions, one per row of axis 0."""

    observation: Array  # (B, O)
    action: Array  # (B, A)
    reward: Array  # (B,)
    next_observation: Array  # (B, O)
    terminated: Array  # (B,), 1.0 where the episode truly ended; a time limit is 0.0


@dataclass(frozen=True)
class Spec:
    """The sizes and bounds of a control problem: static and hashable, so a jitted function can depend on it."""

    observation_size: int
    action_low: tuple[float, ...]
    action_high: tuple[float, ...]

    @property
    def action_size(self) -> int:
        return len(self.action_low)


def spec_from_json(plain: dict[str, Any]) -> Spec:
    """The inverse of `dataclasses.asdict` after a trip through JSON, which knows no tuples."""
    return Spec(int(plain["observation_size"]), tuple(plain["action_low"]), tuple(plain["action_high"]))

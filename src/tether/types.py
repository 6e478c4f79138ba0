"""The few types that every part of Tether shares. Importing this never imports JAX."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
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


@cache
def batch_type(columns: tuple[str, ...]) -> Any:
    """`Batch` with the columns behind it that an agent asks for (`tether.data.columns`)."""
    return namedtuple("Batch", (*Batch._fields, *columns)) if columns else Batch


@dataclass(frozen=True)
class Spec:
    """The sizes and bounds of a control problem: static and hashable, so a jitted function can depend on it.

    A discrete action is everywhere a one-hot row: as wide as there are actions, bounds 0 and 1.
    """

    observation_size: int
    action_low: tuple[float, ...]
    action_high: tuple[float, ...]
    discrete: bool = False
    observation_shape: tuple[int, ...] = ()  # (height, width, channels) of an image, which is stored flat; () for vectors

    @property
    def action_size(self) -> int:
        return len(self.action_low)


def spell_actions(spec: Spec) -> str:
    """`6 numbers in [-1, 1]`, or `one of 4 choices`."""
    if spec.discrete:
        return f"one of {spec.action_size} choices"
    low, high = spec.action_low, spec.action_high
    each = "" if len(set(low)) == len(set(high)) == 1 else ", each its own"
    return f"{spec.action_size} numbers in [{min(low):.4g}, {max(high):.4g}]{each}"


def spell_observations(spec: Spec) -> str:
    image = f" (an image of {' x '.join(map(str, spec.observation_shape))})" if spec.observation_shape else ""
    return f"{spec.observation_size} numbers{image}"


class Problem(NamedTuple):
    """What a learner knows before its first step."""

    spec: Spec
    rows: Batch  # of the data: all of them, or a sample of a million; for moments and counts
    steps: int = 1  # how long it will learn, for schedules


def row_shapes(spec: Spec) -> Batch:
    """The shape of one row's entry in each column."""
    return Batch((spec.observation_size,), (spec.action_size,), (), (spec.observation_size,), ())


def discrete_spec(observation_size: int, actions: int, observation_shape: tuple[int, ...] = ()) -> Spec:
    """Of a problem with that many actions to choose from."""
    return Spec(observation_size, (0.0,) * actions, (1.0,) * actions, True, observation_shape)


def spec_to_json(spec: Spec) -> dict[str, Any]:
    """Plain values. What a spec of continuous vectors does not need is left out, so that its files are as they always were."""
    plain: dict[str, Any] = {
        "observation_size": spec.observation_size,
        "action_low": list(spec.action_low),
        "action_high": list(spec.action_high),
    }
    if spec.discrete:
        plain["discrete"] = True
    if spec.observation_shape:
        plain["observation_shape"] = list(spec.observation_shape)
    return plain


def spec_from_json(plain: dict[str, Any]) -> Spec:
    """The inverse of `spec_to_json`."""
    return Spec(
        int(plain["observation_size"]),
        tuple(plain["action_low"]),
        tuple(plain["action_high"]),
        bool(plain.get("discrete", False)),
        tuple(plain.get("observation_shape", ())),
    )

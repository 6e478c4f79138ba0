"""What the action columns mean: numbers within bounds, or one of several choices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tether.data.bounds import action_bounds, measured_bounds, registered_spec
from tether.data.choices import MOST_CHOICES
from tether.errors import TetherError


class Bounds(NamedTuple):
    """Lowest and highest action, each (A,), in the log's own units."""

    low: np.ndarray
    high: np.ndarray
    source: str  # given, environment or measured


def find_choices(given: Sequence[str] | None, env_id: str | None, columns: Sequence[str]) -> tuple[str, ...]:
    """The names of the choices by number, as given or as the environment has them; () where actions are continuous."""
    if given is None:
        known = registered_spec(env_id)
        return numbered(known.action_size) if known is not None and known.discrete and len(columns) == 1 else ()
    if len(columns) != 1:
        raise TetherError(f"--action-choices is for one column, and --action matches {len(columns)}: {', '.join(columns)}")
    if len(given) > 1:
        twice = sorted({name for name in given if given.count(name) > 1})
        if twice:
            raise TetherError(f"--action-choices has {twice[0]!r} twice")
        return tuple(given)
    number = int(given[0]) if given and given[0].isascii() and given[0].isdigit() else 0
    if not 2 <= number <= MOST_CHOICES:
        raise TetherError(
            f"--action-choices is {' '.join(given) or 'empty'}, expected how many there are (2 to {MOST_CHOICES:,}), "
            "or the name of each"
        )
    return numbered(number)


def numbered(count: int) -> tuple[str, ...]:
    return tuple(map(str, range(count)))


def find_bounds(action: np.ndarray, low: Sequence[float] | None, high: Sequence[float] | None, env_id: str | None) -> Bounds:
    """As given, else of the environment, else measured."""
    size = action.shape[1]
    if (low is None) != (high is None):
        raise TetherError("give both --action-low and --action-high, or neither")
    if low is not None and high is not None:
        sides = []
        for name, given in (("low", low), ("high", high)):
            if len(given) not in (1, size):
                raise TetherError(f"--action-{name} has {len(given)} numbers; give one for all actions or one for each of {size}")
            sides.append(np.broadcast_to(np.asarray(given, np.float32), (size,)))
        if not (np.isfinite(sides).all() and (sides[0] < sides[1]).all()):
            raise TetherError("--action-low must be below --action-high for every action, and both finite")
        return Bounds(sides[0], sides[1], "given")
    found = Bounds(*action_bounds(action, env_id))
    return found if found.source == "environment" else Bounds(*measured_bounds(action), "measured")


def look_like_choices(action: np.ndarray) -> int:
    """How many choices there may be where a single action is always a whole number from 0; 0 where it does not look so."""
    if action.shape[1] != 1 or not (np.floor(action) == action).all() or action.min() != 0:
        return 0
    return int(action.max()) + 1 if 1 <= action.max() < 100 else 0

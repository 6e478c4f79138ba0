"""A dataset from arrays that are in memory already."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from tether.data.bounds import are_bounds
from tether.data.choices import MOST_CHOICES, one_hot
from tether.data.dataset import Dataset
from tether.data.files.attributes import is_plain_env_id
from tether.data.files.d4rl import assemble
from tether.data.files.hdf5 import Columns
from tether.data.provenance import derivation_from_files
from tether.errors import TetherError


def dataset(
    *,
    observations: Any,
    actions: Any,
    rewards: Any,
    terminated: Any,
    episode_ends: Any = None,
    next_observations: Any = None,
    action_low: Any = None,
    action_high: Any = None,
    choices: int | None = None,
    env_id: str | None = None,
    name: str = "arrays",
) -> Dataset:
    """A dataset from arrays of equal length: `(N, O)`, `(N, A)` or `(N,)`, `(N,)`, and flags `(N,)` of true ends.

    `episode_ends` says where episodes end that a time limit or a hand cut: `(N,)` flags of their last rows, or `(E,)` numbers one
    past the last row of each episode. A terminated row always ends one. Without `next_observations` the next row of the episode
    is taken, and the last row of an episode that did not terminate is dropped. `choices` is how many actions there are where they
    are whole numbers to choose from. Where `observations` is a DataFrame, the policy will know its columns. Bounds of actions
    that are not given, or infinite, are the environment's; without one [-1, 1], or measured where actions leave that. Without
    `episode_ends` an episode also ends where `next_observations` is not the observation of the next row.
    """
    if env_id is not None and not is_plain_env_id(env_id):
        raise TetherError(f"env_id is {env_id!r}, expected the id of an environment such as Hopper-v4")
    observed = _matrix(observations, "observations")
    rows = len(observed)
    if not rows:
        raise TetherError("observations has no rows")
    acted, bounds = _actions(actions, choices, action_low, action_high)
    columns = Columns(
        observations=observed,
        actions=acted,
        rewards=_numbers(rewards, "rewards").reshape(-1),
        terminals=_flags(terminated, "terminated", rows),
        timeouts=None if episode_ends is None else _ends(episode_ends, rows),
        next_observations=None if next_observations is None else _matrix(next_observations, "next_observations"),
        episode_returns=None,
        attributes={"provenance": _provenance(observations, actions)},
        discrete=choices is not None,
    )
    for what in ("actions", "rewards", "next_observations"):
        values = getattr(columns, what)
        if values is not None and len(values) != rows:
            raise TetherError(f"{what} has {len(values):,} rows, observations has {rows:,}")
    if columns.next_observations is not None and columns.next_observations.shape != observed.shape:
        raise TetherError(f"next_observations has shape {columns.next_observations.shape}, observations {observed.shape}")
    return assemble(columns, name, env_id, _sha256(columns), bounds)


def _actions(actions: Any, choices: int | None, low: Any, high: Any) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray] | None]:
    """The actions as rows, and the bounds that were given for them."""
    given = np.asarray(actions)
    if choices is not None:
        if not 1 <= choices <= MOST_CHOICES or given.reshape(len(given), -1).shape[1] != 1:
            raise TetherError(
                f"choices is {choices} and actions has shape {given.shape}; expected one whole number a row for each choice"
            )
        if low is not None or high is not None:
            raise TetherError("choices have no bounds: leave out action_low and action_high")
        return one_hot(_numbers(given, "actions"), choices, Path("arrays")), None
    if given.dtype.kind in "iub":
        raise TetherError(
            f"actions are whole numbers ({given.dtype}); give choices=NUMBER if they are choices, or floats if they are not"
        )
    acted = _matrix(actions, "actions")
    if (low is None) != (high is None):
        raise TetherError("give both action_low and action_high, or neither")
    if low is None:
        return acted, None
    try:
        with np.errstate(over="ignore"):  # beyond float32 is infinite
            bounds = [np.broadcast_to(np.asarray(bound, np.float32), (acted.shape[1],)).copy() for bound in (low, high)]
    except (TypeError, ValueError) as error:
        size = acted.shape[1]
        raise TetherError(f"action_low is {low}, action_high {high}; each takes {size} numbers, or one for all") from error
    if not (bounds[0] < bounds[1]).all():
        raise TetherError(f"action_low is {low}, action_high {high}; each must be below the other")
    return acted, (bounds[0], bounds[1]) if are_bounds(*bounds) else None


def _numbers(given: Any, what: str) -> np.ndarray:
    try:
        with np.errstate(over="ignore"):  # beyond float32 is infinite, and refused with its place
            values = np.array(given, np.float32)  # a copy: the caller may go on with his own
    except (TypeError, ValueError) as error:
        raise TetherError(f"{what} is not made of numbers: {' '.join(str(error).split())}") from error
    broken = ~np.isfinite(values)
    if broken.any():
        place = tuple(int(number) for number in np.argwhere(broken)[0])
        raise TetherError(f"{what}{list(place)} is {values[place]}, expected finite numbers ({int(broken.sum()):,} are not)")
    return values


def _matrix(given: Any, what: str) -> np.ndarray:
    values = _numbers(given, what)
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2:
        raise TetherError(f"{what} has shape {values.shape}, expected (rows, numbers)")
    return values


def _flags(given: Any, what: str, rows: int) -> np.ndarray:
    values = _numbers(given, what).reshape(-1)
    if len(values) != rows:
        raise TetherError(f"{what} has {len(values):,} rows, observations has {rows:,}")
    if not np.isin(values, (0.0, 1.0)).all():
        raise TetherError(f"{what} has other values than 0 and 1, such as {values[~np.isin(values, (0.0, 1.0))][0]:g}")
    return values == 1.0


def _ends(given: Any, rows: int) -> np.ndarray:
    """(N,) flags of the last row of every episode, from flags or from numbers one past it."""
    values = np.asarray(given)
    if values.dtype == bool or (len(values) == rows and np.isin(values, (0, 1)).all() and rows > 1):
        return _flags(values, "episode_ends", rows)
    ends = values.astype(np.int64).reshape(-1)
    ascending = np.array_equal(ends, values) and len(ends) > 0 and (np.diff(ends, prepend=0) > 0).all()
    if not ascending or ends[-1] != rows:
        shown = np.array2string(values, threshold=6)
        raise TetherError(
            f"episode_ends is {shown}; it takes a flag for each of the {rows:,} rows, or ascending numbers one past the last row "
            f"of each episode, of which the last is {rows}"
        )
    flags = np.zeros(rows, dtype=bool)
    flags[ends - 1] = True
    return flags


def _provenance(observations: Any, actions: Any) -> dict[str, Any]:
    """Made of arrays; with the names of their columns where the observations have them."""
    columns = {
        role: [str(name) for name in given.columns]
        for role, given in (("observation", observations), ("action", actions))
        if hasattr(given, "columns") and all(isinstance(name, str) for name in given.columns)
    }
    return derivation_from_files("arrays", {"columns": columns} if "observation" in columns else {}, {})


def _sha256(columns: Columns) -> str:
    found = hashlib.sha256()
    for column in columns[:6]:
        found.update(b"none" if column is None else np.ascontiguousarray(column).data)
    return found.hexdigest()

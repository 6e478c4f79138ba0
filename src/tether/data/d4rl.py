"""D4RL's HDF5 files, of every version, as a Dataset.

What the versions differ in, and what is done:
- no `next_observations` (v0, Adroit): the successor is the next row of the same episode. The last row of an episode that did
  not terminate has none and is dropped; that of a terminated one is never used, so the row's own observation stands in.
- no `timeouts`: episode ends are inferred. Where successors are recorded, an episode ends where the next row does not continue
  it; otherwise after as many steps as the task's horizon, if the task is known (as D4RL's own loader does).
- rewards of shape (N, 1), float64 columns, flags stored as floats: converted.
A row that is both terminal and time-out counts as terminal.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tether.data.bounds import action_bounds
from tether.data.dataset import Dataset, LoadNotes
from tether.data.hdf5 import Columns, read_columns
from tether.data.tasks import find_task
from tether.errors import TetherError
from tether.types import Batch, Spec


def read_d4rl(path: Path) -> Dataset:
    """Read one HDF5 file in the D4RL layout."""
    columns = read_columns(path)
    env_id = columns.env_id or _guess_env_id(path.stem, columns)
    task = find_task(env_id)
    ends = _last_rows(columns, horizon=task.horizon if task else None)
    shifted = columns.next_observations is None
    keep = ~ends | columns.terminals if shifted else np.ones(len(ends), dtype=bool)
    if not keep.any():
        raise TetherError(f"{path.name}: no row has a successor; every episode is one step that does not terminate")
    next_observations = _shift(columns) if columns.next_observations is None else columns.next_observations
    episodes = _episodes(ends, keep, columns.rewards)
    low, high, bounds_from = _bounds(columns, env_id)
    outside = (columns.actions < low) | (columns.actions > high)
    terminated = columns.terminals[keep]
    truncated = np.zeros(len(terminated), dtype=bool)
    truncated[episodes.ends - 1] = ~terminated[episodes.ends - 1]
    return Dataset(
        transitions=Batch(
            observation=columns.observations[keep],
            action=np.clip(columns.actions, low, high)[keep],
            reward=columns.rewards[keep],
            next_observation=next_observations[keep],
            terminated=terminated.astype(np.float32),
        ),
        truncated=truncated,
        episode_ends=episodes.ends,
        episode_returns=episodes.returns,
        spec=Spec(
            columns.observations.shape[1], tuple(low.tolist()), tuple(high.tolist()), columns.discrete, columns.observation_shape
        ),
        name=path.stem,
        env_id=env_id,
        sha256=_sha256(path),
        notes=LoadNotes(
            rows_read=len(keep),
            rows_dropped=int((~keep).sum()),
            action_entries_clipped=int(outside.sum()),
            successors="shifted" if shifted else "recorded",
            episode_ends="inferred" if columns.timeouts is None else "recorded",
            action_bounds=bounds_from,
        ),
    )


def _bounds(columns: Columns, env_id: str | None) -> tuple[np.ndarray, np.ndarray, str]:
    if columns.discrete:  # one-hot rows
        number = columns.actions.shape[1]
        return np.zeros(number, np.float32), np.ones(number, np.float32), "environment"
    return action_bounds(columns.actions, env_id)


def _guess_env_id(stem: str, columns: Columns) -> str | None:
    """The environment that a file name like `hopper_medium-v2` stands for, if the sizes of the columns agree."""
    task = find_task(stem)
    if task is None or (task.observation_size, task.action_size) != (columns.observations.shape[1], columns.actions.shape[1]):
        return None
    return task.env_ids[0]


def _last_rows(columns: Columns, horizon: int | None) -> np.ndarray:
    """(N,) bool: the row is the last of its episode. The file's last row always is."""
    ends = columns.terminals.copy()
    if columns.timeouts is not None:
        ends |= columns.timeouts
    elif columns.next_observations is not None:
        ends[:-1] |= (columns.next_observations[:-1] != columns.observations[1:]).any(axis=1)
    elif horizon is not None:
        rows = np.arange(len(ends))
        follows_end = np.concatenate([[True], ends[:-1]])
        episode_start = np.maximum.accumulate(np.where(follows_end, rows, 0))
        ends |= (rows - episode_start) % horizon == horizon - 1
    ends[-1] = True
    return ends


def _shift(columns: Columns) -> np.ndarray:
    """(N, O): the next row's observation; a terminated row's own, as nothing bootstraps from it."""
    successors = np.concatenate([columns.observations[1:], columns.observations[-1:]])
    return np.where(columns.terminals[:, None], columns.observations, successors)


class _Episodes(NamedTuple):
    ends: np.ndarray  # (E,) one past the last kept row
    returns: np.ndarray  # (E,) float64, of kept and dropped rows


def _episodes(ends: np.ndarray, keep: np.ndarray, rewards: np.ndarray) -> _Episodes:
    """Episodes counted in kept rows. One of which no row is kept is left out."""
    starts = np.concatenate([[0], np.flatnonzero(ends)[:-1] + 1])
    lengths = np.add.reduceat(keep, starts, dtype=np.int64)
    returns = np.add.reduceat(rewards, starts, dtype=np.float64)
    return _Episodes(np.cumsum(lengths[lengths > 0]), returns[lengths > 0])


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

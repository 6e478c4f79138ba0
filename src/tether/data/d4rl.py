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

from tether.data.attributes import bounds_of, environment_of, provenance_of
from tether.data.bounds import action_bounds
from tether.data.dataset import Dataset, LoadNotes
from tether.data.hdf5 import Columns, read_columns
from tether.data.tasks import Task, find_task
from tether.errors import TetherError
from tether.types import Batch, Spec


def read_d4rl(path: Path, name: str | None = None) -> Dataset:
    """Read one HDF5 file in the D4RL layout. `name` is the dataset's; the file's if not given."""
    name = name or path.stem
    columns = read_columns(path)
    env_id = environment_of(columns.attributes, path) or _guess_env_id(name, columns)
    task = find_task(env_id)
    _check_not_swapped(columns, find_task(env_id or name), path)
    ends = _last_rows(columns, horizon=task.horizon if task else None)
    shifted = columns.next_observations is None
    keep = ~ends | columns.terminals if shifted else np.ones(len(ends), dtype=bool)
    if not keep.any():
        raise TetherError(f"{path.name}: no row has a successor; every episode is one step that does not terminate")
    next_observations = _shift(columns) if columns.next_observations is None else columns.next_observations
    episodes = _episodes(ends, keep, columns, path)
    low, high, bounds_from = _bounds(columns, env_id, path)
    low32, high32 = low.astype(np.float32), high.astype(np.float32)
    outside = (columns.actions < low32) | (columns.actions > high32)
    terminated = columns.terminals[keep]
    truncated = np.zeros(len(terminated), dtype=bool)
    truncated[episodes.ends - 1] = ~terminated[episodes.ends - 1]
    return Dataset(
        transitions=Batch(
            observation=columns.observations[keep],
            action=np.clip(columns.actions, low32, high32)[keep],
            reward=columns.rewards[keep],
            next_observation=next_observations[keep],
            terminated=terminated.astype(np.float32),
        ),
        truncated=truncated,
        episode_ends=episodes.ends,
        episode_returns=episodes.returns,
        spec=Spec(columns.observations.shape[1], tuple(low.tolist()), tuple(high.tolist())),
        name=name,
        env_id=env_id,
        sha256=sha256_of(path),
        notes=LoadNotes(
            rows_read=len(keep),
            rows_dropped=int((~keep).sum()),
            action_entries_clipped=int(outside.sum()),
            successors="shifted" if shifted else "recorded",
            episode_ends="inferred" if columns.timeouts is None else "recorded",
            action_bounds=bounds_from,
        ),
        provenance=provenance_of(columns.attributes),
    )


def _guess_env_id(name: str, columns: Columns) -> str | None:
    """The environment that a name like `hopper_medium-v2` stands for, if the sizes of the columns agree."""
    task = find_task(name)
    if task is None or (task.observation_size, task.action_size) != (columns.observations.shape[1], columns.actions.shape[1]):
        return None
    return task.env_ids[0]


def _check_not_swapped(columns: Columns, task: Task | None, path: Path) -> None:
    sizes = (columns.observations.shape[1], columns.actions.shape[1])
    if task is not None and sizes == (task.action_size, task.observation_size):
        found = f"observations has {sizes[0]} numbers per row and actions {sizes[1]}"
        raise TetherError(f"{path.name}: {found}; for {task.name} it is the other way round: the columns are swapped")


def _bounds(columns: Columns, env_id: str | None, path: Path) -> tuple[np.ndarray, np.ndarray, str]:
    recorded = bounds_of(columns.attributes, columns.actions.shape[1], path)
    return action_bounds(columns.actions, env_id) if recorded is None else (*recorded, "recorded")


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


def _episodes(ends: np.ndarray, keep: np.ndarray, columns: Columns, path: Path) -> _Episodes:
    """Episodes counted in kept rows. One of which no row is kept is left out. Recorded returns go before the sum of rewards."""
    starts = np.concatenate([[0], np.flatnonzero(ends)[:-1] + 1])
    lengths = np.add.reduceat(keep, starts, dtype=np.int64)
    returns = columns.episode_returns
    if returns is None:
        returns = np.add.reduceat(columns.rewards, starts, dtype=np.float64)
    if len(returns) != len(lengths):
        raise TetherError(
            f"{path.name}: tether/episode_returns has {len(returns)} entries, the flags make {len(lengths)} episodes"
        )
    return _Episodes(np.cumsum(lengths[lengths > 0]), returns[lengths > 0])


def sha256_of(path: Path) -> str:
    """Of the content of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

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
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tether.data.bounds import action_bounds
from tether.data.dataset import Dataset, LoadNotes
from tether.data.files.attributes import bounds_of, environment_of, plain_attributes, provenance_of
from tether.data.files.hdf5 import Columns, find_choices, find_columns, open_file, read_columns
from tether.environments.tasks import find_task, task_of_dataset
from tether.errors import TetherError
from tether.types import Batch, Spec


def read_d4rl(path: Path, name: str | None = None) -> Dataset:
    """Read one HDF5 file in the D4RL layout. `name` is the dataset's; the file's if not given."""
    name = name or path.stem
    columns = read_columns(path)
    env_id = find_env_id(columns.observations.shape[1], columns.actions.shape[1], columns.attributes, path, name)
    bounds = None if columns.discrete else bounds_of(columns.attributes, columns.actions.shape[1], path)
    try:
        return assemble(columns, name, env_id, sha256_of(path), bounds)
    except TetherError as error:
        raise TetherError(f"{path.name}: {error}") from error


def identify(path: Path, name: str | None = None) -> tuple[str | None, str, bool]:
    """The environment and the hash of a file, and whether its actions are choices, from what it declares: no column is read."""
    with open_file(path) as file:
        found, attributes = find_columns(file, path), plain_attributes(file, path)
        choices = find_choices(found, attributes, path)
        actions = choices or found["actions"].shape[1]
        env_id = find_env_id(found["observations"].shape[1], actions, attributes, path, name or path.stem)
    return env_id, sha256_of(path), choices is not None


def find_env_id(observations: int, actions: int, attributes: dict[str, Any], path: Path, name: str) -> str | None:
    """The environment that the file names, else that the dataset's name stands for; swapped columns are found out by it.

    `observations` and `actions` are how many numbers a row of each has.
    """
    env_id = environment_of(attributes, path) or _guess_env_id(name, observations, actions)
    task = find_task(env_id) if env_id else task_of_dataset(name)
    if task is not None and (observations, actions) == (task.action_size, task.observation_size):
        found = f"observations has {observations} numbers per row and actions {actions}"
        raise TetherError(f"{path.name}: {found}; for {task.name} it is the other way round: the columns are swapped")
    return env_id


def assemble(
    columns: Columns,
    name: str,
    env_id: str | None,
    sha256: str,
    bounds: tuple[np.ndarray, np.ndarray] | None,
    observation_parts: str = "",
) -> Dataset:
    """A dataset from checked columns, wherever they came from. `bounds` are the recorded ones of the actions, if any are."""
    task = find_task(env_id)
    following = columns.next_observations
    breaks = None
    if columns.timeouts is None and following is not None:
        breaks = (following[:-1] != columns.observations[1:]).any(axis=1)
    ends = last_rows(columns, breaks, horizon=task.horizon if task else None)
    keep = rows_with_successor(ends, columns)
    next_observations = shift(columns.observations, columns.terminals) if following is None else following
    episodes = episodes_of(ends, keep, columns)
    low, high, bounds_from = bounds_for(columns, env_id, bounds)
    low32, high32 = low.astype(np.float32), high.astype(np.float32)
    outside = (columns.actions < low32) | (columns.actions > high32)
    terminated = columns.terminals[keep]
    return Dataset(
        transitions=Batch(
            observation=columns.observations[keep],
            action=np.clip(columns.actions, low32, high32)[keep],
            reward=columns.rewards[keep],
            next_observation=next_observations[keep],
            terminated=terminated.astype(np.float32),
        ),
        truncated=cut_off(terminated, episodes.ends),
        episode_ends=episodes.ends,
        episode_returns=episodes.returns,
        spec=Spec(
            columns.observations.shape[1], tuple(low.tolist()), tuple(high.tolist()), columns.discrete, columns.observation_shape
        ),
        name=name,
        env_id=env_id,
        sha256=sha256,
        notes=replace(notes_of(columns, keep, int(outside.sum()), bounds_from), observation_parts=observation_parts),
        provenance=provenance_of(columns.attributes),
    )


def bounds_for(
    columns: Columns, env_id: str | None, recorded: tuple[np.ndarray, np.ndarray] | None
) -> tuple[np.ndarray, np.ndarray, str]:
    """Low and high of each action, and how they were found."""
    if columns.discrete:  # one-hot rows
        number = columns.actions.shape[1]
        return np.zeros(number, np.float32), np.ones(number, np.float32), "environment"
    return action_bounds(columns.actions, env_id) if recorded is None else (*recorded, "recorded")


def _guess_env_id(name: str, observations: int, actions: int) -> str | None:
    """The environment that a name like `hopper_medium-v2` stands for, if the sizes of the columns agree."""
    task = task_of_dataset(name)
    return task.env_ids[0] if task is not None and (task.observation_size, task.action_size) == (observations, actions) else None


def last_rows(columns: Columns, breaks: np.ndarray | None, horizon: int | None) -> np.ndarray:
    """(N,) bool: the row is the last of its episode. The file's last row always is.

    `breaks` (N - 1,) says, where there are no time-outs but successors, which rows the next one does not go on from.
    """
    ends = columns.terminals.copy()
    if columns.timeouts is not None:
        ends |= columns.timeouts
    elif breaks is not None:
        ends[:-1] |= breaks
    elif horizon is not None:
        rows = np.arange(len(ends))
        follows_end = np.concatenate([[True], ends[:-1]])
        episode_start = np.maximum.accumulate(np.where(follows_end, rows, 0))
        ends |= (rows - episode_start) % horizon == horizon - 1
    ends[-1] = True
    return ends


def rows_with_successor(ends: np.ndarray, columns: Columns) -> np.ndarray:
    """(N,) bool: the row gives a transition."""
    keep = ~ends | columns.terminals if columns.next_observations is None else np.ones(len(ends), dtype=bool)
    if not keep.any():
        raise TetherError("no row has a successor; every episode is one step that does not terminate")
    return keep


def shift(observations: np.ndarray, terminals: np.ndarray) -> np.ndarray:
    """The next row's observation; a terminated row's own, as nothing bootstraps from it. The last row has its own too."""
    successors = np.concatenate([observations[1:], observations[-1:]])
    return np.where(terminals[:, None], observations, successors)


def cut_off(terminated: np.ndarray, episode_ends: np.ndarray) -> np.ndarray:
    """(M,) bool: the last row of an episode that did not terminate."""
    truncated = np.zeros(len(terminated), dtype=bool)
    truncated[episode_ends - 1] = ~terminated[episode_ends - 1]
    return truncated


def notes_of(columns: Columns, keep: np.ndarray, clipped: int, bounds_from: str) -> LoadNotes:
    return LoadNotes(
        rows_read=len(keep),
        rows_dropped=int((~keep).sum()),
        action_entries_clipped=clipped,
        successors="shifted" if columns.next_observations is None else "recorded",
        episode_ends="inferred" if columns.timeouts is None else "recorded",
        action_bounds=bounds_from,
    )


class Episodes(NamedTuple):
    ends: np.ndarray  # (E,) one past the last kept row
    returns: np.ndarray  # (E,) float64, of kept and dropped rows


def episodes_of(ends: np.ndarray, keep: np.ndarray, columns: Columns) -> Episodes:
    """Episodes counted in kept rows. One of which no row is kept is left out. Recorded returns go before the sum of rewards."""
    starts = np.concatenate([[0], np.flatnonzero(ends)[:-1] + 1])
    lengths = np.add.reduceat(keep, starts, dtype=np.int64)
    returns = columns.episode_returns
    if returns is None:
        returns = np.add.reduceat(columns.rewards, starts, dtype=np.float64)
    if len(returns) != len(lengths):
        raise TetherError(f"tether/episode_returns has {len(returns)} entries, the flags make {len(lengths)} episodes")
    return Episodes(np.cumsum(lengths[lengths > 0]), returns[lengths > 0])


def sha256_of(path: Path) -> str:
    """Of the content of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

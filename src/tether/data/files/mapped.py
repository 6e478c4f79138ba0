"""Datasets larger than memory: the columns of an HDF5 file as plain arrays on disk, which the system maps page by page.

HDF5 compresses in chunks, so a row drawn at random would cost a whole chunk. The columns are therefore written out once, into
the cache folder (`TETHER_CACHE`), under the hash of the file. They read as `d4rl.py` would have them, number for number.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO

import h5py
import numpy as np

from tether import storage
from tether.data.bounds import action_bounds
from tether.data.choices import image_shape, one_hot
from tether.data.dataset import Dataset, LoadNotes
from tether.data.files import d4rl
from tether.data.files.attributes import bounds_of, plain_attributes, provenance_of
from tether.data.files.hdf5 import Columns, as_flags, check_all_stored, find_choices, find_columns, numbers, open_file
from tether.data.files.limits import READING_COPIES, available_memory
from tether.environments.tasks import find_task
from tether.errors import TetherError
from tether.locks import one_at_a_time
from tether.types import Batch, Spec, discrete_spec, spec_from_json, spec_to_json

FORMAT = 1
BLOCK = 65_536  # rows in memory at once

OnRows = Callable[[int, int], None]  # rows done, rows in all


def fits_in_memory(path: Path) -> bool:
    """Whether reading and training have room for the columns that the file declares."""
    free = available_memory()
    with open_file(path) as file:
        found = find_columns(file, path)
        choices = find_choices(found, plain_attributes(file, path), path) or 0
        needed = sum(4 * math.prod(column.shape) for column in found.values()) + 4 * choices * found["actions"].shape[0]
    return free is None or READING_COPIES * needed <= free


def map_d4rl(path: Path, on_rows: OnRows = lambda done, total: None, name: str | None = None) -> Dataset:
    """The dataset in an HDF5 file, its columns on disk; written out first where that has not been done."""
    name = name or path.stem
    sha256 = d4rl.sha256_of(path)
    folder = storage.cache_root() / "columns" / f"{name}-{sha256[:24]}"
    if not (folder / "about.json").exists():
        with one_at_a_time(folder.with_suffix(".lock")):  # one that starts meanwhile waits, and reads
            if not (folder / "about.json").exists():
                folder.mkdir(parents=True, exist_ok=True)
                _write(path, name, folder, sha256, on_rows)
    return _open(folder)


def _open(folder: Path) -> Dataset:
    about = storage.read_json(folder / "about.json")
    if about.get("format") != FORMAT:
        raise TetherError(f"{folder} was written by another version of Tether; delete it and it is made anew")
    try:
        columns = (np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in Batch._fields)
        return Dataset(
            transitions=Batch(*columns),
            truncated=np.load(folder / "truncated.npy", allow_pickle=False),
            episode_ends=np.load(folder / "episode_ends.npy", allow_pickle=False),
            episode_returns=np.load(folder / "episode_returns.npy", allow_pickle=False),
            spec=spec_from_json(about["spec"]),
            name=about["name"],
            env_id=about["env_id"],
            sha256=about["sha256"],
            notes=LoadNotes(**about["notes"]),
            provenance=about["provenance"],
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TetherError(f"{folder} is damaged ({error}); delete it and it is made anew") from error


def _write(path: Path, name: str, folder: Path, sha256: str, on_rows: OnRows) -> None:
    """Column files first, `about.json` last: a folder that has it is whole."""
    with open_file(path) as file:
        columns = _lazy_columns(file, path)
        choices = find_choices({"actions": columns.actions}, columns.attributes, path)
        actions = choices or columns.actions.shape[1]
        env_id = d4rl.find_env_id(columns.observations.shape[1], actions, columns.attributes, path, name)
        task = find_task(env_id)
        ends = d4rl.last_rows(columns, _breaks(columns, path), horizon=task.horizon if task else None)
        try:
            keep = d4rl.rows_with_successor(ends, columns)
            episodes = d4rl.episodes_of(ends, keep, columns)
        except TetherError as error:
            raise TetherError(f"{path.name}: {error}") from error
        spec, bounds_from = _spec(columns, env_id, path)
        size, width = int(keep.sum()), spec.observation_size
        shapes = {"observation": (size, width), "action": (size, spec.action_size), "reward": (size,)}
        shapes |= {"next_observation": (size, width), "terminated": (size,)}
        _check_room(folder, shapes)
        clipped = 0
        with ExitStack() as stack:
            files = {field: stack.enter_context(_column_file(folder, field, shape)) for field, shape in shapes.items()}
            for rows in _blocks(len(keep)):
                block, outside = _block(columns, keep, rows, spec, path)
                clipped += outside
                for field, values in zip(Batch._fields, block, strict=True):
                    files[field].write(np.ascontiguousarray(values, np.float32).data)
                on_rows(rows.stop, len(keep))
    whole = {"truncated": d4rl.cut_off(columns.terminals[keep], episodes.ends), "episode_ends": episodes.ends}
    for field, values in (whole | {"episode_returns": episodes.returns}).items():
        with storage.replacing(folder / f"{field}.npy") as temporary:
            np.save(temporary, values, allow_pickle=False)
    about = {
        "format": FORMAT,
        "spec": spec_to_json(spec),
        "name": name,
        "env_id": env_id,
        "sha256": sha256,
        "notes": asdict(d4rl.notes_of(columns, keep, clipped, bounds_from)),
        "provenance": provenance_of(columns.attributes),
    }
    storage.write_json(folder / "about.json", json.loads(json.dumps(about)))


def _lazy_columns(file: h5py.File, path: Path) -> Columns:
    """What is one number a row, in memory; observations, actions and successors as they are in the open file."""
    found = find_columns(file, path)
    check_all_stored(found, path)
    size = found["observations"].shape[0]

    def flags(name: str) -> np.ndarray | None:
        if name not in found:
            return None
        blocks = (as_flags(numbers(found[name], name, path, rows), name, path, rows.start) for rows in _blocks(size))
        return np.concatenate(list(blocks))

    terminals = flags("terminals")
    assert terminals is not None
    returns = found.get("tether/episode_returns")
    attributes = plain_attributes(file, path)
    return Columns(
        observations=found["observations"],
        actions=found["actions"],
        rewards=numbers(found["rewards"], "rewards", path),
        terminals=terminals,
        timeouts=flags("timeouts"),
        next_observations=found.get("next_observations"),
        episode_returns=None if returns is None else numbers(returns, "tether/episode_returns", path),
        attributes=attributes,
        discrete=find_choices(found, attributes, path) is not None,
        observation_shape=image_shape(attributes, found["observations"].shape[1], path),
    )


def _blocks(rows: int) -> Iterator[slice]:
    for start in range(0, rows, BLOCK):
        yield slice(start, min(start + BLOCK, rows))


def _breaks(columns: Columns, path: Path) -> np.ndarray | None:
    """(N - 1,) where ends must be inferred from the successors: the next row does not go on from this one."""
    if columns.timeouts is not None or columns.next_observations is None:
        return None
    found = []
    for rows in _blocks(len(columns.terminals) - 1):
        after = slice(rows.start + 1, rows.stop + 1)
        following = numbers(columns.next_observations, "next_observations", path, rows)
        found.append((following != numbers(columns.observations, "observations", path, after)).any(axis=1))
    return np.concatenate(found) if found else np.zeros(0, dtype=bool)


def _spec(columns: Columns, env_id: str | None, path: Path) -> tuple[Spec, str]:
    """Sizes and bounds, and how the bounds were found."""
    width, shape = columns.observations.shape[1], columns.observation_shape
    if columns.discrete:
        choices = find_choices({"actions": columns.actions}, columns.attributes, path)
        assert choices is not None
        return discrete_spec(width, choices, shape), "environment"
    recorded = bounds_of(columns.attributes, columns.actions.shape[1], path)
    low, high, source = (*recorded, "recorded") if recorded is not None else _found_bounds(columns, env_id, path)
    return Spec(width, tuple(low.tolist()), tuple(high.tolist()), observation_shape=shape), source


def _found_bounds(columns: Columns, env_id: str | None, path: Path) -> tuple[np.ndarray, np.ndarray, str]:
    extremes = []
    for rows in _blocks(len(columns.terminals)):
        actions = numbers(columns.actions, "actions", path, rows)
        extremes += [actions.min(axis=0), actions.max(axis=0)]
    return action_bounds(np.stack(extremes), env_id)  # the range of the extremes is the range of all


def _block(columns: Columns, keep: np.ndarray, rows: slice, spec: Spec, path: Path) -> tuple[Batch, int]:
    """The transitions among these rows, and how many action entries were out of bounds."""
    kept = keep[rows]
    with_next = numbers(columns.observations, "observations", path, slice(rows.start, rows.stop + 1))
    observation = with_next[: rows.stop - rows.start]
    if columns.next_observations is None:
        terminals = np.zeros(len(with_next), dtype=bool)
        terminals[: len(kept)] = columns.terminals[rows]
        following = d4rl.shift(with_next, terminals)[: len(kept)]
    else:
        following = numbers(columns.next_observations, "next_observations", path, rows)
    actions = numbers(columns.actions, "actions", path, rows)
    if spec.discrete:
        actions = one_hot(actions, spec.action_size, path, rows.start)
    low, high = np.asarray(spec.action_low, np.float32), np.asarray(spec.action_high, np.float32)
    outside = int(((actions < low) | (actions > high)).sum())
    action = np.clip(actions, low, high)
    terminated = columns.terminals[rows].astype(np.float32)
    return Batch(observation[kept], action[kept], columns.rewards[rows][kept], following[kept], terminated[kept]), outside


def _check_room(folder: Path, shapes: dict[str, tuple[int, ...]]) -> None:
    needed = sum(4 * math.prod(shape) for shape in shapes.values())
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise TetherError(
            f"the columns take {needed / 1e9:,.1f} GB on disk and {folder} has room for {free / 1e9:,.1f}; set TETHER_CACHE to a "
            "folder on a larger disk"
        )


@contextmanager
def _column_file(folder: Path, name: str, shape: tuple[int, ...]) -> Iterator[IO[bytes]]:
    """A .npy file to write float32 rows to, in its place once the block ends without an error.

    Written as a file and not through a map: on a full disk a map ends the process, a file says so.
    """
    with storage.replacing(folder / f"{name}.npy") as temporary, temporary.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
        yield file

"""Columns of an HDF5 file in the D4RL layout, checked. Only plain data inside the file itself is ever read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np

from tether.data.choices import read_choices, read_image_shape
from tether.errors import TetherError


class Columns(NamedTuple):
    """What a file holds: finite, float32 or bool, of equal length, at least one row."""

    observations: np.ndarray  # (N, O)
    actions: np.ndarray  # (N, A); one-hot where they are discrete
    rewards: np.ndarray  # (N,)
    terminals: np.ndarray  # (N,) bool
    timeouts: np.ndarray | None  # (N,) bool
    next_observations: np.ndarray | None  # (N, O)
    env_id: str | None
    discrete: bool = False
    observation_shape: tuple[int, ...] = ()  # of images


def read_columns(path: Path) -> Columns:
    """Read and check every column that Tether uses; the rest (`infos`, `metadata`) is left in the file."""
    with _open(path) as file:
        observations = _numbers(_find(file, "observations", path), path, rank=2)
        rows = len(observations)

        def column(name: str) -> h5py.Dataset:
            found = _find(file, name, path)
            if found.shape and found.shape[0] != rows:
                raise TetherError(f"{path.name}: {name} has {found.shape[0]} rows, observations has {rows}")
            return found

        next_observations = None
        if "next_observations" in file:
            next_observations = _numbers(column("next_observations"), path, rank=2)
            if next_observations.shape != observations.shape:
                sizes = f"{next_observations.shape[1]} numbers per row, observations has {observations.shape[1]}"
                raise TetherError(f"{path.name}: next_observations has {sizes}")
        env_id = _env_id(file, path)
        choices = read_choices(file, column("actions"), env_id, path)
        return Columns(
            observations=observations,
            actions=_numbers(column("actions"), path, rank=2) if choices is None else choices,
            rewards=_numbers(column("rewards"), path, rank=1),
            terminals=_flags(column("terminals"), path),
            timeouts=_flags(column("timeouts"), path) if "timeouts" in file else None,
            next_observations=next_observations,
            env_id=env_id,
            discrete=choices is not None,
            observation_shape=read_image_shape(file, observations.shape[1], path),
        )


@contextmanager
def _open(path: Path) -> Iterator[h5py.File]:
    if not path.exists():
        raise TetherError(f"{path}: no such file")
    if not path.is_file():
        raise TetherError(f"{path}: not a file; give one .hdf5 file in the D4RL layout")
    try:
        with h5py.File(path, "r") as file:
            yield file
    except (OSError, RuntimeError) as error:  # h5py raises both for damaged files
        detail = re.search(r"\((.*)\)", str(error))  # "Unable to synchronously open file (truncated file: eof = ...)"
        raise TetherError(f"{path.name}: not a readable HDF5 file ({detail.group(1) if detail else error})") from error
    except MemoryError as error:
        raise TetherError(f"{path.name}: does not fit in memory ({error})") from error


def _find(file: h5py.File, name: str, path: Path) -> h5py.Dataset:
    """The column called `name`. A link that could lead to another file is refused: a dataset is one file with one hash."""
    link = file.get(name, getlink=True)
    if link is None:
        raise TetherError(f"{path.name}: column {name} is missing; the file has {', '.join(file) or 'no columns'}")
    if not isinstance(link, h5py.HardLink):
        raise TetherError(f"{path.name}: {name} is a link to {link.path}; columns must be stored in the file itself")
    column = file[name]
    if not isinstance(column, h5py.Dataset):
        raise TetherError(f"{path.name}: {name} is a group, not a column")
    if column.external or column.is_virtual:
        raise TetherError(f"{path.name}: {name} is stored in another file; columns must be stored in the file itself")
    return column


def _numbers(column: h5py.Dataset, path: Path, rank: int) -> np.ndarray:
    """A column as finite float32 of shape (N, K) for rank 2 or (N,) for rank 1, where (N, 1) is accepted too."""
    name = column.name.lstrip("/")
    if column.dtype.kind not in "fiub":
        raise TetherError(f"{path.name}: {name} has type {column.dtype}, expected numbers")
    shape: tuple[int, ...] = column.shape or ()
    if rank == 1 and len(shape) == 2 and shape[1] == 1:
        shape = shape[:1]
    if len(shape) != rank or (rank == 2 and shape[1] == 0):
        expected = "(rows,)" if rank == 1 else "(rows, numbers per row)"
        raise TetherError(f"{path.name}: {name} has shape {column.shape}, expected {expected}")
    if shape[0] == 0:
        raise TetherError(f"{path.name}: {name} has no rows")
    with np.errstate(over="ignore"):  # a float64 beyond float32 becomes Inf, which is reported below
        values = column[...].reshape(shape).astype(np.float32, copy=False)
    broken = ~np.isfinite(values)
    if broken.any():
        first_row = int(np.argmax(broken.reshape(len(values), -1).any(axis=1)))
        raise TetherError(f"{path.name}: {name} has {int(broken.sum())} NaN or Inf values, the first in row {first_row}")
    return values


def _flags(column: h5py.Dataset, path: Path) -> np.ndarray:
    """A column of 0 and 1 of any number type as bool."""
    values = _numbers(column, path, rank=1)
    strange = (values != 0) & (values != 1)
    if strange.any():
        row = int(np.argmax(strange))
        raise TetherError(f"{path.name}: {column.name.lstrip('/')} is {values[row]:g} in row {row}, expected 0 or 1")
    return values.astype(bool)


def _env_id(file: h5py.File, path: Path) -> str | None:
    """The `env_id` attribute. Gymnasium imports the module of an id like `module:Name-v0`, so a file must not name one."""
    value = file.attrs.get("env_id")
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if value is None:
        return None
    if not isinstance(value, str) or not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", value):
        raise TetherError(f"{path.name}: attribute env_id is {value!r}, expected the id of an environment such as Hopper-v4")
    return value

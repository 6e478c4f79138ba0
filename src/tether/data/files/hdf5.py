"""Columns of an HDF5 file in the D4RL layout, checked. Only plain data inside the file itself is ever read.

Everything that a column declares is looked at before its data is: a link or storage that leads out of the file, a type that is
no number, a shape that does not fit, a size that the file cannot hold.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from tether.data.choices import image_shape, number_of_choices, one_hot
from tether.data.files.attributes import environment_of, plain_attributes
from tether.data.files.limits import DoesNotFit, check_declared, check_memory, check_stored
from tether.errors import TetherError

COLUMNS = ("observations", "next_observations", "actions", "rewards", "terminals", "timeouts", "tether/episode_returns")
MATRICES = ("observations", "actions", "next_observations")
OPTIONAL = ("timeouts", "next_observations", "tether/episode_returns")

# What h5py makes of damaged files: nearly any error, depending on what is damaged.
_DAMAGE = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError, SystemError, NotImplementedError)


class Columns(NamedTuple):
    """What a file holds: finite, float32 or bool, of equal length, at least one row."""

    observations: np.ndarray  # (N, O)
    actions: np.ndarray  # (N, A); one-hot where they are discrete
    rewards: np.ndarray  # (N,)
    terminals: np.ndarray  # (N,) bool
    timeouts: np.ndarray | None  # (N,) bool
    next_observations: np.ndarray | None  # (N, O)
    episode_returns: np.ndarray | None  # (E,) float64, as Tether writes them for rows that are not in the file
    attributes: dict[str, Any]
    discrete: bool = False
    observation_shape: tuple[int, ...] = ()  # of images


def read_columns(path: Path) -> Columns:
    """Read and check every column that Tether uses; the rest (`infos`, `metadata`) is left in the file."""
    with open_file(path) as file:
        found = find_columns(file, path)
        attributes = plain_attributes(file, path)
        choices = find_choices(found, attributes, path)
        check_memory(found, path, choices or 0)
        check_all_stored(found, path)
        values = {name: numbers(column, name, path) for name, column in found.items()}
    flags = {name: as_flags(values[name], name, path) for name in ("terminals", "timeouts") if name in values}
    return Columns(
        observations=values["observations"],
        actions=values["actions"] if choices is None else one_hot(values["actions"], choices, path),
        rewards=values["rewards"],
        terminals=flags["terminals"],
        timeouts=flags.get("timeouts"),
        next_observations=values.get("next_observations"),
        episode_returns=values.get("tether/episode_returns"),
        attributes=attributes,
        discrete=choices is not None,
        observation_shape=image_shape(attributes, values["observations"].shape[1], path),
    )


@contextmanager
def open_file(path: Path) -> Iterator[h5py.File]:
    if not path.exists():
        raise TetherError(f"{path}: no such file")
    if not path.is_file():
        raise TetherError(f"{path}: not a file; give one .hdf5 file in the D4RL layout")
    try:
        with h5py.File(path, "r") as file:
            yield file
    except MemoryError as error:
        raise DoesNotFit(f"{path.name}: does not fit in memory ({error})") from error
    except _DAMAGE as error:
        detail = re.search(r"\((.*)\)", str(error))  # "Unable to synchronously open file (truncated file: eof = ...)"
        reason = _shown(detail.group(1) if detail else str(error))
        raise TetherError(f"{path.name}: not a readable HDF5 file ({reason})") from error


def check_all_stored(found: dict[str, h5py.Dataset], path: Path) -> None:
    """Refuse a file that does not hold what its columns declare; it is read through once for that."""
    for name, column in found.items():
        check_stored(column, name, path)


def find_choices(found: dict[str, h5py.Dataset], attributes: dict[str, Any], path: Path) -> int | None:
    """How many actions there are to choose from; None where they are continuous, and then each row is a vector."""
    actions = found["actions"]
    choices = number_of_choices(attributes, actions, environment_of(attributes, path), path)
    if choices is None and len(actions.shape) != 2:
        raise TetherError(f"{path.name}: actions has shape {actions.shape}, expected (rows, numbers per row)")
    return choices


def find_columns(file: h5py.File, path: Path) -> dict[str, h5py.Dataset]:
    """Every column of the file that Tether uses, its declaration checked."""
    observations = _find(file, "observations", path)
    rows = _shape(observations, "observations", path)[0]
    found = {"observations": observations}
    for name in COLUMNS[1:]:
        if name in OPTIONAL and not _is_linked(file, name, path):
            _check_not_misspelt(file, name, path)
            continue
        found[name] = column = _find(file, name, path)
        if column.shape and column.shape[0] != rows and name != "tether/episode_returns":
            raise TetherError(f"{path.name}: {name} has {column.shape[0]} rows, observations has {rows}")
        shape = _shape(column, name, path)
        if name == "next_observations" and shape != observations.shape:
            sizes = f"{shape[1]} numbers per row, observations has {observations.shape[1]}"
            raise TetherError(f"{path.name}: next_observations has {sizes}")
    if len({column.dtype.isnative for column in found.values() if column.dtype.itemsize > 1}) > 1:
        # No writer does that, and one changed bit in a header does.
        raise TetherError(f"{path.name}: some columns have their bytes in the other order than the rest; the file is damaged")
    for name, column in found.items():
        check_declared(column, name, path)
    return found


def _check_not_misspelt(file: h5py.File, name: str, path: Path) -> None:
    """A column that is as good as `name` would otherwise be passed over in silence."""
    others = [other for other in itertools.islice(file, 1_000) if isinstance(other, str) and other not in COLUMNS]
    near = difflib.get_close_matches(name, others, n=1, cutoff=0.8)
    if near:
        raise TetherError(f"{path.name}: there is {_shown(near[0])} and no {name}; rename the one or leave it out")


def _is_linked(file: h5py.File, name: str, path: Path) -> bool:
    """Whether there is anything by that name, if only a link that leads nowhere: `in` would say no to that."""
    group, _, last = name.rpartition("/")
    if not group:
        return file.get(last, getlink=True) is not None
    if not _is_linked(file, group, path):
        return False
    holder = _stored(file, group, path)
    return isinstance(holder, h5py.Group) and holder.get(last, getlink=True) is not None


def _find(file: h5py.File, name: str, path: Path) -> h5py.Dataset:
    """The column called `name`, of numbers in the file itself."""
    if file.get(name, getlink=True) is None:
        raise TetherError(f"{path.name}: column {name} is missing; the file has {_names(file)}")
    column = _stored(file, name, path)
    if not isinstance(column, h5py.Dataset):
        raise TetherError(f"{path.name}: {name} is a {type(column).__name__.lower()}, not a column")
    if column.external or column.is_virtual:
        raise TetherError(f"{path.name}: {name} is stored in another file; columns must be stored in the file itself")
    if column.dtype.kind not in "fiub":
        raise TetherError(f"{path.name}: {name} has type {_shown(str(column.dtype))}, expected numbers")
    return column


def _stored(file: h5py.File, name: str, path: Path) -> Any:
    """What has that name. A link that could lead to another file is refused: a dataset is one file with one hash."""
    link = file.get(name, getlink=True)
    if not isinstance(link, h5py.HardLink):
        raise TetherError(f"{path.name}: {name} is a link to {_shown(link.path)}; columns must be stored in the file itself")
    return file[name]


def _shape(column: h5py.Dataset, name: str, path: Path) -> tuple[int, ...]:
    """(N, K) of a matrix, (N,) of any other column, where (N, 1) is accepted too."""
    shape: tuple[int, ...] = column.shape or ()
    rank = 2 if name in MATRICES else 1
    if name == "actions" and len(shape) == 1:  # choices, one number a row; `find_choices` sees to it that they are
        rank = 1
    if rank == 1 and len(shape) == 2 and shape[1] == 1:
        shape = shape[:1]
    if len(shape) != rank or (rank == 2 and shape[1] == 0):
        expected = "(rows,)" if rank == 1 else "(rows, numbers per row)"
        raise TetherError(f"{path.name}: {name} has shape {column.shape}, expected {expected}")
    if shape[0] == 0:
        raise TetherError(f"{path.name}: {name} has no rows")
    return shape


def numbers(column: h5py.Dataset, name: str, path: Path, rows: slice = slice(None)) -> np.ndarray:
    """A column, or some rows of it, as finite float32; returns, which are sums, as float64."""
    kind = np.float64 if name == "tether/episode_returns" else np.float32
    with np.errstate(over="ignore"):  # a float64 beyond float32 becomes Inf, which is reported below
        values = column[rows] if column.shape else column[...]
        values = values.reshape(-1, *_shape(column, name, path)[1:]).astype(kind, copy=False)
    broken = ~np.isfinite(values)
    if broken.any():
        first_row = (rows.start or 0) + int(np.argmax(broken.reshape(len(values), -1).any(axis=1)))
        raise TetherError(f"{path.name}: {name} has {int(broken.sum())} NaN or Inf values, the first in row {first_row}")
    return values


def as_flags(values: np.ndarray, name: str, path: Path, first: int = 0) -> np.ndarray:
    """A column of 0 and 1 as bool. `first` is the number of its first row."""
    strange = (values != 0) & (values != 1)
    if strange.any():
        row = int(np.argmax(strange))
        raise TetherError(f"{path.name}: {name} is {values[row]:g} in row {first + row}, expected 0 or 1")
    return values.astype(bool)


def _names(file: h5py.File) -> str:
    names = [_shown(name) for name in file]
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "") or "no columns"


def _shown(name: str | bytes) -> str:
    """Text out of a file for one line on a terminal. h5py gives bytes for what is no text."""
    text = name.decode("utf-8", "replace") if isinstance(name, bytes) else name
    return "".join(letter if letter.isprintable() else "�" for letter in " ".join(text.split()))[:200]

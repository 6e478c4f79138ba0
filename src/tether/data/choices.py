"""Discrete actions of a file: whole numbers on disk, one-hot rows in memory.

A column of whole numbers may also be a coarse continuous action, so something must say that it is not: the file's attribute
`num_actions`, or the environment it names. Where neither does, it is refused rather than guessed.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from tether.data.bounds import registered_spec
from tether.errors import TetherError

ATTRIBUTE = "num_actions"
SHAPE_ATTRIBUTE = "observation_shape"  # of images, which are stored as flat rows
MOST_CHOICES = 10_000


def number_of_choices(attributes: dict[str, Any], column: h5py.Dataset, env_id: str | None, path: Path) -> int | None:
    """How many actions there are to choose from; None where they are continuous."""
    single = len(column.shape) == 1 or column.shape[1:] == (1,)
    number = _declared(attributes, path)
    if number is None:
        if not single:
            return None
        known = registered_spec(env_id)
        if column.dtype.kind not in "iub":  # whole numbers may be stored as floats, where the environment has choices
            return known.action_size if known is not None and known.discrete else None
        if known is None:
            raise TetherError(
                f"{path.name}: actions are whole numbers ({column.dtype}), and nothing says how many there are to choose from; "
                f"set the file's attribute {ATTRIBUTE}, or its env_id, or store them as floats if they are continuous"
            )
        return known.action_size if known.discrete else None
    if not single:
        raise TetherError(
            f"{path.name}: actions has shape {column.shape} of {column.dtype}, "
            f"expected one whole number a row for a choice of {number} ({ATTRIBUTE})"
        )
    return number


def one_hot(chosen: np.ndarray, number: int, path: Path, first: int = 0) -> np.ndarray:
    """`(N,)` or `(N, 1)` whole numbers as rows `(N, number)` float32. `first` is the number of the first row."""
    values = chosen.reshape(-1)
    strange = ~((values >= 0) & (values < number) & (values == np.floor(values)))
    if strange.any():
        row = int(np.argmax(strange))
        expected = f"expected a whole number from 0 to {number - 1}"
        raise TetherError(f"{path.name}: actions is {values[row]:g} in row {first + row}, {expected}")
    rows = np.zeros((len(values), number), dtype=np.float32)
    rows[np.arange(len(values)), values.astype(np.int64)] = 1.0
    return rows


def whole_numbers(rows: np.ndarray) -> np.ndarray:
    """The inverse of `one_hot`, as small as the number of actions allows."""
    return np.argmax(rows, axis=1).astype(np.uint8 if rows.shape[1] <= 256 else np.int32)


def image_shape(attributes: dict[str, Any], observation_size: int, path: Path) -> tuple[int, ...]:
    """(height, width, channels) where the file says that observations are images, else ()."""
    given = attributes.get(SHAPE_ATTRIBUTE)
    if given is None:
        return ()
    shape = tuple(given) if isinstance(given, list) else (given,)
    sound = len(shape) == 3 and all(isinstance(side, int) and not isinstance(side, bool) and side > 0 for side in shape)
    if not sound or math.prod(shape) != observation_size:
        raise TetherError(
            f"{path.name}: attribute {SHAPE_ATTRIBUTE} is {shape}, expected height, width and channels with a product of "
            f"{observation_size}, the numbers of an observation"
        )
    return shape


def _declared(attributes: dict[str, Any], path: Path) -> int | None:
    given = attributes.get(ATTRIBUTE)
    if given is None:
        return None
    if not isinstance(given, int) or isinstance(given, bool) or not 1 <= given <= MOST_CHOICES:
        expected = f"expected a whole number from 1 to {MOST_CHOICES:,}"
        raise TetherError(f"{path.name}: attribute {ATTRIBUTE} is {given!r}, {expected}")
    return given

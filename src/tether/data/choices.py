"""Discrete actions of a file: whole numbers on disk, one-hot rows in memory.

A column of whole numbers may also be a coarse continuous action, so something must say that it is not: the file's attribute
`num_actions`, or the environment it names. Where neither does, it is refused rather than guessed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from tether.data.bounds import registered_spec
from tether.errors import TetherError

ATTRIBUTE = "num_actions"
SHAPE_ATTRIBUTE = "observation_shape"  # of images, which are stored as flat rows


def read_choices(file: h5py.File, column: h5py.Dataset, env_id: str | None, path: Path) -> np.ndarray | None:
    """The actions as one-hot rows (N, A) float32, or None where they are continuous."""
    shape: tuple[int, ...] = column.shape or ()  # None where a column is empty of everything
    single = len(shape) == 1 or shape[1:] == (1,)
    number = _declared(file, path)
    if number is None:
        if column.dtype.kind not in "iub" or not single or shape[0] == 0:  # the check of numbers says what is wrong
            return None
        known = registered_spec(env_id)
        if known is None:
            raise TetherError(
                f"{path.name}: actions are whole numbers ({column.dtype}), and nothing says how many there are to choose from; "
                f"set the file's attribute {ATTRIBUTE}, or its env_id, or store them as floats if they are continuous"
            )
        if not known.discrete:
            return None
        number = known.action_size
    if not single or column.dtype.kind not in "iubf":
        raise TetherError(
            f"{path.name}: actions has shape {column.shape} of {column.dtype}, "
            f"expected one whole number a row for a choice of {number} ({ATTRIBUTE})"
        )
    values = column[...].reshape(-1).astype(np.float64)
    strange = ~((values >= 0) & (values < number) & (values == np.floor(values)))
    if strange.any():
        row = int(np.argmax(strange))
        raise TetherError(f"{path.name}: actions is {values[row]:g} in row {row}, expected a whole number from 0 to {number - 1}")
    return np.eye(number, dtype=np.float32)[values.astype(np.int64)]


def read_image_shape(file: h5py.File, observation_size: int, path: Path) -> tuple[int, ...]:
    """(height, width, channels) where the file says that observations are images, else ()."""
    given = file.attrs.get(SHAPE_ATTRIBUTE)
    if given is None:
        return ()
    shape = tuple(np.asarray(given).ravel().tolist())
    sound = len(shape) == 3 and all(isinstance(side, int) and side > 0 for side in shape)
    if not sound or int(np.prod(shape)) != observation_size:
        raise TetherError(
            f"{path.name}: attribute {SHAPE_ATTRIBUTE} is {shape}, expected height, width and channels with a product of "
            f"{observation_size}, the numbers of an observation"
        )
    return shape


def _declared(file: h5py.File, path: Path) -> int | None:
    given: Any = file.attrs.get(ATTRIBUTE)
    if given is None:
        return None
    value = np.asarray(given)
    if value.ndim != 0 or value.dtype.kind not in "iu" or not 1 <= int(value) <= 10_000:
        raise TetherError(f"{path.name}: attribute {ATTRIBUTE} is {given!r}, expected a whole number of at least 1")
    return int(value)

"""What may be given to a policy: numbers in the order of its training, or columns by name, which are put in that order.

A policy answers whatever it is asked, and a wrong question gets an action that looks like any other. So what is not finite, and
names that do not fit, are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tether.errors import TetherError, did_you_mean
from tether.types import Spec


def as_rows(given: Any, spec: Spec, names: Sequence[str] | None) -> np.ndarray:
    """`(O,)` or `(B, O)` float32, finite; `names` are the columns of the policy's observations, where they are known."""
    named = _columns(given)
    array = _floats(given, "the observation") if named is None else _in_order(named, names)
    shape = spec.observation_shape
    flat = array.reshape(*array.shape[: -len(shape)], -1) if shape and array.shape[-len(shape) :] == shape else array
    size = spec.observation_size
    if flat.ndim not in (1, 2) or flat.shape[-1] != size:
        known = f", which are {_listed(names)}" if names else ""
        raise TetherError(f"the policy takes observations of shape ({size},) or (B, {size}){known}; got {array.shape}")
    _refuse_not_finite(flat, names)
    return flat


def _columns(given: Any) -> dict[str, Any] | None:
    """Columns by name of a dict, a table (pandas, Polars, Arrow), a row of one, or a structured array; None for bare numbers."""
    if isinstance(given, Mapping):
        names = list(given)
    elif isinstance(given, np.ndarray | np.void):
        names = list(given.dtype.names or ())
    else:
        # By what they have rather than by their type, so that none of those packages is needed.
        labels = next((getattr(given, name) for name in ("column_names", "columns") if hasattr(given, name)), None)
        if labels is None and hasattr(given, "to_numpy") and hasattr(given, "index"):  # a row of a pandas table
            labels = given.index
        names = [] if labels is None else list(labels)
    if not names or all(isinstance(name, int | np.integer) for name in names):
        return None  # numbered and not named: as an array of them
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise TetherError(f"the observation has two columns {twice!r}")
    return {str(name): given[name] for name in names}


def _in_order(columns: dict[str, Any], names: Sequence[str] | None) -> np.ndarray:
    if not names:
        raise TetherError(
            f"the observation has columns by name ({_listed(list(columns))}), and the policy knows none: only data from "
            "`tether data import` has them; give an array with the columns in the order of the training data"
        )
    for name in columns:
        if name not in names:
            raise TetherError(
                f"the policy knows no column {name!r}{did_you_mean(name, names)} (it takes exactly those it learnt from)"
            )
    for name in names:
        if name not in columns:
            raise TetherError(f"the observation lacks the column {name!r}; the policy takes {_listed(names)}")
    values = {name: _floats(columns[name], f"column {name!r}") for name in names}
    first = values[names[0]]
    for name, column in values.items():
        if column.ndim > 1 or column.shape != first.shape:
            raise TetherError(
                f"column {name!r} has shape {column.shape}, column {names[0]!r} {first.shape}; one number a row is taken"
            )
    return np.stack(list(values.values()), axis=-1)


def _floats(given: Any, what: str) -> np.ndarray:
    try:
        if isinstance(given, str | list | tuple) and np.asarray(given).dtype.kind in "US":
            raise ValueError("text is not taken for numbers")
        with np.errstate(over="ignore"):  # beyond float32 is infinite, which is refused with its place
            return np.asarray(given, np.float32)
    except (TypeError, ValueError, OverflowError) as error:
        raise TetherError(f"{what} is not made of numbers: {' '.join(str(error).split())}") from error


def _refuse_not_finite(flat: np.ndarray, names: Sequence[str] | None) -> None:
    if np.isfinite(flat).all():
        return
    bad = np.argwhere(~np.isfinite(np.atleast_2d(flat)))
    row, number = bad[0]
    column = repr(names[number]) if names else f"number {number} (counted from 0)"
    where = f" in row {row} (counted from 0)" if flat.ndim == 2 else ""
    more = f", and {len(bad) - 1:,} more entries are not finite" if len(bad) > 1 else ""
    value = np.atleast_2d(flat)[row, number]
    raise TetherError(f"the observation has {value} as {column}{where}{more}; a policy acts on finite numbers only")


def _listed(names: Sequence[str]) -> str:
    return ", ".join([*names[:8], "…"] if len(names) > 8 else names)

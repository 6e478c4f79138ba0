"""Columns of a table as numbers, flags, labels and times. Missing entries are found here and judged elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tether.errors import TetherError

if TYPE_CHECKING:
    import pyarrow

MOST_NAMES = 12  # of choices that a message lists
WORDS = {"true": True, "false": False, "yes": True, "no": False, "y": True, "n": False, "1": True, "0": False}  # in any case
LARGEST = float(np.finfo(np.float32).max)


class Values(NamedTuple):
    """One column of one file."""

    values: np.ndarray  # (N,); what stands in a missing entry means nothing
    missing: np.ndarray  # (N,) bool: empty, or not a number


def numbers(column: pyarrow.ChunkedArray, where: str) -> Values:
    """As float64, within what float32 can hold."""
    from pyarrow import types

    kind = column.type
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)):
        if not types.is_null(kind):
            raise TetherError(f"{where} has type {kind}, expected numbers{_first_text(column)}")
        return Values(np.zeros(len(column)), np.ones(len(column), dtype=bool))
    import pyarrow

    if types.is_boolean(kind):
        column = column.cast(pyarrow.int8())
    values = column.cast(pyarrow.float64(), safe=False).to_numpy().astype(np.float64)
    large = np.isfinite(values) & (np.abs(values) > LARGEST)
    if large.any():
        row = int(np.argmax(large))
        raise TetherError(f"{where} is {values[row]:g} in row {row + 1}, more than a float32 holds")
    return Values(values, ~np.isfinite(values))


def flags(column: pyarrow.ChunkedArray, where: str) -> Values:
    """As bool, from 0 and 1 of any number type, from true and false, or from words for them."""
    if _is_text(column):
        return _worded_flags(column, where)
    found = numbers(column, where)
    strange = ~found.missing & (found.values != 0) & (found.values != 1)
    if strange.any():
        row = int(np.argmax(strange))
        raise TetherError(f"{where} is {found.values[row]:g} in row {row + 1}, expected 0 or 1")
    return Values(found.values == 1, found.missing)


def _worded_flags(column: pyarrow.ChunkedArray, where: str) -> Values:
    found = labels(column, where)
    different, places = np.unique(found.values, return_inverse=True)
    words = [str(word).strip().lower() for word in different]
    strange = ~found.missing & np.array([word not in WORDS for word in words])[places]
    if strange.any():
        row = int(np.argmax(strange))
        raise TetherError(f"{where} is {str(found.values[row])!r} in row {row + 1}, expected 0 or 1, or {', '.join(WORDS)}")
    return Values(np.array([WORDS.get(word, False) for word in words])[places], found.missing)


def _is_text(column: pyarrow.ChunkedArray) -> bool:
    from pyarrow import types

    return types.is_string(column.type) or types.is_large_string(column.type) or types.is_dictionary(column.type)


def chosen(column: pyarrow.ChunkedArray, where: str, names: Sequence[str]) -> Values:
    """As the number of the choice whose name stands there; whole numbers are names too."""
    is_text = _is_text(column)
    found = labels(column, where) if is_text else numbers(column, where)
    different, places = np.unique(found.values, return_inverse=True)
    spelled = different.tolist() if is_text else [f"{value:.15g}" for value in different.tolist()]
    number_of = {name: number for number, name in enumerate(names)}
    values = np.array([number_of.get(name, -1) for name in spelled], dtype=np.float64)[places]
    strange = ~found.missing & (values < 0)
    if strange.any():
        row = int(np.argmax(strange))
        few = ", ".join(names) if len(names) <= MOST_NAMES else f"{names[0]} to {names[-1]}"
        mend = "; name the choices instead of counting them" if is_text and names[0] == "0" else ""
        raise TetherError(f"{where} is {spelled[places[row]]!r} in row {row + 1}, expected one of {few}{mend}")
    return Values(values, found.missing)


def labels(column: pyarrow.ChunkedArray, where: str) -> Values:
    """As text: what names an episode may be a number, a date or a word."""
    import pyarrow

    missing = column.is_null(nan_is_null=True).to_numpy()
    try:
        text = column.cast(pyarrow.string())
    except pyarrow.ArrowException as error:
        raise TetherError(f"{where} has type {column.type}, which names no episode") from error
    names = np.where(missing, "", text.to_numpy()).astype(str)
    return Values(names, names == "")  # an empty field of a CSV is empty text


def times(column: pyarrow.ChunkedArray, where: str) -> Values:
    """As float64: numbers in their own unit; dates, times of day and durations in seconds."""
    import pyarrow
    from pyarrow import types

    if not (types.is_temporal(column.type) and not types.is_interval(column.type)):
        return numbers(column, where)
    if types.is_duration(column.type):
        column = column.cast(pyarrow.duration("ns"))
    elif types.is_timestamp(column.type) or types.is_date(column.type):
        column = column.cast(pyarrow.timestamp("ns"))
    else:
        column = column.cast(pyarrow.time64("ns"))
    missing = column.is_null().to_numpy()
    counts = column.cast(pyarrow.int64()).fill_null(0).to_numpy()
    return Values(counts.astype(np.float64) / 1e9, missing)


def _first_text(column: pyarrow.ChunkedArray) -> str:
    present = column.drop_null()
    return f" (the first is {present[0].as_py()!r})" if len(present) else ""

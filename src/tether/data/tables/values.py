"""Columns of a table as numbers, flags, labels and times. Missing entries are found here and judged elsewhere."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tether.data.tables.dates import ORDERS, Times
from tether.data.tables.marks import EMPTY, OTHER, parse_numbers
from tether.data.tables.places import Where
from tether.errors import TetherError

if TYPE_CHECKING:
    import pyarrow

MOST_NAMES = 12  # of choices that a message lists
# In any case: English, German, French.
_YES = ("true", "yes", "y", "t", "on", "1", "wahr", "ja", "vrai", "oui")
_NO = ("false", "no", "n", "f", "off", "0", "falsch", "nein", "faux", "non")
WORDS = dict.fromkeys(_YES, True) | dict.fromkeys(_NO, False)
LARGEST = float(np.finfo(np.float32).max)

Tell = Callable[[str], None]  # what was understood in a way that the user should know


class Values(NamedTuple):
    """One column of one file."""

    values: np.ndarray  # (N,); what stands in a missing entry means nothing
    missing: np.ndarray  # (N,) bool: empty, or not a number


def numbers(column: pyarrow.ChunkedArray, where: Where, decimal: str = ".", tell: Tell = lambda text: None) -> Values:
    """As float64, within what float32 can hold. Yes and no in all rows are 1 and 0."""
    from pyarrow import types

    kind = column.type
    if is_text(column):
        return _within(_numbers_in_text(column, where, decimal, tell), where)
    if types.is_null(kind):
        return Values(np.zeros(len(column)), np.ones(len(column), dtype=bool))
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)):
        raise TetherError(f"{where} has type {kind}, expected numbers{_first(column)}")
    import pyarrow

    if types.is_boolean(kind):
        column = column.cast(pyarrow.int8())
    values = column.cast(pyarrow.float64(), safe=False).to_numpy().astype(np.float64)
    return _within(Values(values, ~np.isfinite(values)), where)


def _within(found: Values, where: Where) -> Values:
    large = ~found.missing & (np.abs(found.values) > LARGEST)
    if large.any():
        row = int(np.argmax(large))
        raise TetherError(f"{where} is {found.values[row]:g} in {where.at(row)}, more than a float32 holds")
    return found


def _numbers_in_text(column: pyarrow.ChunkedArray, where: Where, decimal: str, tell: Tell) -> Values:
    found = parse_numbers(column, decimal)
    if found.strange is None:
        _tell_grouped(found.grouped, where, tell)
        return Values(found.values, found.missing)
    text, missing = labels(column, where)
    words, places = np.unique(text, return_inverse=True)
    known = [word.lower() in WORDS or word.lower() in EMPTY for word in words.tolist()]
    if all(known):
        spelled = [word for word in words.tolist() if word.lower() in WORDS]
        tell(f"{where.column}: {', '.join(f'{word} is {int(WORDS[word.lower()])}' for word in spelled)}")
        empty = np.array([word.lower() in EMPTY for word in words.tolist()])[places]
        return Values(np.array([float(WORDS.get(word.lower(), 0)) for word in words.tolist()])[places], missing | empty)
    value = str(text[found.strange])
    other = parse_numbers(column.slice(found.strange, 1), OTHER[decimal]).strange is None
    hint = f"; if {OTHER[decimal]!r} is its decimal mark, say --decimal {OTHER[decimal]!r}" if other else ""
    raise TetherError(f"{where} is {value!r} in {where.at(found.strange)}, expected a number{hint}")


def _tell_grouped(example: str | None, where: Where, tell: Tell) -> None:
    if example is not None:
        tell(f"{where.column}: marks of thousands are taken out, as of {example!r}")


def flags(column: pyarrow.ChunkedArray, where: Where, decimal: str = ".") -> Values:
    """As bool, from 0 and 1 of any number type, from true and false, or from words for them."""
    if is_text(column):
        return _worded_flags(column, where, decimal)
    found = numbers(column, where)
    strange = ~found.missing & (found.values != 0) & (found.values != 1)
    if strange.any():
        row = int(np.argmax(strange))
        raise TetherError(f"{where} is {found.values[row]:g} in {where.at(row)}, expected 0 or 1")
    return Values(found.values == 1, found.missing)


def _worded_flags(column: pyarrow.ChunkedArray, where: Where, decimal: str) -> Values:
    found = labels(column, where)
    different, places = np.unique(found.values, return_inverse=True)
    words = [_as_whole(str(word), decimal).lower() for word in different]
    missing = found.missing | np.array([word in EMPTY for word in words])[places]
    strange = ~missing & np.array([word not in WORDS for word in words])[places]
    if strange.any():
        row = int(np.argmax(strange))
        raise TetherError(
            f"{where} is {str(found.values[row])!r} in {where.at(row)}, expected 0 or 1, true or false, yes or no, on or off"
        )
    return Values(np.array([WORDS.get(word, False) for word in words])[places], missing)


def _as_whole(text: str, decimal: str) -> str:
    """`1.0` as `1`; what is no number as it is."""
    try:
        return f"{float(text.replace(decimal, '.')):.15g}"
    except ValueError:
        return text


def is_text(column: pyarrow.ChunkedArray) -> bool:
    from pyarrow import types

    return types.is_string(column.type) or types.is_large_string(column.type) or types.is_dictionary(column.type)


def chosen(column: pyarrow.ChunkedArray, where: Where, names: Sequence[str], decimal: str = ".") -> Values:
    """As the number of the choice whose name stands there; whole numbers are names too."""
    in_text = is_text(column)
    found = labels(column, where) if in_text else numbers(column, where)
    different, places = np.unique(found.values, return_inverse=True)
    number_of = {name: number for number, name in enumerate(names)}
    if in_text:
        spelled = [word if word in number_of else _as_whole(word, decimal) for word in different.tolist()]
    else:
        spelled = [f"{value:.15g}" for value in different.tolist()]
    values = np.array([number_of.get(name, -1) for name in spelled], dtype=np.float64)[places]
    empty = np.array([in_text and name not in number_of and name.lower() in EMPTY for name in spelled])[places]
    strange = ~found.missing & ~empty & (values < 0)
    if strange.any():
        row = int(np.argmax(strange))
        few = ", ".join(names) if len(names) <= MOST_NAMES else f"{names[0]} to {names[-1]}"
        worded = in_text and not _is_number(spelled[places[row]])
        mend = "; name the choices instead of counting them" if worded and names[0] == "0" else ""
        raise TetherError(f"{where} is {spelled[places[row]]!r} in {where.at(row)}, expected one of {few}{mend}")
    return Values(values, found.missing | empty)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def labels(column: pyarrow.ChunkedArray, where: Where) -> Values:
    """As text: what names an episode may be a number, a date or a word."""
    import pyarrow

    missing = column.is_null(nan_is_null=True).to_numpy()
    try:
        text = column.cast(pyarrow.string())
    except pyarrow.ArrowException as error:
        raise TetherError(f"{where} has type {column.type}, which names no episode{_first(column)}") from error
    names = np.char.strip(np.where(missing, "", text.to_numpy()).astype(str))
    return Values(names, names == "")  # an empty field of a CSV is empty text


def episode_ids(column: pyarrow.ChunkedArray, where: Where) -> Values:
    """As text; words for nothing are missing, as in columns of numbers: rows of no run are not a run of that name."""
    found = labels(column, where)
    words, places = np.unique(found.values, return_inverse=True)
    return Values(found.values, found.missing | np.array([word.lower() in EMPTY for word in words.tolist()])[places])


def times(
    column: pyarrow.ChunkedArray,
    where: Where,
    decimal: str = ".",
    time_format: str | None = None,
    tell: Tell = lambda text: None,
) -> Times | None:
    """In seconds, or numbers in a unit of their own. None: dates in text or in digits, which are settled over all files."""
    import pyarrow
    from pyarrow import types

    dated = time_format is not None and time_format not in ORDERS
    if is_text(column):
        found = parse_numbers(column, decimal)
        if dated or found.strange is not None:
            return None
        if time_format is None or found.missing.all():
            _tell_grouped(found.grouped, where, tell)
            return Times(found.values, found.missing, None)
    elif dated and types.is_integer(column.type):
        return None
    if time_format is not None:
        kind = "numbers" if is_text(column) else f"type {column.type}"
        raise TetherError(
            f"{where} has {kind}{_first(column)}, and --time-format {time_format} is for dates in text; leave it out, or give a "
            "pattern such as %Y%m%d%H%M%S for dates in digits"
        )
    if not types.is_temporal(column.type) or types.is_interval(column.type):
        return Times(*numbers(column, where), None)
    if types.is_duration(column.type):
        wanted, kind = pyarrow.duration("ns"), "span"
    elif types.is_timestamp(column.type) or types.is_date(column.type):
        zone = getattr(column.type, "tz", None)
        wanted, kind = pyarrow.timestamp("ns", zone), "moment" if zone else "clock"
    else:
        wanted, kind = pyarrow.time64("ns"), "of day"
    if not _fits(column, wanted):
        row = bisect_left(range(len(column)), True, key=lambda row: not _fits(column.slice(0, row + 1), wanted))
        value = column.slice(row, 1).cast(pyarrow.string())[0]
        raise TetherError(
            f"{where} is {str(value)!r} in {where.at(row)}, which is no time that is read: dates are from 1678 to 2261; is it a "
            "mark for one that is missing? Leave such an entry empty"
        )
    column = column.cast(wanted)
    missing = column.is_null().to_numpy()
    counts = column.cast(pyarrow.int64()).fill_null(0).to_numpy()
    return Times(counts.astype(np.float64) / 1e9, missing, kind)


def _fits(column: pyarrow.ChunkedArray, wanted: pyarrow.DataType) -> bool:
    import pyarrow

    try:
        column.cast(wanted)
    except pyarrow.ArrowInvalid:
        return False
    return True


def _first(column: pyarrow.ChunkedArray) -> str:
    present = column.drop_null()
    return f" (the first is {present[0].as_py()!r})" if len(present) else ""

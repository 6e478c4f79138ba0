"""Times in text: dates in the order of day and month that they can only have, clocks with and without a zone.

What a date may mean in two ways is asked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tether.data.tables.places import Where
from tether.errors import TetherError

if TYPE_CHECKING:
    import pyarrow

ORDERS = {"day-first": "dmy", "month-first": "mdy", "year-first": "ymd"}
_SPELLED = {"dmy": "day, month, year", "mdy": "month, day, year", "ymd": "year, month, day"}
DAY, HOUR = 86_400.0, 3_600.0
FIRST, LAST = -62_135_596_800.0, 253_402_300_800.0  # the years that Python can tell, in seconds since 1970
_CLOCK = (
    r"(?P<h>[0-9]{1,2}):(?P<n>[0-9]{2})(?::(?P<s>[0-9]{2})(?:[.,](?P<f>[0-9]{1,9}))?)?"
    r"\s*(?P<p>[AaPp]\.?[Mm]\.?)?\s*(?P<z>[Zz]|UTC|[+-][0-9]{2}:?[0-9]{2})?"
)
_DATE = r"(?P<a>[0-9]{1,4})(?P<x>[-./ ])(?P<b>[0-9]{1,2}|[A-Za-zäéû]{3,9}\.?)[-./ ](?P<c>[0-9]{1,4})"
DATED, UNDATED = rf"^{_DATE}(?:[T ]\s*{_CLOCK})?$", f"^{_CLOCK}$"
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_OTHER_MONTHS = {"mär": 3, "mrz": 3, "mai": 5, "okt": 10, "dez": 12, "fév": 2, "avr": 4, "aoû": 8, "déc": 12}  # German, French


class Times(NamedTuple):
    """One file's times, in seconds."""

    values: np.ndarray  # (N,) float64
    missing: np.ndarray  # (N,) bool
    kind: str | None  # "clock": local, no zone is known; "moment": UTC; "of day": no date; "span"; None: in a unit of its own


def read_times(columns: Sequence[tuple[pyarrow.ChunkedArray, Where]], asked: str | None) -> tuple[list[Times], list[str]]:
    """Text of every file as seconds, and what was guessed. What one file leaves open another may settle."""
    if asked is not None and asked not in ORDERS:
        return [_by_pattern(column, where, asked) for column, where in columns], []
    parts = [_parts(column, where) for column, where in columns]
    order, told = _order([part for part in parts if part.dated], asked)
    return [_seconds(part, order) for part in parts], told


class _Parts(NamedTuple):
    text: np.ndarray  # (N,) of str, as it stands there
    where: Where
    missing: np.ndarray
    dated: bool
    fields: dict[str, np.ndarray]  # of text: a, x, b, c, h, n, s, f, p, z


def _parts(column: pyarrow.ChunkedArray, where: Where) -> _Parts:
    from pyarrow import compute

    text = compute.utf8_trim_whitespace(column).combine_chunks()
    missing = compute.equal(text, "").fill_null(True).to_numpy(zero_copy_only=False)
    plain = np.where(missing, "", text.to_numpy(zero_copy_only=False))
    for pattern in (DATED, UNDATED):
        found = compute.extract_regex(text, pattern)
        strange = found.is_null().to_numpy(zero_copy_only=False) & ~missing
        if strange.all() or (strange & ~missing).sum() > 0.5 * len(strange):
            continue
        if strange.any():
            row = int(np.argmax(strange))
            raise TetherError(
                f"{where} is {plain[row]!r} in {where.at(row)}, where others are times such as {plain[~strange & ~missing][0]!r}"
            )
        names = [field.name for field in found.type]
        fields = {
            n: compute.fill_null(compute.struct_field(found, n), "").to_numpy(zero_copy_only=False).astype(str) for n in names
        }
        return _Parts(plain, where, missing, pattern is DATED, fields)
    row = int(np.argmax(~missing))
    raise TetherError(
        f"{where} is {plain[row]!r} in {where.at(row)}, which is neither a number nor a time that is known; say how it is "
        "written with --time-format, such as '%d/%m/%Y %H:%M:%S'"
    )


def _order(parts: Sequence[_Parts], asked: str | None) -> tuple[str, list[str]]:
    """In which order day, month and year stand, over all files."""
    if not parts:
        return "ymd", []
    first = parts[0]
    example = next(iter(first.text[~first.missing]))
    lengths = {len(a) for part in parts for a in np.unique(part.fields["a"][~part.missing])}
    if lengths == {4}:
        return "ymd", []  # nobody writes year, day, month
    if 4 in lengths:
        raise TetherError(
            f"{first.where}: some dates begin with a year and others do not; say how they are written with --time-format"
        )
    if asked is not None:
        return ORDERS[asked], []
    years = any(len(c) == 4 for part in parts for c in np.unique(part.fields["c"][~part.missing]))
    dots = all((part.fields["x"][~part.missing] == ".").all() for part in parts)
    named = all(np.char.isalpha(np.char.rstrip(part.fields["b"][~part.missing], ".")).all() for part in parts)
    above = {name: next((t for part in parts for t in _above_twelve(part, name)), None) for name in ("a", "b")}
    if named or (dots and above["b"] is None):
        order = "dmy"
    elif above["a"] and above["b"]:
        raise TetherError(
            f"{first.where}: {above['a']!r} has its day first and {above['b']!r} has it second; they cannot be read alike"
        )
    elif years and (above["a"] or above["b"]):
        order = "dmy" if above["a"] else "mdy"
    else:
        raise TetherError(
            f"{first.where}: is {example!r} day first or month first? No date of the log tells; say --time-format day-first or "
            "month-first" + ("" if years else ", or year-first")
        )
    return order, [f"dates are {_SPELLED[order]}: {example} is {_spell_date(first, order)}"]


def _above_twelve(part: _Parts, name: str) -> list[str]:
    numbers = part.fields[name]
    high = np.char.isdigit(numbers) & (np.char.str_len(numbers) == 2) & (numbers > "12")
    return part.text[high][:1].tolist()


def _spell_date(part: _Parts, order: str) -> str:
    row = int(np.argmax(~part.missing))
    one = part._replace(missing=part.missing[row : row + 1], fields={n: v[row : row + 1] for n, v in part.fields.items()})
    return datetime.fromtimestamp(_seconds(one, order).values[0], UTC).strftime("%d %B %Y")


def _seconds(part: _Parts, order: str) -> Times:
    f, missing = part.fields, part.missing
    hour, minute, second = (np.where(f[name] == "", "0", f[name]).astype(np.int64) for name in "hns")
    afternoon, before_noon = (np.char.startswith(np.char.lower(f["p"]), letter) for letter in "pa")
    wrong = (hour > np.where(f["p"] != "", 12, 23)) | ((f["p"] != "") & (hour == 0)) | (minute > 59) | (second > 60)
    hour = np.where(afternoon & (hour < 12), hour + 12, np.where(before_noon & (hour == 12), 0, hour))
    # Nine digits at most: as an integer of nanoseconds nothing is rounded.
    fraction = np.where(f["f"] == "", "0", np.char.ljust(f["f"], 9, "0")).astype(np.int64)
    seconds = 3_600 * hour + 60 * minute + second
    if part.dated:
        days, bad = _days(f, order)
        seconds, wrong = seconds + 86_400 * days, wrong | bad
    wrong &= ~missing
    if wrong.any():
        row = int(np.argmax(wrong))
        raise TetherError(f"{part.where} is {part.text[row]!r} in {part.where.at(row)}, which is no time ({_SPELLED[order]})")
    zoned = f["z"] != ""
    if zoned[~missing].any() and not zoned[~missing].all():
        row = int(np.argmax(~zoned & ~missing))
        raise TetherError(f"{part.where} is {part.text[row]!r} in {part.where.at(row)}, without the time zone that others have")
    values = seconds - _offsets(f["z"]) + fraction / 1e9
    beyond = ~missing & ((values < FIRST) | (values >= LAST))
    if beyond.any():
        row = int(np.argmax(beyond))
        raise TetherError(f"{part.where} is {part.text[row]!r} in {part.where.at(row)}; years are from 1 to 9999")
    return Times(values, missing, "of day" if not part.dated else "moment" if zoned.any() else "clock")


def _days(f: dict[str, np.ndarray], order: str) -> tuple[np.ndarray, np.ndarray]:
    """Days since 1970, and which are none."""
    place = {letter: f["abc"[index]] for index, letter in enumerate(order)}
    month = np.array([_month(text) for text in np.unique(place["m"])])[np.unique(place["m"], return_inverse=True)[1]]
    year, day = (np.where(np.char.isdigit(place[n]), place[n], "0").astype(np.int64) for n in "yd")
    year = np.where(np.char.str_len(place["y"]) <= 2, year + 2000, year)
    months = (year - 1970) * 12 + np.clip(month, 1, 12) - 1
    first = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    after = (months + 1).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    return first + day - 1, (month < 1) | (month > 12) | (day < 1) | (day > after - first)


def _month(text: str) -> int:
    if text.isdigit():
        return int(text)
    short = text.lower()[:3]
    return _MONTHS.index(short) + 1 if short in _MONTHS else _OTHER_MONTHS.get(short, 0)


def _offsets(zones: np.ndarray) -> np.ndarray:
    """Seconds east of UTC."""
    names, places = np.unique(zones, return_inverse=True)
    found = []
    for name in names.tolist():
        clock = re.fullmatch(r"([+-])(\d\d):?(\d\d)", name)
        found.append(0 if clock is None else int(clock[1] + "1") * (3_600 * int(clock[2]) + 60 * int(clock[3])))
    return np.array(found)[places]


def _by_pattern(column: pyarrow.ChunkedArray, where: Where, pattern: str) -> Times:
    """As Python's `strptime` reads it."""
    if "%" not in pattern:
        raise TetherError(
            f"--time-format is {pattern!r}; it takes {', '.join(ORDERS)}, or a pattern such as '%d/%m/%Y %H:%M:%S.%f'"
        )
    values, zoned = [], set()
    texts = ["" if text is None else str(text).strip() for text in column.to_pylist()]
    for row, (text, whole) in enumerate(zip(texts, _with_lost_zeros(texts, where, pattern), strict=True)):
        try:
            moment = datetime.strptime(whole, pattern) if text else None
        except ValueError as error:
            raise TetherError(
                f"{where} is {text!r} in {where.at(row)}, which --time-format {pattern!r} does not fit: {error}"
            ) from None
        if moment is not None:
            zoned.add(moment.tzinfo is not None)
        values.append(0.0 if moment is None else (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    if len(zoned) > 1:
        raise TetherError(f"{where} has times with and without a time zone")
    dated = any(mark in pattern for mark in ("%d", "%j", "%x", "%c"))
    return Times(
        np.array(values), np.array([not t for t in texts]), "moment" if True in zoned else "clock" if dated else "of day"
    )


def _with_lost_zeros(texts: list[str], where: Where, pattern: str) -> list[str]:
    """Dates in digits with the zeros in front that a number does not keep, as 01112025 for 1112025 by %d%m%Y.

    `strptime` would take the digits for shorter days and months, and be off by more than a little.
    """
    fields = re.fullmatch(r"((?:%[YymdjHIMS])+)(%f)?", pattern)
    if fields is None:
        return texts
    width, year_first = sum({"Y": 4, "j": 3}.get(letter, 2) for letter in fields[1][1::2]), pattern.startswith("%Y")
    lengths = [width] if fields[2] is None else [width + digits for digits in (range(1, 7) if year_first else (3, 6))]
    for row, text in enumerate(texts):
        if text.isdigit() and len(text) not in lengths and (year_first or fields[2] or len(text) > width):
            raise TetherError(
                f"{where} is {text!r} in {where.at(row)}, {len(text)} digits where --time-format {pattern!r} takes "
                f"{' or '.join(map(str, lengths))}"
            )
    return [text.zfill(width) if text.isdigit() else text for text in texts]


def spell_time(value: float, kind: str | None) -> str:
    """A date where it is one; a number in its own unit else."""
    if kind in (None, "span"):
        return f"{value:g}"
    if not FIRST <= value < LAST - 1:
        return f"{value:.0f} s from 1970"  # a clock of the first or last year, moved by its zone
    if kind == "of day":
        return (datetime(1970, 1, 1) + timedelta(seconds=round(value, 6))).strftime("%H:%M:%S.%f").rstrip("0").rstrip(".")
    moment = datetime(1970, 1, 1) + timedelta(seconds=round(value, 6))
    return moment.isoformat(" ").rstrip("0").rstrip(".") if moment.microsecond else moment.isoformat(" ")


def spell_span(value: float, kind: str | None) -> str:
    """A length of time; of dates in seconds, or in what is easier to read."""
    if kind is None:
        return f"{value:g}"
    if value < 120:
        return f"{value:.6g} s"
    return (
        f"{value / 60:.4g} min" if value < 2 * HOUR else f"{value / HOUR:.4g} h" if value < 2 * DAY else f"{value / DAY:.4g} days"
    )

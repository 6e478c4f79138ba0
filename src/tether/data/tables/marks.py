"""Numbers in text: which mark is the decimal one, which groups thousands, and which cannot be known."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tether.errors import TetherError

if TYPE_CHECKING:
    import pyarrow

OTHER = {".": ",", ",": "."}
EMPTY = ("", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "-", "--", "---", "?")  # in any case
GROUPING = " '\u2019\u00a0\u202f"  # marks that can only group: French spaces, Swiss apostrophes
PIECE = 50_000  # rows looked at before it is asked whether they tell


class Evidence(NamedTuple):
    """What a file's numbers say about its decimal mark."""

    decimal: dict[str, str]  # mark -> a number that only makes sense with it
    unclear: str | None  # one that makes sense either way


def evidence(columns: Iterable[pyarrow.ChunkedArray]) -> Evidence:
    """Look until something tells; in most files the first rows do."""
    unclear = None
    found: dict[str, str] = {}
    for column in columns:
        for start in range(0, len(column), PIECE):
            piece = column.slice(start, PIECE)
            here, either = _evidence_of(piece)
            found |= here
            unclear = unclear or either
            if here:
                break
    return Evidence(found, unclear)


def _evidence_of(column: pyarrow.ChunkedArray) -> tuple[dict[str, str], str | None]:
    from pyarrow import compute

    found, unclear = {}, None
    column = compute.utf8_trim_whitespace(column)
    for mark, other in OTHER.items():
        having = column.filter(compute.match_substring(column, mark))
        if not len(having):
            continue
        m, o = f"\\{mark}", f"[\\{other}{GROUPING}]"
        either = f"^[+-]?[1-9][0-9]{{0,2}}{m}[0-9]{{3}}$"
        # 1,5 and 0,125 and 1234,567 and 1.234,5: the mark is the decimal one. 1,234,567: it groups.
        plain = f"^[+-]?([0-9]*{m}[0-9]*([eE][+-]?[0-9]+)?|[0-9]{{1,3}}({o}[0-9]{{3}})+{m}[0-9]*)$"
        telling = having.filter(
            compute.and_(
                compute.match_substring_regex(having, plain), compute.invert(compute.match_substring_regex(having, either))
            )
        )
        grouping = having.filter(compute.match_substring_regex(having, f"^[+-]?[1-9][0-9]{{0,2}}({m}[0-9]{{3}}){{2,}}$"))
        if len(telling):
            found[mark] = telling[0].as_py()
        if len(grouping):
            found.setdefault(other, grouping[0].as_py())
        doubtful = having.filter(compute.match_substring_regex(having, either))
        if len(doubtful):
            unclear = doubtful[0].as_py()
    return found, unclear


def decide(found: Evidence, delimiter: str, file: str) -> str | None:
    """The decimal mark of a file; None where its numbers do not tell, and it matters."""
    if len(found.decimal) > 1:
        point, comma = found.decimal["."], found.decimal[","]
        raise TetherError(
            f"{file}: has both {comma!r} and {point!r}, where each has another decimal mark; say which it is with --decimal"
        )
    if found.decimal:
        return next(iter(found.decimal))
    # Were the point to group thousands, the comma would be the decimal mark, and another would divide the fields.
    return "." if found.unclear is None or (delimiter == "," and "." in found.unclear) else None


def ask(found: Evidence, file: str) -> TetherError:
    value = found.unclear or ""
    mark = next(mark for mark in OTHER if mark in value)
    whole = value.replace(mark, "")
    return TetherError(
        f"{file}: is {value!r} a little more than {value.partition(mark)[0]}, or {whole}? Nothing in the file tells; say "
        f"--decimal {mark!r} for the first, --decimal {OTHER[mark]!r} for the second"
    )


class Parsed(NamedTuple):
    values: np.ndarray  # (N,) float64
    missing: np.ndarray  # (N,) bool
    grouped: str | None  # a number of which a mark of thousands was taken out
    strange: int | None  # the first row that is no number


def parse_numbers(column: pyarrow.ChunkedArray, decimal: str) -> Parsed:
    """Text as float64. Stops at nothing: the first row that is no number is told."""
    import pyarrow
    from pyarrow import compute

    text = compute.utf8_trim_whitespace(column.cast(pyarrow.string())).combine_chunks()
    text = compute.if_else(compute.equal(text, ""), None, text)
    if decimal == ".":
        try:
            return _parsed(compute.cast(text, pyarrow.float64()))
        except pyarrow.ArrowInvalid:
            pass
    text = compute.if_else(compute.is_in(compute.utf8_lower(text), pyarrow.array(EMPTY)), None, text)
    d, g = f"\\{decimal}", f"[\\{OTHER[decimal]}{GROUPING}]"
    grouped = compute.match_substring_regex(text, f"^[+-]?[1-9][0-9]{{0,2}}({g}[0-9]{{3}})+({d}[0-9]*)?$").fill_null(False)
    example = text.filter(grouped)
    if len(example):
        text = compute.if_else(grouped, compute.replace_substring_regex(text, g, ""), text)
    number = f"^[+-]?([0-9]+{d}?[0-9]*|{d}[0-9]+)([eE][+-]?[0-9]+)?$|^(?i:[+-]?inf(inity)?)$"
    good = compute.match_substring_regex(text, number).fill_null(True).to_numpy(zero_copy_only=False)
    if not good.all():
        return Parsed(np.zeros(len(text)), np.zeros(len(text), bool), None, int(np.argmin(good)))
    text = compute.utf8_ltrim(compute.replace_substring(text, decimal, "."), characters="+")
    return _parsed(compute.cast(text, pyarrow.float64()), example[0].as_py() if len(example) else None)


def _parsed(values: pyarrow.Array, grouped: str | None = None) -> Parsed:
    numbers = values.to_numpy(zero_copy_only=False).astype(np.float64)
    return Parsed(numbers, ~np.isfinite(numbers), grouped, None)

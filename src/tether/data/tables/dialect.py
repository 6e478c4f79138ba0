"""How a CSV file is written: its encoding, its delimiter, its comments, where its header is. What is guessed is told.

A guess is made from the first lines; what the user says goes before it.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tether.errors import TetherError

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
COMMENTS = ("#", "%")  # what a line begins with that is no row
SAMPLE = 2**18  # characters
SAMPLE_LINES = 200
BLOCK = 2**20  # bytes
_BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
# What Excel writes in a cell that it cannot work out, also in German and French, as the first field of a row.
_EXCEL_ERROR = r"#(N/A|NV|[A-Z][A-Z/0]*[!?])[\t ]*[,;\t|]"
_NUMERIC = re.compile(
    r"[+-]?[\d.,:/\s'\u00a0\u202f-]*\d[\d.,:/\s'\u00a0\u202f-]*([eE][+-]?\d+|[TZ][\d:.,+Z-]*|\s*[AaPp]\.?[Mm]\.?)?"
)


@dataclass(frozen=True)
class CsvOptions:
    """What the user says about CSV files; None: guessed."""

    encoding: str | None = None
    delimiter: str | None = None
    comment: str | None = None  # "none": no line is one
    skip_lines: int | None = None  # before the header
    decimal: str | None = None  # "." or ","


@dataclass(frozen=True)
class Dialect:
    """How one file is written."""

    encoding: str
    delimiter: str
    comment: str | None
    header: tuple[str, ...]
    first_row: int  # the line, from 0, after the header and a line of units
    plain: bool  # UTF-8, header in the first line, no comments: a library reads it as it is
    units: tuple[str, ...] = ()  # of the columns, where a line below the header has them
    told: tuple[str, ...] = ()  # what was guessed and is not what everyone would expect


def guess_dialect(path: Path, given: CsvOptions) -> Dialect:
    """From the beginning of the file; what stands further on is found when it is read."""
    told = []
    encoding, commented = _scan(path, given)
    text = _beginning(path, encoding)
    if given.encoding is None and encoding not in ("utf-8", "utf-8-sig"):
        told.append(f"encoded as {encoding}")
    lines = split_lines(text)[:SAMPLE_LINES]
    comment = _comment(lines, given.comment, commented)
    skipped = given.skip_lines or 0
    rows = [number for number, line in enumerate(lines) if number >= skipped and line.strip() and not is_comment(line, comment)]
    if not rows:
        raise TetherError(f"{path.name}: cannot be read: there is no header in it")
    if comment and given.comment is None and (encoding.startswith("utf-8") or any(is_comment(line, comment) for line in lines)):
        told.append(f"lines that begin with {comment} are comments")
    texts = [lines[number] for number in rows]
    delimiter, width, place = _delimiter(texts, given, path)
    if given.delimiter is None and delimiter != ",":
        told.append(f"delimited by {DELIMITERS[delimiter]}s")
    if given.skip_lines is not None and place:
        place = 0  # the header is where the user says
    header, data = fields(texts[place], delimiter), place + 1
    if (
        place
        and len(fields(texts[place - 1], delimiter)) == width - 1
        and all(not fields(t, delimiter)[-1] for t in texts[place:])
    ):
        header, data, place = (
            [*fields(texts[place - 1], delimiter), ""],
            place,
            place - 1,
        )  # rows end in a delimiter, names do not
    elif all(is_numeric(field) for field in header if field):
        header, data = _commented_header(lines[: rows[place]], comment, delimiter, width, path, header), place
        told.append("the header is the last comment before the first row")
    elif place:
        before = "line" if place == 1 else f"{place} lines"
        told.append(f"the {before} before the header, with other numbers of fields than the rows, passed over")
    units = _units(texts[data : data + 2], delimiter, width)
    if units:
        told.append("the line below the header has units")
        data += 1
    first = rows[data] if data < len(rows) else len(lines)
    spaced = any(f'{delimiter} "' in line for line in texts)
    plain = encoding in ("utf-8", "utf-8-sig") and comment is None and first == 1 and not spaced
    return Dialect(encoding, delimiter, comment, _names(header, path), first, plain, tuple(units), tuple(told))


def open_bytes(path: Path) -> BinaryIO:
    return gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb")  # type: ignore[return-value]


def split_lines(text: str) -> list[str]:
    """By the ends of lines alone: `splitlines` also splits at characters that stand within a field."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def fields(line: str, delimiter: str) -> list[str]:
    return [field.strip() for field in next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])]


def is_numeric(text: str) -> bool:
    """A number, a date or a time of day, however it is written."""
    return _NUMERIC.fullmatch(text.strip()) is not None


def _scan(path: Path, given: CsvOptions) -> tuple[str, bool]:
    """The encoding, and whether some line begins like a comment. Reads the whole file: one letter near its end decides."""
    decoder, valid, commented, carried = codecs.getincrementaldecoder("utf-8")(), True, False, b"\n"
    marks = "|".join(map(re.escape, (given.comment,) if given.comment else COMMENTS))
    comment = re.compile(rf"\n(?!{_EXCEL_ERROR})({marks})".encode())
    with open_bytes(path) as file:
        first = file.read(BLOCK)
        block = first
        while block:
            text = carried + block
            end = text.rfind(b"\n")  # what comes after it may go on in the next block
            commented = commented or comment.search(text, 0, end) is not None
            carried = text[end : end + 64]
            try:
                decoder.decode(block)
            except UnicodeDecodeError:
                valid = False
            block = file.read(BLOCK)
    commented = commented or comment.search(carried) is not None
    if not first:
        raise TetherError(f"{path.name}: cannot be read: it is empty")
    if given.encoding is not None:
        try:
            return codecs.lookup(given.encoding).name, commented
        except LookupError:
            raise TetherError(f"--encoding is {given.encoding!r}; Python knows none of that name, but utf-8 and cp1252") from None
    for mark, name in _BYTE_ORDER_MARKS.items():
        if first.startswith(mark):
            return name, commented or name == "utf-16"
    for start, name in ((1, "utf-16-le"), (0, "utf-16-be")):  # of Latin letters every other byte is zero
        half = first[start:4096:2]
        if half and half.count(0) > 0.4 * len(half):
            return name, True
    # Byte for byte it could be any of dozens; most machines that do not write UTF-8 are Windows ones of western Europe.
    return ("utf-8" if valid else "cp1252"), commented


def _beginning(path: Path, encoding: str) -> str:
    with open_bytes(path) as file:
        decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        return decoder.decode(file.read(SAMPLE))


def _comment(lines: Sequence[str], given: str | None, seen: bool) -> str | None:
    if given is not None:
        return None if given == "none" else given
    here = (mark for mark in COMMENTS for line in lines if line.startswith(mark) and is_comment(line, mark))
    return next(here, COMMENTS[0] if seen else None)


def is_comment(line: str, comment: str | None) -> bool:
    return comment is not None and line.lstrip().startswith(comment) and not re.match(_EXCEL_ERROR, line.lstrip())


def _delimiter(lines: Sequence[str], given: CsvOptions, path: Path) -> tuple[str, int, int]:
    """What stands between fields, how many a row has, and the first line with so many: the header's place.

    The right delimiter is the one by which the header comes first; of several the one that leaves no other within a field,
    but for commas of decimals.
    """
    found = []
    for delimiter in (given.delimiter,) if given.delimiter else DELIMITERS:
        counts = [len(fields(line, delimiter)) for line in lines]
        width, times = Counter(counts).most_common(1)[0]
        if width > 1 and times >= 0.8 * len(counts):
            place = counts.index(width)
            rows = [field for line in lines[place:] for field in fields(line, delimiter)]
            found.append((place, -sum(map(_is_whole, rows)) / len(rows), delimiter, width))
    found.sort()
    if not found:
        return given.delimiter or ",", len(fields(lines[0], given.delimiter or ",")), 0
    if len(found) > 1 and found[0][:2] == found[1][:2]:
        raise TetherError(
            f"{path.name}: {DELIMITERS[found[0][2]]} and {DELIMITERS[found[1][2]]} both divide its lines into as many fields; "
            "say which it is with --delimiter"
        )
    place, _, delimiter, width = found[0]
    return delimiter, width, place


def _is_whole(field: str) -> bool:
    return not any(mark in field for mark in DELIMITERS) or (is_numeric(field) and not any(mark in field for mark in ";\t|"))


def _commented_header(
    before: Sequence[str], comment: str | None, delimiter: str, width: int, path: Path, first: list[str]
) -> list[str]:
    for line in reversed(before):
        if comment and is_comment(line, comment):
            names = line.lstrip().removeprefix(comment)
            for split in (fields(names, delimiter), names.split()):
                if len(split) == width:
                    return split
    raise TetherError(
        f"{path.name}: its first line has only numbers ({delimiter.join(first[:4])}…); write the names of the columns above it"
    )


def _units(lines: Sequence[str], delimiter: str, width: int) -> list[str]:
    """The first line's fields, where it has no number but the next has some."""
    if len(lines) < 2:
        return []
    one, two = (fields(line, delimiter) for line in lines)
    words = len(one) == width and any(one) and not any(map(is_numeric, one))
    # A unit is short, and where there is a number it has a unit or nothing.
    short = all(len(field) <= 12 for field in one)
    return (
        ["" if field in ("-", "--") else field.strip("[]() ") for field in one]
        if words and short and sum(map(is_numeric, two)) > 1
        else []
    )


def _names(header: Sequence[str], path: Path) -> tuple[str, ...]:
    names = tuple(name or f"column {number}" for number, name in enumerate(header, start=1))
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise TetherError(f"{path.name}: two columns are both named {twice[0]!r}; rename one")
    return names

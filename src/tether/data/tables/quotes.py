"""Quoted fields that go over several lines: sound ones, and those that took in rows after a quote that is none.

A field that was cut off behind its quote, or that begins with a mark of inches, goes on until the next quote of the file. The
rows between them would be gone without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tether.data.tables.dialect import Dialect, fields, is_numeric
from tether.data.tables.marks import EMPTY
from tether.errors import TetherError

QUOTE = '"'


def join_quoted(
    lines: list[str], numbers: list[int], dialect: Dialect, columns: Sequence[str], file: str
) -> tuple[list[str], list[int], tuple[int, ...]]:
    """Rows with all lines of their quoted fields, the line of each row (from 0), and of each such field the line (from 1).

    A field that does not end is refused, and one with a line that is a row by itself.
    """
    delimiter, starts, opened = dialect.delimiter, list[int](), -1
    inside: list[tuple[int, int, int]] = []  # of a line that begins in a field: the field's first line, itself, the field's end
    for place, line in enumerate(lines):
        begin = 0  # of the first field that begins here
        if opened < 0:
            starts.append(place)
        else:
            end = _closing(line, 0)
            inside.append((opened, place, end))
            if end < 0:
                continue
            begin = line.find(delimiter, end) + 1 or len(line)
        opened = place if _left_open(line, delimiter, begin) else -1

    def refused(first: int, why: str) -> TetherError:
        return TetherError(
            f"{file}: cannot be read: a quote in line {numbers[first] + 1} begins a field that {why}: {lines[first][:80]!r}; "
            "mend that line: take the quote out, or end the field with another"
        )

    if 0 <= opened < len(lines) - 1:
        raise refused(opened, "does not end, so that all lines below it would be in it")
    is_row = _row_test(lines, starts, dialect, columns)
    for first, place, end in inside:
        line = lines[place]
        # The first field of a row may well end so: `second line of the note",1.5,0.1,1`.
        sound = end >= 0 and delimiter not in line[:end] and line[end + 1 :].lstrip()[:1] in ("", delimiter)
        if is_row(line) and not (sound and not is_row(lines[first].removeprefix(QUOTE))):
            raise refused(first, f"goes on into line {numbers[place] + 1}, which is a row by itself")
    rows = ["\n".join(lines[start:stop]) for start, stop in zip(starts, [*starts[1:], len(lines)], strict=True)]
    several = dict.fromkeys(numbers[first] + 1 for first, _, _ in inside)
    return rows, [numbers[start] for start in starts], tuple(several)


def _closing(line: str, place: int) -> int:
    """Where a quoted field ends that is open at `place`; -1: not in this line. Two quotes are one within the text."""
    while (place := line.find(QUOTE, place)) >= 0 and line.startswith(QUOTE, place + 1):
        place += 2
    return place


def _left_open(line: str, delimiter: str, place: int) -> bool:
    """Whether a quoted field is open at the end of a line, of which `place` begins a field. Within a field a quote is text."""
    while place < len(line):
        if line.startswith(QUOTE, place):
            place = _closing(line, place + 1)
            if place < 0:
                return True
        place = line.find(delimiter, place) + 1 or len(line)
    return False


def _row_test(lines: list[str], starts: list[int], dialect: Dialect, columns: Sequence[str]) -> Callable[[str], bool]:
    """Whether a line has as many fields as the header, and numbers or nothing where the first sound row has numbers."""
    width = len(dialect.header)
    alone = (lines[one] for one, next_one in zip(starts, [*starts[1:], len(lines)], strict=True) if next_one == one + 1)
    example = next((split for line in alone if len(split := fields(line, dialect.delimiter)) == width), None)
    places = [place for place in map(dialect.header.index, columns) if example is None or is_numeric(example[place])]

    def is_row(line: str) -> bool:
        split = fields(line, dialect.delimiter)
        if len(split) != width:
            return False
        numeric = [is_numeric(split[place]) for place in places]
        return any(numeric) and all(found or split[place].lower() in EMPTY for found, place in zip(numeric, places, strict=True))

    return is_row

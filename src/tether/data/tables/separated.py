"""The rows of a CSV file as text, by its dialect. What the text means, `marks.py` and `dates.py` find out."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tether.data.tables.dialect import BLOCK, Dialect, fields, is_comment, open_bytes, split_lines
from tether.data.tables.quotes import join_quoted
from tether.errors import TetherError

if TYPE_CHECKING:
    import pyarrow


class Separated(NamedTuple):
    table: pyarrow.Table  # of text
    lines: np.ndarray | None = None  # (N,) of each row, its line in the file from 1, where that is not the row's number and one
    ragged: int = 0  # rows with too few or too many fields, which are empty now
    comments: int = 0  # lines between rows
    over_lines: tuple[int, ...] = ()  # of each quoted field that goes over several lines, the one it begins in


def read_separated(path: Path, dialect: Dialect, columns: Sequence[str], empty_ragged: bool) -> Separated:
    """The columns of every row. One with another number of fields than the header is an error, or with `empty_ragged` empty."""
    import pyarrow

    if dialect.plain:
        packed = "gzip" if path.suffix.lower() == ".gz" else None  # pyarrow itself does not see it in capitals
        with suppress(pyarrow.ArrowInvalid), pyarrow.input_stream(str(path), compression=packed) as stream:
            table = _parsed(stream, dialect, columns, skip=1)
            if table.num_rows + 1 == _count_lines(path):
                return Separated(table)
        # A row that does not fit or that goes over several lines: found below, with its line.
    with open_bytes(path) as file:
        try:
            lines = split_lines(file.read().decode(dialect.encoding))
        except UnicodeDecodeError as error:
            raise TetherError(
                f"{path.name}: byte {error.start:,} is not {dialect.encoding}; say how it is encoded with --encoding"
            ) from error
    filled = [number for number in range(dialect.first_row, len(lines)) if lines[number].strip()]
    kept = [number for number in filled if not is_comment(lines[number], dialect.comment)]
    comments = filled.index(kept[-1]) - filled.index(kept[0]) + 1 - len(kept) if kept else 0
    rows = [lines[number].replace(f'{dialect.delimiter} "', f'{dialect.delimiter}"') for number in kept]
    found, ragged = None, 0
    over_lines: tuple[int, ...] = ()
    with suppress(pyarrow.ArrowInvalid):
        found = _of_lines(rows, dialect, columns)
    if found is None or found.num_rows < len(rows):
        rows, kept, over_lines = join_quoted(rows, kept, dialect, columns, path.name)
    if found is None:
        rows, ragged = _straightened(rows, kept, dialect, path, empty_ragged)
        found = _of_lines(rows, dialect, columns)
    return Separated(found, np.asarray(kept) + 1, ragged, comments, over_lines)


def _count_lines(path: Path) -> int:
    """Those that are not empty: the header and one a row, unless a quoted field goes over several."""
    count, after_end = 0, True
    with open_bytes(path) as file:
        while block := file.read(BLOCK):
            letters = np.frombuffer(block, np.uint8)
            ends = (letters == ord("\n")) | (letters == ord("\r"))
            count += int(np.count_nonzero(ends[:-1] & ~ends[1:])) + int(after_end and not ends[0])
            after_end = bool(ends[-1])
    return count


def _of_lines(rows: list[str], dialect: Dialect, columns: Sequence[str]) -> pyarrow.Table:
    import pyarrow

    if not rows:
        return pyarrow.table({name: pyarrow.array([], pyarrow.string()) for name in columns})
    return _parsed(pyarrow.BufferReader("\n".join(rows).encode()), dialect, columns, skip=0)


def _parsed(source: pyarrow.NativeFile, dialect: Dialect, columns: Sequence[str], skip: int) -> pyarrow.Table:
    import pyarrow
    from pyarrow import csv

    return csv.read_csv(
        source,
        read_options=csv.ReadOptions(column_names=list(dialect.header), skip_rows=skip, block_size=2**24),
        parse_options=csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            include_columns=list(columns), column_types=dict.fromkeys(columns, pyarrow.string()), strings_can_be_null=False
        ),
    )


def _straightened(rows: list[str], kept: list[int], dialect: Dialect, path: Path, empty_ragged: bool) -> tuple[list[str], int]:
    """Rows of one length, with the others empty; and how many those are."""
    width, ragged = len(dialect.header), 0
    for place, row in enumerate(rows):
        count = len(fields(row, dialect.delimiter))
        if count == width:
            continue
        if not empty_ragged:
            comma = (
                "; is the comma its decimal mark too? Such a file cannot be read" if count in (2 * width - 1, 2 * width) else ""
            )
            raise TetherError(
                f"{path.name}: cannot be read: row {place + 1} (line {kept[place] + 1}) has {count} fields, the header has "
                f"{width}: {row[:80]!r}; mend it, or give --drop-incomplete-rows to leave such rows out{comma}"
            )
        rows[place], ragged = dialect.delimiter * (width - 1), ragged + 1
    return rows, ragged

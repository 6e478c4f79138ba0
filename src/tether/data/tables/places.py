"""Where in a file something stands, for messages."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Where(NamedTuple):
    """A column of a file."""

    file: str
    column: str
    lines: np.ndarray | None = None  # (N,) of each row, its line in the file from 1, where comments make it hard to count

    def __str__(self) -> str:
        return f"{self.file}: column {self.column!r}"

    def at(self, row: int) -> str:
        """Counted from 1, without the header."""
        return spell_row(row, self.lines)


def spell_row(row: int, lines: np.ndarray | None) -> str:
    return f"row {row + 1}" if lines is None else f"row {row + 1} (line {lines[row]})"

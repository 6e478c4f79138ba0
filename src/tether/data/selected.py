"""Parts of columns that stay on disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Selected:
    """Some rows of a column that stays on disk. Nothing is read until rows are asked for, by number as of an array."""

    column: np.ndarray
    rows: np.ndarray  # (M,) numbers of rows

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.rows), *self.column.shape[1:])

    @property
    def dtype(self) -> np.dtype:
        return self.column.dtype

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> np.ndarray:
        return np.asarray(self.column[self.rows[index]])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self[:], dtype)


def is_on_disk(column: Any) -> bool:
    return isinstance(column, np.memmap | Selected)


def select(column: Any, rows: np.ndarray) -> Any:
    """The rows of these numbers: a copy of a column in memory, a view of one on disk."""
    if isinstance(column, Selected):
        return Selected(column.column, column.rows[rows])
    return Selected(column, rows) if isinstance(column, np.memmap) else np.asarray(column)[rows]

"""Ranks of numbers, equal ones sharing the mean of theirs.

SciPy has them too, in a package that takes most of a second to import: too long for every process of a sweep.
"""

from __future__ import annotations

import numpy as np


def average_ranks(values: np.ndarray) -> np.ndarray:
    """(N,) from 1 for the lowest to N."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - 0.5 * (counts - 1))[place]


def rank_correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Spearman's: the correlation of the ranks. Neither may be all of one value."""
    return float(np.corrcoef(average_ranks(one), average_ranks(other))[0, 1])

"""Ranks, by hand."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import tether
from tether.ranks import average_ranks, rank_correlation


def test_equal_numbers_share_the_mean_of_their_ranks():
    # In order: 1, 2, 2, 5. The two have ranks 2 and 3.
    np.testing.assert_array_equal(average_ranks(np.array([2.0, 5.0, 1.0, 2.0])), [2.5, 4.0, 1.0, 2.5])


def test_the_rank_correlation_is_of_the_order_and_not_of_the_sizes():
    one = np.array([1.0, 2.0, 3.0, 4.0])
    assert rank_correlation(one, np.exp(one)) == pytest.approx(1.0)
    assert rank_correlation(one, -one) == pytest.approx(-1.0)
    # Ranks 2, 1, 4, 3 against 1, 2, 3, 4: 1 - 6 (1 + 1 + 1 + 1) / (4 (16 - 1)) = 0.6.
    assert rank_correlation(one, np.array([20.0, 10.0, 40.0, 30.0])) == pytest.approx(0.6)


def test_nothing_imports_the_slow_parts_of_scipy():
    """Most of a second each, in every process of a sweep."""
    package = Path(tether.__file__).parent
    assert not [path for path in package.rglob("*.py") if re.search(r"scipy\.(stats|signal)", path.read_text())]

"""Last, last ten and best, worked by hand."""

from __future__ import annotations

import numpy as np

from tether.evaluation.stats import score_summary, summarise


def test_summarise():
    assert summarise(np.array([1.0, 3.0])) == {"mean": 2.0, "std": 1.0}


def test_score_summary():
    # Evaluation k has scores (k - 1, k + 1), but step 300 has (48, 52).
    evaluations = [(100 * k, np.array([k - 1.0, k + 1.0])) for k in range(1, 13)]
    evaluations[2] = (300, np.array([48.0, 52.0]))
    summary = score_summary(evaluations)
    assert summary["last"] == {"mean": 12.0, "std": 1.0}
    assert summary["best"] == {"mean": 50.0, "std": 2.0, "step": 300}
    # The last ten are steps 300 to 1200: means 50, 4, 5, ..., 12, in all 50 + 72 = 122.
    assert summary["last_ten"]["mean"] == 12.2
    pooled = [48, 52, 3, 5, 4, 6, 5, 7, 6, 8, 7, 9, 8, 10, 9, 11, 10, 12, 11, 13]
    assert summary["last_ten"]["std"] == np.std(pooled)


def test_the_earliest_of_equals_is_best_and_fewer_than_ten_are_pooled():
    summary = score_summary([(1, np.array([2.0])), (2, np.array([2.0])), (3, np.array([0.0]))])
    assert summary["best"] == {"mean": 2.0, "std": 0.0, "step": 1}
    np.testing.assert_allclose(summary["last_ten"]["mean"], 4 / 3)


def test_evaluations_with_different_numbers_of_episodes_are_pooled_by_episode():
    summary = score_summary([(1, np.array([0.0, 0.0, 0.0])), (2, np.array([4.0]))])
    assert summary["last_ten"]["mean"] == 1.0


def test_no_evaluation():
    assert score_summary([]) is None

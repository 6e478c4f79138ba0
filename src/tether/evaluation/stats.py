"""A run's score in three named ways: last, last ten, best. Never one number without saying which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import numpy as np


class Summary(TypedDict):
    mean: float
    std: float  # of the pooled episodes, population form (divided by their number)


class BestSummary(Summary):
    step: int


class ScoreSummary(TypedDict):
    last: Summary
    last_ten: Summary
    best: BestSummary


def summarise(scores: np.ndarray) -> Summary:
    """Mean and standard deviation of all scores given, whatever their shape."""
    return {"mean": float(np.mean(scores)), "std": float(np.std(scores))}


def score_summary(evaluations: Sequence[tuple[int, np.ndarray]]) -> ScoreSummary | None:
    """Summaries of a run's evaluations, each a step and the scores of its episodes, in the order of steps.

    - `last`: the episodes of the last evaluation.
    - `last_ten`: the episodes of the last ten evaluations (all, if fewer), pooled: every episode weighs the same.
    - `best`: the episodes of the evaluation with the highest mean, the earliest if several. Choosing it needs the environment,
      so it is not a result of offline learning; it shows what was passed over.

    None if there was no evaluation.
    """
    if not evaluations:
        return None
    scores = [np.asarray(episode_scores, dtype=np.float64) for _, episode_scores in evaluations]
    best = int(np.argmax([np.mean(episode_scores) for episode_scores in scores]))
    return {
        "last": summarise(scores[-1]),
        "last_ten": summarise(np.concatenate(scores[-10:])),
        "best": {**summarise(scores[best]), "step": int(evaluations[best][0])},
    }

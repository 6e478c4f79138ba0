"""Groups of runs as cells of a table and as curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tether.report.gathered import Group
from tether.report.paper import marks
from tether.report.tables import COLUMNS, Row, Score, run_row, seeds_row

RESAMPLES = 1_000


@dataclass(frozen=True)
class Cell:
    score: Score
    mark: str | None = None  # best, within, or neither; see paper.py


def group_row(group: Group, policy: str | None = None) -> Row:
    return run_row(group.label, group.runs[0], policy) if len(group.runs) == 1 else seeds_row(group.label, group.runs, policy)


def task_cells(groups: Sequence[Group], policy: str | None = None) -> dict[int, dict[str, Cell]]:
    """Of all groups on one task, by `id(group)` and column: scores, and which of them are the best of their column."""
    found: dict[int, dict[str, Score]] = {}
    for group in groups:
        row = group_row(group, policy)
        found[id(group)] = {column: row.scores[title] for column, title in COLUMNS.items() if title in row.scores}
    cells: dict[int, dict[str, Cell]] = {name: {} for name in found}
    for column in COLUMNS:
        scores = {name: mine[column] for name, mine in found.items() if column in mine}
        marked = marks(scores) if len(scores) > 1 else {}
        for name, score in scores.items():
            cells[name][column] = Cell(score, marked.get(name))
    return cells


def mean_curve(
    group: Group, policy: str | None = None, normalised: bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
    """Steps, the mean score, and the ends of its 95 % interval; None where nothing was evaluated.

    The interval is of the mean over seeds, by resampling them; of a single run, over its episodes. At the steps that all have.
    """
    curves = [(run.scores(policy) or run.returns(policy)) if normalised else run.returns(policy) for run in group.runs]
    by_step = [dict(zip(map(float, steps), episodes, strict=True)) for steps, episodes in curves]
    steps = sorted(set.intersection(*(set(found) for found in by_step)))
    if not steps:
        return None
    if len(by_step) == 1:
        values = [np.asarray(by_step[0][step], float) for step in steps]
    else:
        values = [np.array([np.mean(found[step]) for found in by_step]) for step in steps]
    random = np.random.default_rng(0)
    mean, low, high = [], [], []
    for sample in values:
        drawn = sample[random.integers(len(sample), size=(RESAMPLES, len(sample)))].mean(axis=1)
        mean.append(float(sample.mean()))
        low.append(float(np.quantile(drawn, 0.025)))
        high.append(float(np.quantile(drawn, 0.975)))
    return np.array(steps), np.array(mean), np.array(low), np.array(high)

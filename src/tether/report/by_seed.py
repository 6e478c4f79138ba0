"""What each seed of each method scored on each task: what statistics and comparisons of the same seeds begin with."""

from __future__ import annotations

from collections.abc import Sequence

from tether.errors import TetherError
from tether.report.gathered import Group
from tether.report.tables import COLUMNS, run_row
from tether.runs.reading import Run

LOWEST = "lowest_of_five"  # the lowest of the last five evaluations: what an unlucky step to stop at would have cost


def scores_by_seed(groups: Sequence[Group], score: str, policy: str | None = None) -> dict[str, dict[str, dict[int, float]]]:
    """By method, task and seed."""
    if score not in (*COLUMNS, LOWEST):
        raise TetherError(f"there is no score {score!r}; there is: {', '.join((*COLUMNS, LOWEST))}")
    found: dict[str, dict[str, dict[int, float]]] = {}
    for group in groups:
        scores = found.setdefault(group.label, {}).setdefault(group.task, {})
        for run in group.runs:
            value, seed = _score(run, score, policy), int(run.config["seed"])
            if value is None:
                raise TetherError(f"run {run.path} was not evaluated, so it has no score")
            if seed in scores:
                raise TetherError(
                    f"{run.path}: another run of {group.label} on {group.task} has seed {seed} too; name folders that hold one "
                    "setting of a method, such as the final runs of a sweep"
                )
            scores[seed] = value
    return found


def units(groups: Sequence[Group]) -> set[str | None]:
    """Of the scores: normalised, or returns."""
    return {run.result.get("score_unit") for group in groups for run in group.runs if run.result}


def _score(run: Run, score: str, policy: str | None) -> float | None:
    if score == LOWEST:
        return run.lowest_of_last(5, policy)
    found = run_row("", run, policy).scores.get(COLUMNS[score])
    return None if found is None else found.mean

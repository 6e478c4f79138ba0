"""What one worker makes: a run, or with `--together` several runs of different seeds as one program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tether.errors import TetherError
from tether.runs import checkpoint
from tether.sweep.expansion import PlannedRun


@dataclass(frozen=True)
class Bundle:
    runs: tuple[PlannedRun, ...]

    @property
    def name(self) -> str:
        """`a/b/s0`, or `a/b/s0, s1, s2`."""
        return ", ".join([self.runs[0].name, *(run.folder.name for run in self.runs[1:])])

    @property
    def log_name(self) -> str:
        others = len(self.runs) - 1
        return f"{self.runs[0].name}-and-{others}-more" if others else self.runs[0].name

    @property
    def fit(self) -> str | None:
        return self.runs[0].fit


def bundle_with(first: PlannedRun, queue: Sequence[PlannedRun], most: int) -> Bundle:
    """`first` with those of the queue that can be one program with it, `most` in all: nothing but the seed differs.

    They stand at one step, too. A run whose checkpoint cannot be read is alone: it will say what is wrong with it.
    """
    found, step = [first], step_of(first) if most > 1 else None
    for run in queue if step is not None else ():
        if len(found) == most:
            break
        if run.folder != first.folder and _are_alike(run, first) and step_of(run) == step:
            found.append(run)
    return Bundle(tuple(found))


def bundles_of(runs: Sequence[PlannedRun], most: int) -> list[Bundle]:
    """All of them, as they would be made if nothing went wrong."""
    by_place: dict[Path, list[PlannedRun]] = {}  # so that a plan of thousands is not compared run by run
    for run in runs:
        by_place.setdefault(run.folder.parent, []).append(run)
    found = []
    for left in by_place.values():
        while left:
            found.append(bundle_with(left[0], left, most))
            left = [run for run in left if run not in found[-1].runs]
    return found


def _are_alike(run: PlannedRun, other: PlannedRun) -> bool:
    same_place = run.folder.parent == other.folder.parent and run.data == other.data
    return same_place and replace(run.config, seed=other.config.seed) == other.config


def step_of(run: PlannedRun) -> int | None:
    """That it goes on from; None where that is not known, 0 where it has not begun."""
    try:
        return checkpoint.step_in(run.folder)
    except TetherError:
        return None

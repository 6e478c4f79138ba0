"""A part of a plan's runs: `tether sweep PLAN.toml --only hopper-medium,pen-expert tethered s33`."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from tether.errors import TetherError, did_you_mean
from tether.sweep.expansion import PlannedRun


def asked_for(runs: Sequence[PlannedRun], only: Sequence[str]) -> list[PlannedRun]:
    """Runs in whose name every entry of `only` has a part: a dataset, AGENT-BONUS, a variant, a seed as s0. All, if it is empty.

    An entry is several words with commas between them, of which one will do; a word may have `*` and `?` in it.
    """
    if not only:
        return [*runs]
    parts = {part for run in runs for part in run.name.split("/")}
    wanted = [entry.split(",") for entry in only]
    for word in (word for words in wanted for word in words):
        if not any(fnmatchcase(part, word) for part in parts):
            raise TetherError(f"--only {word}: no run of the plan has that in its name{did_you_mean(word, parts)}")
    found = [run for run in runs if all(_has_one(run, words) for words in wanted)]
    if not found:
        raise TetherError(
            f"--only {' '.join(only)}: no run of the plan has all of these; of words with commas between, one will do"
        )
    return found


def _has_one(run: PlannedRun, words: Sequence[str]) -> bool:
    return any(fnmatchcase(part, word) for part in run.name.split("/") for word in words)

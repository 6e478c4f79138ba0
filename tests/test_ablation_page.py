"""The table of docs/ablation.md holds what the run files behind it say, to the last digit, and leaves none of them out."""

from __future__ import annotations

import statistics
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest
from pages import ROOT, tables_of

from tether.runs.reading import find_runs

SINCE = 35_000  # of 40,000 steps: the last two evaluations
LOGS = ("hopper-medium", "halfcheetah-medium", "hopper-medium-expert")
TABLES = [table for table in tables_of("docs/ablation.md") if set(LOGS) <= set(table[0])]
(GAUSSIANS,) = [table for table in tables_of("docs/ablation.md") if table[0] == ["log", "five", "one"]]


class Comparison(NamedTuple):
    runs: Path
    whole: str  # the variant that others are beside
    plan: str = ""

    def table(self) -> list[list[str]]:
        (found,) = [table for table in TABLES if table[1][0] == f"`{self.whole}`"]
        return found

    def scores(self, variant: str, log: str) -> dict[str, float]:
        """By seed: the mean over the last two evaluations."""
        runs = find_runs(tuple(self.runs.glob(f"{log}/*/{variant}")))
        return {run.path.name: run.within(since=SINCE).result["score"]["last_ten"]["mean"] for run in runs}

    def cell(self, variant: str, log: str, seeds: list[str]) -> str:
        """The mean over the seeds, how far it is from the whole's with the same ones, and the least and the most of that."""
        found, whole = (self.scores(name, log) for name in (variant, self.whole))
        assert sorted(found) == seeds, (variant, log)
        mean = f"{statistics.fmean(found.values()):.1f}"
        if variant == self.whole:
            return mean
        changes = [found[seed] - whole[seed] for seed in seeds]
        span = f" [{min(changes):+.1f}, {max(changes):+.1f}]" if len(seeds) > 1 else ""
        return f"{mean}, {statistics.fmean(changes):+.1f}{span}"


PARTS = Comparison(ROOT / "results" / "proof-ablation", "whole", "proof-ablation.toml")
PAPER = Comparison(ROOT / "results" / "paper-ablation", "paper", "paper-ablation.toml")
ONE_OR_FIVE = Comparison(ROOT / "results" / "tether-preset" / "one-gaussian", "five")


@pytest.mark.parametrize("comparison", [PARTS, PAPER], ids=lambda comparison: comparison.whole)
class TestATable:
    def test_says_in_every_line_what_its_runs_say(self, comparison: Comparison):
        heading, *lines = comparison.table()
        for line in lines:
            seeds = [f"s{seed}" for seed in line[heading.index("seeds")].split(", ")]
            assert [line[heading.index(log)] for log in LOGS] == [comparison.cell(line[0].strip("`"), log, seeds) for log in LOGS]

    def test_has_the_lines_of_the_plan_that_have_run(self, comparison: Comparison):
        plan = tomllib.loads((ROOT / "plans" / comparison.plan).read_text())
        has_run = {place.name for place in comparison.runs.glob("*/*/*") if place.is_dir()}
        assert [line[0].strip("`") for line in comparison.table()[1:]] == [name for name in plan["variants"] if name in has_run]


def test_one_gaussian_or_five_is_what_the_runs_say():
    heading, *lines = GAUSSIANS
    assert [line[0] for line in lines] == [*LOGS, "pen-expert"]
    for log, *cells in lines:
        assert cells == [ONE_OR_FIVE.cell(variant, log, ["s40", "s41", "s42"]) for variant in heading[1:]]

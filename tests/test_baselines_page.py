"""The table of docs/baselines.md holds what the run files behind it say, to the last digit, and leaves none of them out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pages import ROOT, tables_of

from tether.report.paper import paper_scores
from tether.report.tables import COLUMNS, seeds_row
from tether.runs.reading import Run, find_runs
from tether.storage import read_json

RUNS = ROOT / "results" / "baselines"
LOGS = ("hopper-medium", "halfcheetah-medium", "pen-expert")
(TABLE,) = [table for table in tables_of("docs/baselines.md") if set(LOGS) <= set(table[0])]
# Of a line: the variant in the plans, which may have another name on a log where its paper has other weights.
VARIANTS = {
    "`bc`": "bc",
    "`bc`, best tenth": "bc-best-tenth",
    "`td3`, `cvae`": "td3-cvae",
    "`sac`, `rnd-film`": "sac-rnd",
}
PAPER = {  # whose published number is that of our paper's table
    "`awr`": "AWR",
    "`bcq`": "BCQ",
    "`bear`": "BEAR",
    "`brac-p`": "BRAC-p",
    "`brac-v`": "BRAC-v",
    "`td3`, `cvae`": "TD3-CVAE",
}


def variant_of(label: str) -> str:
    return VARIANTS.get(label, label.strip("`"))


def runs_of(label: str, log: str) -> list[Run]:
    names = (variant_of(label), f"{variant_of(label)}-on-{log}")
    places = [place for plan in RUNS.iterdir() if plan.is_dir() for place in plan.glob(f"{log}/*/*") if place.name in names]
    return [run for place in places for run in find_runs((place,))]


def has_diverged(label: str, log: str) -> bool:
    records = RUNS.glob(f"*/_sweep/failed/{log}/*/{variant_of(label)}/s*.json")  # which its sweep wrote
    return {read_json(record)["kind"] for record in records} == {"diverged"}


def cells() -> Iterator[tuple[str, str, str]]:
    heading, *lines = TABLE
    for label, *line in lines:
        for name, cell in zip(heading[1:], line, strict=True):
            if name in LOGS:
                yield label, name, cell


@pytest.mark.parametrize(("label", "log", "cell"), list(cells()))
def test_a_cell_is_last_last_ten_and_best_of_the_runs(label: str, log: str, cell: str):
    runs = runs_of(label, log)
    if not runs:
        assert cell == ("diverged" if has_diverged(label, log) else "–")
        return
    scores = seeds_row(label, runs).scores
    seeds = f" ({len(runs)} seeds)" if len(runs) > 1 else ""
    assert cell == " / ".join(f"{scores[title].mean:.1f}" for title in COLUMNS.values()) + seeds


def test_no_run_is_left_out():
    shown = {run.path for label, log, _ in cells() for run in runs_of(label, log)}
    assert shown == {run.path for run in find_runs((RUNS,))}


@pytest.mark.parametrize(("label", "method"), PAPER.items())
def test_what_the_paper_has_is_what_its_table_says(label: str, method: str):
    heading = TABLE[0]
    (line,) = [line for line in TABLE[1:] if line[0] == label]
    for log in LOGS:
        assert line[heading.index(log) + 1] == f"{paper_scores(log)[method].mean:.1f} v0"

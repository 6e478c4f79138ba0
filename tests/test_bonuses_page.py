"""The tables of docs/bonuses.md hold what the lab's files say of each bonus, to the last digit."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pages import ROOT, tables_of

LAB = ROOT / "results" / "bonus-lab"
OF_TETHERED = "density:components=5:lean_to_best=6:least_std=0.1:steps=60000"
# Of labels that are no bonus's own name: how the lab was asked for it.
ASKED = {"`density`, five Gaussians": "density:components=5", "`density` of `tethered`": OF_TETHERED}
KINDS = {"AUROC: shuffled": "shuffled", "uniform": "uniform", "noise 0.25": "noise 0.25"}
TABLES = [table for table in tables_of("docs/bonuses.md") if "probe" in table[0]]
LINES = [(table[0][0], line[0]) for table in TABLES for line in table[1:] if line[0].startswith("`") and line[1]]


def judged(log: str) -> dict[str, Any]:
    """By bonus, as it was asked for."""
    files = [place for folder in (log, f"{log}-density") for place in LAB.glob(f"{folder}/bonus.json")]
    return {found["bonus"]: found for place in files for found in json.loads(place.read_text())["bonuses"]}


def test_every_bonus_of_the_lab_is_in_its_table():
    assert [table[0][0] for table in TABLES] == ["hopper-medium", "halfcheetah-medium", "walker2d-medium"]
    for log in ("hopper-medium", "halfcheetah-medium", "walker2d-medium"):
        shown = {asked_for(label) for table, label in LINES if table == log}
        assert shown == judged(log).keys() - {"cvae:elbo=sum"}  # that is another measure of the same: the lab's own page has it


@pytest.mark.parametrize(("log", "label"), LINES)
def test_a_line_is_what_the_lab_says(log: str, label: str):
    (table,) = [table for table in TABLES if table[0][0] == log]
    cells = dict(zip(table[0], next(line for line in table if line[0] == label), strict=True))
    found = judged(log)[asked_for(label)]
    told = {title: f"{found['kinds'][kind]['auroc']:.3f}" for title, kind in KINDS.items()}
    told["probe"] = f"{found['probe']['probe']:.2f}" if found["probe"] else ""
    assert {title: cells[title] for title in told} == told


def asked_for(label: str) -> str:
    return ASKED.get(label) or label.split("`")[1]

"""The tables of docs/bonuses.md hold what files of the lab, the runs and the benchmark say of each bonus, to the last digit."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pages import ROOT, tables_of

from tether.benchmark.speed import bonuses_to_measure
from tether.report.tables import COLUMNS, seeds_row
from tether.runs.reading import find_runs
from tether.storage import read_json

LAB = ROOT / "results" / "bonus-lab"
OF_TETHERED = "density:lean_to_best=6:least_std=0.1:steps=60000"
# Of labels that are no bonus's own name: how the lab was asked for it.
ASKED = {"`density`, five Gaussians": "density:components=5", "`density` of `tethered`": OF_TETHERED}
KINDS = {"AUROC: shuffled": "shuffled", "uniform": "uniform", "noise 0.25": "noise 0.25"}
TABLES = [table for table in tables_of("docs/bonuses.md") if "probe" in table[0]]
(JOINED,) = [table for table in tables_of("docs/bonuses.md") if table[0][0] == "bonus"]
RUNS = ROOT / "results"
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


@pytest.mark.parametrize("line", JOINED[1:], ids=lambda line: line[0])
def test_a_line_of_the_joined_table_is_what_the_files_say(line: list[str]):
    label = line[0]
    assert line[1:3] == cost(label.replace("`", ""))
    found = [judged(log)[asked_for(label)] for log in ("hopper-medium", "halfcheetah-medium")]
    told = [f"{of_log['kinds'][kind]['auroc']:.3f}" for kind in ("uniform", "noise 0.25") for of_log in found]
    probes = [f"{of_log['probe']['probe']:.2f}" if of_log["probe"] else "" for of_log in found]
    assert line[3:9] == told + probes
    assert line[9:] == [last_score(label.strip("`"), log) for log in ("hopper-medium", "halfcheetah-medium")]


def test_every_bonus_that_was_judged_and_timed_is_in_the_joined_table():
    judged_ones = {label.split("`")[1] for table, label in LINES if table != "walker2d-medium"}
    assert {line[0].split("`")[1] for line in JOINED[1:]} == judged_ones


def cost(name: str) -> list[str]:
    """Seconds of its fit and pairs a second, on the core of docs/speed.md's table."""
    facts = read_json(ROOT / "benchmarks/results/2026-11-19-one-core-zen5-bonuses.json")["measurements"]
    rates = {fact["name"]: fact["steps_per_busy_second"] for fact in facts}
    steps = bonuses_to_measure()[name].steps
    return [f"{steps / rates[f'fit of {name}']:,.0f}" if steps else "", f"{rates[f'bonus of {name}, pairs']:,.0f}"]


def last_score(name: str, log: str) -> str:
    """TD3's with the bonus after 30,000 steps, over the seeds; empty where there is no run."""
    places = (folder / log / f"td3-{name}" for folder in (RUNS, RUNS / "each-bonus"))
    runs = find_runs([place for place in places if place.exists()])
    if not runs:
        return ""
    return f"{seeds_row(name, [run.within(until=30_000) for run in runs], 'online').scores[COLUMNS['last']].mean:.1f}"


def asked_for(label: str) -> str:
    return ASKED.get(label) or label.split("`")[1]

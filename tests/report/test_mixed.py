"""Runs that are averaged as seeds are said not to be, where their settings or their seeds tell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tether import cli
from tether.report.gathered import gather
from tether.report.mixed import mixed_lines
from tether.report.page.content import make_page
from tether.runs.reading import Run

MakeRun = Callable[..., Run]


def make(
    make_run: MakeRun,
    name: str,
    seed: int,
    agent: dict[str, Any],
    bonus: dict[str, Any] | None = None,
    sha256: str = "ab" * 32,
    **more: Any,
) -> None:
    config = {"agent": agent, "bonus": bonus or {"name": "none"}, "evaluation": {"policy": "online"}, "seed": seed} | more
    make_run(name, config=config, result={"dataset": {"name": "mine", "env_id": None, "sha256": sha256}})


@pytest.fixture
def mixed(make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three methods under the names of seeds, of which two have the same seed. Discounts differ with the agent, and go untold."""
    monkeypatch.chdir(tmp_path)
    make(make_run, "mix/s0", 0, {"name": "td3", "discount": 0.9})
    make(make_run, "mix/s1", 1, {"name": "bc", "discount": 0.99})
    make(make_run, "mix/s2", 0, {"name": "td3", "discount": 0.9}, {"name": "cvae", "seed": 7})
    return Path("mix")


TOLD = [
    "not seeds of one method: mix/s0 and mix/s1 differ in agent.name (td3, bc)",
    "not seeds of one method: mix/s0 and mix/s2 differ in bonus.name (none, cvae)",
    "the same seed twice: mix/s0 and mix/s2 (seed 0)",
]


def test_runs_of_several_methods_are_told_from_seeds(mixed: Path):
    assert mixed_lines(gather([mixed]).groups) == TOLD


@pytest.mark.parametrize("way", [[], ["--markdown"], ["--tasks"], ["--csv"], ["--latex"]])
def test_every_table_says_it(mixed: Path, way: list[str], capsys: pytest.CaptureFixture[str]):
    assert cli.main(["report", str(mixed), *way]) == 0
    out, err = capsys.readouterr()
    start = "% " if way == ["--latex"] else ""
    told = (err if way == ["--csv"] else out).splitlines()
    assert [line for line in told if line.removeprefix("% ") in TOLD] == [f"{start}{line}" for line in TOLD]


def test_the_page_says_it_below_its_table(mixed: Path):
    text = make_page(gather([mixed]), "runs")
    assert '<p class="note">The same seed twice: mix/s0 and mix/s2 (seed 0).</p>' in text
    assert '<p class="note">Not seeds of one method: mix/s0 and mix/s1 differ in agent.name (td3, bc).</p>' in text


def test_what_seeds_may_differ_in_is_no_difference(make_run: MakeRun, tmp_path: Path):
    """Their seeds and that of the bonus; and a setting that only the newer of two versions has."""
    make(make_run, "mix/s0", 0, {"name": "td3"}, {"name": "cvae", "seed": 0}, training={"steps": 5})
    make(make_run, "mix/s1", 1, {"name": "td3", "dropout": 0.1}, {"name": "cvae", "seed": 1}, training={"steps": 5})
    assert mixed_lines(gather([tmp_path]).groups) == []


def test_settings_steps_and_data_are_compared(make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    wide, narrow = {"hidden_sizes": [64]}, {"hidden_sizes": [8]}
    make(make_run, "mix/s0", 0, {"name": "td3", "optimiser": {"clip_norm": 0.0}}, training={"steps": 5}, sha256="ab" * 32)
    make(make_run, "mix/s1", 1, {"name": "td3", "optimiser": {"clip_norm": 1.0}}, training={"steps": 6}, sha256="cd" * 32)
    make(make_run, "more/s0", 0, {"name": "td3"} | wide)
    for seed in (1, 2):
        make(make_run, f"more/s{seed}", seed, {"name": "td3"} | narrow)
    assert mixed_lines(gather([Path()]).groups) == [
        "not seeds of one method: mix/s0 and mix/s1 differ in agent.optimiser.clip_norm (0.0, 1.0), training.steps (5, 6), "
        "the dataset's sha256 (abababababab…, cdcdcdcdcdcd…)",
        "not seeds of one method: more/s0 and more/s1, more/s2 differ in agent.hidden_sizes ([64], [8])",
    ]

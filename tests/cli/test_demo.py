"""`tether demo`, whole, on a smaller dataset."""

from __future__ import annotations

from pathlib import Path

import pytest
from pendulum import SETTINGS, snapshot

from tether import BC, CVAE, TD3, cli
from tether.bonuses import NoBonus
from tether.cli import demo

FOLDERS = {"bc-none", "td3-none", "td3-cvae"}


def test_the_demo_keeps_the_whole_fit_and_lets_td3_explode():
    configs = {label: demo._config(agent, bonus, "Hopper-v5") for label, (agent, bonus) in demo.METHODS.items()}
    assert [type(config.agent) for config in configs.values()] == [BC, TD3, TD3]
    assert [type(config.bonus) for config in configs.values()] == [NoBonus, NoBonus, CVAE]
    assert configs["TD3-CVAE"].bonus.steps == CVAE().steps
    assert [config.training.value_limit for config in configs.values()] == [float("inf"), float("inf"), 1e5]
    assert len({(config.training.steps, config.evaluation, config.seed) for config in configs.values()}) == 1


def test_three_methods_are_trained_and_compared(
    finished_run: Path, pendulum_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(demo, "DATASET", str(pendulum_file))
    monkeypatch.setattr(demo, "SETTINGS", SETTINGS | {"training.steps": 200})
    out = tmp_path / "demo"
    assert cli.main(["demo", "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert {path.name for path in out.iterdir()} == FOLDERS | {"curves.png", "bonus.png"}
    for folder in FOLDERS:
        assert (out / folder / "result.json").exists()
    for picture in ("curves.png", "bonus.png"):
        assert (out / picture).read_bytes().startswith(b"\x89PNG")
        assert f"{out}/{picture}" in shown
    rows = [line.split("│")[1].strip() for line in shown.splitlines() if line.startswith("│")]
    assert rows == ["the dataset", *demo.METHODS]

    before = {folder: snapshot(out / folder) for folder in FOLDERS}
    assert cli.main(["demo", "--out", str(out)]) == 0
    assert capsys.readouterr().out.count("left as it is") == 3
    assert {folder: snapshot(out / folder) for folder in FOLDERS} == before

"""`tether demo`, whole, on a smaller dataset."""

from __future__ import annotations

from pathlib import Path

import pytest
from pendulum import SETTINGS, snapshot

from tether import BC, TD3, Density, Tethered, cli
from tether.bonuses import NoBonus
from tether.cli import demo

FOLDERS = {"bc-none", "td3-none", "tethered-density"}


def test_all_train_as_long_and_only_td3_may_explode():
    configs = {label: demo._config(method, "HalfCheetah-v5") for label, method in demo.METHODS.items()}
    assert [type(config.agent) for config in configs.values()] == [BC, TD3, Tethered]
    assert [type(config.bonus) for config in configs.values()] == [NoBonus, NoBonus, Density]
    assert [config.training.value_limit for config in configs.values()] == [1e5, float("inf"), 1e5]
    assert len({(config.training.steps, config.seed) for config in configs.values()}) == 1
    ours = configs[demo.OURS]
    assert ours.agent.warm_up_steps < ours.training.steps


def test_three_methods_are_trained_and_compared(
    pendulum_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(demo, "DATASET", str(pendulum_file))
    monkeypatch.setattr(
        demo,
        "LENGTH",
        {name: value for name, value in SETTINGS.items() if not name.startswith("bonus.")} | {"training.steps": 200},
    )
    monkeypatch.setitem(demo.SHORT, "bonus.steps", 200)
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
    assert rows == ["the log", "its best third", *demo.METHODS]

    before = {folder: snapshot(out / folder) for folder in FOLDERS}
    assert cli.main(["demo", "--out", str(out)]) == 0
    assert capsys.readouterr().out.count("left as it is") == 3
    assert {folder: snapshot(out / folder) for folder in FOLDERS} == before

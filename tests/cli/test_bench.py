"""`tether bench`: JSON for programs on stdout, a table for people on stderr."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tether import cli
from tether.agents import AGENTS
from tether.benchmark import speed
from tether.bonuses import BONUSES


@pytest.mark.slow
def test_one_run_measures_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(speed, "PRODUCT_SIZE", 64)
    monkeypatch.setattr(speed, "ROWS", 300)
    monkeypatch.setattr(speed, "PAIRS", 400)
    monkeypatch.setattr(speed, "ROW_COUNTS", (100, 300, 10_000))
    out = tmp_path / "new" / "speed.json"
    arguments = ["bench", "--steps", "2", "--repetitions", "1", "--most-rows", "300", "--out", str(out)]
    assert cli.main(arguments) == 0
    shown = capsys.readouterr()
    report = json.loads(shown.out)
    assert [(found["name"], found["rows"]) for found in report["measurements"]] == [
        ("TD3-CVAE", 300),
        ("TD3, no bonus", 300),
        *((f"fit of {name}", 300) for name, kind in BONUSES.items() if kind().steps),
        ("fit of density of tethered", 300),
        *((f"bonus of {name}, pairs", 400) for name in BONUSES if name != "none"),
        ("bonus of density of tethered, pairs", 400),
        ("TD3, no bonus, 1e2 rows", 100),
        ("TD3, no bonus, 3e2 rows", 300),
    ]
    assert len(report["measurements"]) == speed.number_of_measurements((100, 300))
    for found in report["measurements"]:
        assert {"steps_per_second", "gflop_per_step", "share_of_limit", "compile_seconds"} < found.keys()
    assert (report["observation_size"], report["action_size"]) == (17, 6)
    assert report["peak_memory_bytes"] > 0
    assert json.loads(out.read_text()) == report
    assert "TD3-CVAE" in shown.err


@pytest.mark.slow
def test_one_run_measures_every_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(speed, "PRODUCT_SIZE", 64)
    monkeypatch.setattr(speed, "ROWS", 300)
    assert cli.main(["bench", "--agents", "--steps", "2", "--repetitions", "1", "--out", str(tmp_path / "agents.json")]) == 0
    measured = json.loads(capsys.readouterr().out)["measurements"]
    assert [found["name"].split(",")[0] for found in measured] == ["td3", *AGENTS]
    assert all(found["share_of_limit"] > 0 for found in measured)


def test_what_was_measured_is_kept_where_the_rest_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    first = speed.Measurement("first", 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)

    def stopped(*_: object) -> Iterator[speed.Measurement]:
        yield first
        raise KeyboardInterrupt

    monkeypatch.setattr(speed, "measure_agents", stopped)
    assert cli.main(["bench", "--agents", "--out", str(tmp_path / "agents.json")]) == 130
    assert [found["name"] for found in json.loads((tmp_path / "agents.json").read_text())["measurements"]] == ["first"]


def test_one_thing_is_measured_at_a_time(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["bench", "--agents", "--seeds-together", "2", "--serving"]) == 2
    assert capsys.readouterr().err.startswith("error: --agents, --seeds-together and --serving measure different things;")


def test_bonuses_are_measured_alone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(speed, "measure_bonuses", lambda *_: iter([speed.Measurement("fit", 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)]))
    assert cli.main(["bench", "--bonuses"]) == 0
    assert [found["name"] for found in json.loads(capsys.readouterr().out)["measurements"]] == ["fit"]


@pytest.mark.parametrize("arguments", [["--steps", "3"], ["--steps", "0"], ["--repetitions", "0"]])
def test_what_cannot_be_measured_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    assert cli.main(["bench", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: --steps is ")
    assert err.count("\n") == 1

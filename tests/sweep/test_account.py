"""A sweep in words: how far it is, and how long it will still take."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tether import cli, storage
from tether.sweep.head import open_sweep
from tether.sweep.records import DIVERGED, Records


def write(folder: Path, more: str = "") -> Path:
    path = folder / "plan.toml"
    path.write_text(f'out = "{folder}/runs"\ndatasets = ["halfcheetah-mixed-tether"]\nseeds = [0, 1]\n{more}')
    return path


def status(plan: Path, capsys: pytest.CaptureFixture[str], *more: str) -> list[str]:
    assert cli.main(["sweep", "status", str(plan), *more]) == 0
    return capsys.readouterr().out.splitlines()


@contextmanager
def at_work(folder: Path, seconds_left: float | None, said_before: float = 0.0) -> Iterator[None]:
    """A head that holds the folder, and has said that so many seconds are left, so many seconds ago."""
    records = Records(folder / "runs")
    with storage.exclusive(records.folder):
        records.say_now(2, 1, [], 1, seconds_left)
        path = records.folder / "now.json"
        content = storage.read_json(path)
        storage.write_json(path, content | {"said_at": time.time() - said_before})
        yield


@pytest.fixture(autouse=True)
def no_speeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TETHER_CACHE", str(tmp_path / "cache"))


def test_a_sweep_under_way_says_itself_how_long_it_will_take(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    plan = write(tmp_path)
    with at_work(tmp_path, 5400.0, said_before=5):
        assert status(plan, capsys) == ["plan: 2 waiting; running", "time left: 1:30:00, by the sweep under way"]
        assert status(plan, capsys, "--only", "s0")[-1] == "time left: 1:30:00, by the sweep under way, for all that it makes"
    with at_work(tmp_path, 5400.0, said_before=600):  # it may have been halted, or its disk is full
        assert status(plan, capsys)[-1] == "time left: 1:30:00, by the sweep under way, as it said 0:10:00 ago"
    write(tmp_path, "[variants.a]\n[variants.b]\nagent.discount = 0.9\n[choose]\n[final]\nseeds = [7]\n")
    with at_work(tmp_path, 5400.0):
        assert status(plan, capsys)[-1] == "time left: 1:30:00, by the sweep under way, and then the final runs"


def test_while_something_runs_nobody_is_told_to_measure(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    plan = write(tmp_path)
    with at_work(tmp_path, None):  # before its first steps
        assert status(plan, capsys)[-1] == "time left: not known yet"
    with storage.exclusive(tmp_path / "runs" / "halfcheetah-mixed-tether" / "tethered-density" / "s1"):  # by hand, or orphaned
        assert status(plan, capsys)[1:] == ["plan: 1 running, 1 waiting; not running", "time left: not known yet"]
    assert status(plan, capsys)[-1] == f"time left: not known; tether sweep {plan} --dry-run measures the speed here"


def test_where_all_that_is_left_has_diverged_retry_is_mentioned(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    plan = write(tmp_path)
    sweep = open_sweep(plan)
    first, second = sweep.runs
    sweep.records.fail(first, DIVERGED, "critic/loss is nan", tmp_path / "log")
    assert not any("--retry" in line for line in status(plan, capsys))  # the other is still to be made
    sweep.records.fail(second, DIVERGED, "critic/loss is nan", tmp_path / "log")
    assert status(plan, capsys)[2:] == [
        "plan: 2 failed; not running",
        "nothing is left to do; what diverged is made again with --retry",
    ]
    assert cli.main(["sweep", str(plan)]) == 2
    assert capsys.readouterr().err.endswith("; nothing is left to do; what diverged is made again with --retry\n")


def test_variants_that_are_the_same_are_told_before_they_are_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tether.sweep.estimate.estimate", lambda *_, **__: None)
    plan = write(tmp_path, "[variants.a]\n[variants.b]\n[variants.c]\nagent.discount = 0.9\n[variants.d]\n")
    assert cli.main(["sweep", str(plan), "--dry-run"]) == 0
    assert "\nvariants a, b and d have the same settings: their runs are the same\n" in capsys.readouterr().out

"""Times worked out by hand from speeds that are given."""

from __future__ import annotations

from pathlib import Path

import pytest

from tether import cli
from tether.cores import claimed
from tether.sweep import estimate as estimates
from tether.sweep.estimate import Simulation, Speedometer, cost, estimate, spec_of
from tether.sweep.head import open_sweep
from tether.sweep.records import DIVERGED, DONE, Known, Records
from tether.sweep.workers import Slots, share_out

TEXT = """
out = "{out}"
preset = "paper"
datasets = ["halfcheetah-mixed-tether"]
seeds = [0, 1]
steps = 1000
[settings]
training.evaluate_every = 500
training.checkpoint_every = 500
evaluation.episodes = 2
bonus.steps = 500
[variants.low]
agent.bonus_weight_actor = 1
[variants.high]
agent.bonus_weight_actor = 10
{more}
"""
TWO = Slots(2, 1, ((0,), (1,)))


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Known speeds; what was measured, in order."""
    calls: list[str] = []

    def measure(agent: dict, bonus: dict, spec: object, slots: Slots) -> dict[str, float]:
        calls.append(f"{agent['name']} {bonus['name']}")
        return {"steps_per_second": 100.0, "fit_steps_per_second": 50.0, "start_seconds": 10.0}

    def simulate(env_id: str, spec: object) -> Simulation:
        calls.append(env_id)
        return Simulation(steps_per_second=1000.0, episode=1000)

    monkeypatch.setattr(estimates, "_measure", measure)
    monkeypatch.setattr(estimates, "_simulate", simulate)
    monkeypatch.setenv("TETHER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("tether.cores.available_cores", lambda: [0, 1])
    monkeypatch.setattr("tether.cores.tempfile.gettempdir", lambda: str(tmp_path))  # so that no real sweep has claimed them
    return calls


def test_core_hours_are_of_busy_cores_whatever_else_the_machine_does(
    tmp_path: Path, measured: list[str], monkeypatch: pytest.MonkeyPatch
):
    """A process that has a quarter of its core makes 100 steps a second, and 400 in a second that the core is busy with it."""
    given = {"steps_per_second": 100.0, "steps_per_cpu_second": 400.0, "fit_steps_per_second": 50.0, "start_seconds": 10.0}
    monkeypatch.setattr(estimates, "_measure", lambda *_: given)
    found = estimate(open_sweep(write(tmp_path)), TWO)
    assert found is not None
    assert found.seconds == (40 + 10 + 40 + 48) / 2  # as long as the machine is as busy as it was
    assert found.core_hours == pytest.approx(0.25 * 138 / 3600)


def write(folder: Path, more: str = "") -> Path:
    path = folder / "plan.toml"
    path.write_text(TEXT.format(out=folder / "runs", more=more))
    return path


def test_time_and_core_hours_are_those_of_the_parts(tmp_path: Path, measured: list[str]):
    sweep = open_sweep(write(tmp_path))
    found = estimate(sweep, TWO)
    assert found is not None
    assert found.runs == 4 * 1000 / 100  # four runs
    assert found.fits == 500 / 50  # which share one fit
    assert found.starts == 4 * 10
    assert found.evaluations == 4 * 2 * 2 * 3 * 1000 / 1000  # runs, evaluations, episodes, policies of TD3
    assert found.seconds == (40 + 10 + 40 + 48) / 2  # by two workers
    assert found.core_hours == pytest.approx(138 / 3600)
    assert measured == ["td3 cvae", "HalfCheetah-v5"]  # once for the four

    assert estimate(sweep, TWO, measure=False) == found  # from the cache
    assert estimate(sweep, Slots(1, 2, ((0, 1),)), measure=False) is None  # which is not of other threads
    assert measured == ["td3 cvae", "HalfCheetah-v5"]


def test_final_runs_that_are_not_decided_are_counted(tmp_path: Path, measured: list[str]):
    found = estimate(open_sweep(write(tmp_path, "[choose]\n[final]\nseeds = [10, 11, 12]\n")), TWO)
    assert found is not None
    assert found.runs == (4 + 3) * 1000 / 100
    assert found.fits == 10


def test_what_has_diverged_is_left_only_where_it_is_tried_again(
    tmp_path: Path, measured: list[str], capsys: pytest.CaptureFixture[str]
):
    plan = write(tmp_path)
    sweep = open_sweep(plan)
    for run in sweep.runs:
        kind = DIVERGED if run.variant == "low" else "error"
        sweep.records.fail(run, kind, "critic/loss is nan", tmp_path / "log")
    sweep = open_sweep(plan)
    found, again = estimate(sweep, TWO), estimate(sweep, TWO, retry=True)
    assert found is not None
    assert again is not None
    assert (found.runs, again.runs) == (2 * 1000 / 100, 4 * 1000 / 100)  # two of the four have diverged
    command = ["sweep", str(plan), "--dry-run", "--workers", "1", "--threads", "1"]
    assert cli.main(command) == 0
    assert "\ntime: 0:01:14 by 1 worker" in capsys.readouterr().out  # 20 training, 10 fit, 20 starting, 24 episodes
    assert cli.main([*command, "--retry"]) == 0
    assert "\ntime: 0:02:18 by 1 worker" in capsys.readouterr().out

    for run in sweep.runs:
        sweep.records.fail(run, DIVERGED, "critic/loss is nan", tmp_path / "log")
    assert cli.main(command) == 0
    assert capsys.readouterr().out.endswith("\ntime: nothing is left to do\n")
    assert cli.main(["sweep", "status", str(plan)]) == 0
    assert "time left" not in capsys.readouterr().out


def test_a_run_with_larger_products_is_slower_by_their_size(tmp_path: Path, measured: list[str]):
    sweep = open_sweep(write(tmp_path, "[variants.wide]\nagent.batch_size = 320\n"))
    runs = {run.variant: run for run in sweep.runs}
    spec = spec_of(runs["low"])
    assert (spec.observation_size, spec.action_size) == (17, 6)
    ratio = cost(runs["wide"].config, spec)[0] / cost(runs["low"].config, spec)[0]
    assert ratio == pytest.approx(320 / 256)  # all products of an update have its batch's rows
    speeds = Speedometer(TWO)
    slow, usual = speeds.speed(runs["wide"].config, spec), speeds.speed(runs["low"].config, spec)
    assert slow is not None
    assert usual is not None
    assert usual.steps_per_second / slow.steps_per_second == pytest.approx(ratio)
    assert len(measured) == 1


def test_a_dry_run_shows_runs_fits_and_time_and_writes_no_run(
    tmp_path: Path, measured: list[str], capsys: pytest.CaptureFixture[str]
):
    plan = write(tmp_path)
    assert cli.main(["sweep", "status", str(plan)]) == 0
    assert f"time left: not known; tether sweep {plan} --dry-run measures the speed here\n" in capsys.readouterr().out
    assert cli.main(["sweep", str(plan), "--dry-run", "--workers", "1", "--threads", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert lines == [
        f"plan: 4 runs in {tmp_path}/runs (4 waiting)",
        "  halfcheetah-mixed-tether/td3-cvae/low  1,000 steps, seeds 0, 1",
        "  halfcheetah-mixed-tether/td3-cvae/high  1,000 steps, seeds 0, 1",
        "fits: 1, each made once",
        "  cvae on halfcheetah-mixed-tether  500 steps, for 4 runs",
        "time: 0:02:18 by 1 worker of 1 thread each; 0.0 core-hours",
        "  of it: training 29%, fits 7%, evaluations at most 35%, starting 29%",
    ]
    assert not (tmp_path / "runs").exists()


def test_a_dry_run_of_a_sweep_that_is_done_says_so(
    tmp_path: Path, measured: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(Records, "look", lambda *_: Known(DONE, 1000))
    assert cli.main(["sweep", str(write(tmp_path)), "--dry-run"]) == 0
    assert capsys.readouterr().out.endswith("time: nothing is left to do\n")
    assert measured == []


def test_speeds_beside_another_sweep_are_told_as_such_and_not_kept(
    tmp_path: Path, measured: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    sweep = open_sweep(write(tmp_path))
    told = "a sweep under way has 1 of the 2 cores too: speeds are those beside it, and are not kept\n"
    with claimed(1):
        assert estimate(sweep, TWO) is not None
    assert capsys.readouterr().out.count(told) == 1
    assert estimate(sweep, TWO, measure=False) is None
    assert estimate(sweep, TWO) is not None
    assert told not in capsys.readouterr().out
    assert estimate(sweep, TWO, measure=False) is not None


def test_cores_are_shared_out_one_each_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tether.sweep.workers.available_cores", lambda: [4, 5, 6, 7])
    assert share_out() == Slots(4, 1, ((4,), (5,), (6,), (7,)))
    assert share_out(threads=2) == Slots(2, 2, ((4, 5), (6, 7)))
    assert share_out(workers=2) == Slots(2, 2, ((4, 5), (6, 7)))
    assert share_out(workers=6, threads=1).cores == ((4,), (5,), (6,), (7,), (4,), (5,))
    with pytest.raises(cli.TetherError, match=r"^--threads is 5, and there are 4 cores$"):
        share_out(threads=5)
    with pytest.raises(cli.TetherError, match=r"^--workers is 0; it takes a whole number from 1 on$"):
        share_out(workers=0)

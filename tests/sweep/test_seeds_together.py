"""Sweeps with several seeds in one program, of real processes: killed, interrupted and led astray. Nothing is lost."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pendulum import snapshot
from test_losing_nothing import PATIENCE, started, statuses, wait_for, workers_in, write_plan
from test_on_ray import needs_ray

from tether import cli, storage
from tether.runs import checkpoint
from tether.runs.reading import find_runs
from tether.sweep.records import last_step

pytestmark = pytest.mark.slow
CLONING = '[variants.usual]\nagent = "bc"\n'  # the quickest to compile
PLACE = "pendulum/bc-none/usual"


def spoil(path: Path) -> None:
    """Weights that are no numbers: the run diverges in its next epoch."""
    tensors, metadata = storage.read_tensors(path)
    spoilt = {name: np.full_like(tensor, np.nan) for name, tensor in tensors.items() if name.startswith("agent/actor/")}
    assert spoilt
    storage.write_tensors(path, tensors | spoilt, metadata)


def test_a_killed_worker_a_killed_head_a_run_that_diverges_and_ctrl_c(
    pendulum_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    many: dict[str, Any] = {
        "training__steps": 10_000_000,
        "training__checkpoint_every": 10_000,
        "training__evaluate_every": 10_000_000,
    }
    plan = write_plan(tmp_path, pendulum_file, "[0, 1, 2]", CLONING, **many)
    folders = [tmp_path / "runs" / PLACE / f"s{seed}" for seed in (0, 1, 2)]
    command = ("--workers", "2", "--together", "3")
    with started(plan, *command) as (head, said):
        # Not while the checkpoints are written one after the other: then they would stand at different steps.
        wait_for(lambda: (step := last_step(folders[2])) > 10_000 and 1_000 <= step % 10_000 <= 6_000, head)
        assert len({*workers_in(tmp_path).values()}) == 1  # one process for the three
        os.kill(workers_in(tmp_path)[str(folders[0])], signal.SIGKILL)
        killed_at = max(map(last_step, folders))
        wait_for(lambda: "started again" in said.read_text(), head)
        assert f"killed   {PLACE}/s0, s1, s2, by SIGKILL; they are started again\n" in said.read_text()
        wait_for(lambda: said.read_text().count(f"started  {PLACE}/s0, s1, s2 as one program") == 2, head)
        saved = [checkpoint.step_in(folder) for folder in folders]
        assert saved[0] >= 10_000
        assert len({*saved}) == 1
        wait_for(lambda: min(map(last_step, folders)) > killed_at + 200, head)  # lines past the checkpoint were there before
        lines = statuses(plan, capsys)
        assert lines[0].startswith(f"running  {PLACE}/s0: step ")
        assert lines[0].endswith(" of 10,000,000, as one program with s1, s2")
        assert "plan: 3 running; running" in lines
        head.kill()
    wait_for(lambda: not workers_in(tmp_path))  # it takes its workers along, as by Ctrl-C: all is saved, at one step
    (step,) = {checkpoint.step_in(folder) for folder in folders}
    assert [last_step(folder) for folder in folders] == [step] * 3

    # The same command goes on. One diverges: it has failed, known at once, and the other two go on.
    spoil(folders[1] / checkpoint.NAME)
    with started(plan, *command) as (head, said):
        wait_for(lambda: f"failed   {PLACE}/s1: " in said.read_text(), head)
        assert f"started  {PLACE}/s0, s1, s2 as one program, from step {step:,}\n" in said.read_text()
        wait_for(lambda: last_step(folders[0]) > step + 200, head)
        lines = statuses(plan, capsys)
        assert lines[0].endswith(" of 10,000,000, as one program with s2")
        assert lines[2].startswith(f"failed   {PLACE}/s1: ")
        assert f"(run s1); last good checkpoint: step {step}" in lines[2]
        assert lines[2].endswith(f"log: {tmp_path}/runs/_sweep/logs/{PLACE}/s0-and-2-more.log")
        head.send_signal(signal.SIGINT)
        head.wait(timeout=PATIENCE)
    assert head.returncode == 130, said.read_text()
    assert "interrupted: 2 runs save their state; the same command goes on from there\n" in said.read_text()
    assert not workers_in(tmp_path)
    assert checkpoint.step_in(folders[0]) == checkpoint.step_in(folders[2]) > step
    assert "Traceback" not in said.read_text()


def test_what_is_finished_is_left_and_the_rest_is_one_program(
    pendulum_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert cli.main(["sweep", str(write_plan(tmp_path, pendulum_file, "[1]", CLONING)), "--workers", "1", "--together", "4"]) == 0
    assert f"started  {PLACE}/s1\n" in capsys.readouterr().out
    done = tmp_path / "runs" / PLACE / "s1"
    assert "together" not in json.loads((done / "result.json").read_text())  # it was alone
    before = snapshot(done)
    plan = write_plan(tmp_path, pendulum_file, "[0, 1, 2]", CLONING)
    assert cli.main(["sweep", str(plan), "--workers", "1", "--together", "4"]) == 0
    out = capsys.readouterr().out
    assert f"started  {PLACE}/s0, s2 as one program\n" in out
    assert "plan: all 3 runs are done;" in out
    assert snapshot(done) == before
    results = {run.path.name: run.result or {} for run in find_runs([tmp_path / "runs"])}
    assert results["s0"]["together"] == results["s2"]["together"] == [{"from_step": 0, "seeds": [0, 2]}]
    assert all(result["score"] for result in results.values())


def test_the_same_on_ray(pendulum_file: Path, tmp_path: Path):
    needs_ray()
    plan = write_plan(tmp_path, pendulum_file, "[0, 1]", CLONING, training__steps=20_000, training__evaluate_every=20_000)
    folders = [tmp_path / "runs" / PLACE / f"s{seed}" for seed in (0, 1)]
    with started(plan, "--backend", "ray", "--workers", "1", "--together", "2") as (head, said):
        wait_for(lambda: last_step(folders[0]) >= 200, head)
        os.kill(workers_in(tmp_path)[str(folders[0])], signal.SIGKILL)
        head.wait(timeout=5 * PATIENCE)
    out = said.read_text()
    assert head.returncode == 0, out
    assert f"started  {PLACE}/s0, s1 as one program\n" in out
    assert "by SIGKILL; they are started again\n" in out
    assert all((folder / "result.json").exists() for folder in folders)

"""Sweeps with several seeds in one program, of real processes: killed, interrupted and led astray. Nothing is lost."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pendulum import snapshot
from test_losing_nothing import PATIENCE, kill, started, statuses, wait_for, workers_in, write_plan
from test_on_ray import needs_ray, simulated

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


def halted(folders: list[Path], least: int) -> tuple[int, int]:
    """The process of these runs, stopped where all have a checkpoint of one step, and that step.

    Their checkpoints are written one after the other. Whoever kills without a look may leave them apart, and then they are no
    longer one program: rightly so, and not what is tested here.
    """

    def at_one_step() -> tuple[int, int] | None:
        pid = workers_in(folders[0].parent).get(str(folders[0]))
        if pid is None or min(map(last_step, folders)) < least:
            return None
        os.kill(pid, signal.SIGSTOP)
        wait_for(lambda: all(state == "T" for state in thread_states(pid)))
        steps = {checkpoint.step_in(folder) for folder in folders}
        if len(steps) == 1 and min(steps) >= least:
            return pid, min(steps)
        os.kill(pid, signal.SIGCONT)
        return None

    found: tuple[int, int] = wait_for(at_one_step)
    return found


def thread_states(pid: int) -> list[str]:
    places = Path(f"/proc/{pid}/task").glob("*/stat")
    return [place.read_text().rpartition(")")[2].split()[0] for place in places]


def saved_at_one_step(folders: list[Path]) -> int:
    """The step up to which all was saved, of each."""
    (step,) = {checkpoint.step_in(folder) for folder in folders}
    assert [last_step(folder) for folder in folders] == [step] * len(folders)
    return step


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
        pid, step = halted(folders, 10_000)
        assert {*workers_in(tmp_path).values()} == {pid}  # one process for the three
        kill(pid, tmp_path)
        killed_at = max(map(last_step, folders))
        wait_for(lambda: f"started  {PLACE}/s0, s1, s2 as one program, from step {step:,}\n" in said.read_text(), head)
        assert f"killed   {PLACE}/s0, s1, s2, by SIGKILL; they are started again\n" in said.read_text()
        wait_for(lambda: min(map(last_step, folders)) > killed_at + 200, head)  # lines past the checkpoint were there before
        lines = statuses(plan, capsys)
        assert re.match(rf"running  {PLACE}/s0: step [\d,]+/10,000,000, ", lines[0])
        assert lines[0].endswith(", as one program with s1, s2")
        assert "plan: 3 running; running" in lines
        head.kill()
    wait_for(lambda: not workers_in(tmp_path))  # it takes its workers along, as by Ctrl-C: all is saved, at one step
    step = saved_at_one_step(folders)

    # The same command goes on. One diverges: it has failed, known at once, and the other two go on.
    spoil(folders[1] / checkpoint.NAME)
    with started(plan, *command) as (head, said):
        wait_for(lambda: f"failed   {PLACE}/s1: " in said.read_text(), head)
        assert f"started  {PLACE}/s0, s1, s2 as one program, from step {step:,}\n" in said.read_text()
        wait_for(lambda: last_step(folders[0]) > step + 200, head)
        # The head says first what has failed, and then, a moment later, who is still at work.
        lines = wait_for(lambda: "plan: 2 running, 1 failed; running" in (found := statuses(plan, capsys)) and found, head)
        assert "/10,000,000" in lines[0]
        assert lines[0].endswith(", as one program with s2")
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


def test_the_same_on_ray(pendulum_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    needs_ray()
    long: dict[str, Any] = {"training__steps": 50_000, "training__checkpoint_every": 1000, "training__evaluate_every": 50_000}
    assert cli.main(["sweep", str(write_plan(tmp_path, pendulum_file, "[2]", CLONING, **long)), "--workers", "1"]) == 0
    finished = tmp_path / "runs" / PLACE / "s2"
    before = snapshot(finished)
    plan = write_plan(tmp_path, pendulum_file, "[0, 1, 2]", CLONING, **long)
    folders = [tmp_path / "runs" / PLACE / f"s{seed}" for seed in (0, 1)]
    command = ("--backend", "ray", "--workers", "1", "--together", "2")
    with started(plan, *command) as (head, said):
        wait_for(lambda: folders[1].exists(), head)
        pid, step = halted(folders, 1000)
        kill(pid, tmp_path)
        killed_at = max(map(last_step, folders))
        wait_for(lambda: f"started  {PLACE}/s0, s1 as one program, from step {step:,}\n" in said.read_text(), head)
        assert f"started  {PLACE}/s0, s1 as one program\n" in said.read_text()
        assert f"killed   {PLACE}/s0, s1, by SIGKILL; they are started again\n" in said.read_text()
        wait_for(lambda: min(map(last_step, folders)) > killed_at + 200, head)
        assert "plan: 1 done, 2 running; running" in statuses(plan, capsys)
        head.kill()
    wait_for(lambda: not workers_in(tmp_path))  # all is saved, as without Ray, and at one step
    step = saved_at_one_step(folders)
    with started(plan, *command) as (head, said):
        wait_for(lambda: last_step(folders[0]) > step, head)
        head.send_signal(signal.SIGINT)
        head.wait(timeout=PATIENCE)
    assert head.returncode == 130, said.read_text()
    assert "interrupted: 2 runs save their state; the same command goes on from there\n" in said.read_text()
    assert "Traceback" not in said.read_text()
    step = saved_at_one_step(folders)
    with started(plan, *command) as (head, said):
        head.wait(timeout=5 * PATIENCE)
    assert head.returncode == 0, said.read_text()
    assert f"started  {PLACE}/s0, s1 as one program, from step {step:,}\n" in said.read_text()
    results = [json.loads((folder / "result.json").read_text()) for folder in folders]
    assert [result["together"] for result in results] == [[{"from_step": 0, "seeds": [0, 1]}]] * 2
    assert [result["resumed_from_step"] for result in results] == [step] * 2
    assert snapshot(finished) == before  # what is finished is never made again


def test_a_machine_of_a_cluster_goes_and_its_program_is_started_on_another(pendulum_file: Path, tmp_path: Path):
    plan = write_plan(tmp_path, pendulum_file, "[0, 1]", CLONING, training__steps=20_000, training__evaluate_every=20_000)
    folders = [tmp_path / "runs" / PLACE / f"s{seed}" for seed in (0, 1)]
    with simulated(1) as (address, tell), started(plan, "--address", address, "--together", "2") as (head, said):
        wait_for(lambda: folders[1].exists(), head)
        pid, step = halted(folders, 200)
        tell("add")
        tell("remove")  # the one with the program
        wait_for(lambda: "lost     " in said.read_text(), head)
        if pid in workers_in(tmp_path).values():
            kill(pid, tmp_path)  # a machine that is gone has no processes; Ray may have left this one, which is halted
        head.wait(timeout=5 * PATIENCE)
    out = said.read_text()
    assert head.returncode == 0, out
    assert any(
        line.startswith(f"lost     {PLACE}/s0, s1, ") and line.endswith("; they are started again") for line in out.splitlines()
    )
    assert f"started  {PLACE}/s0, s1 as one program, from step {step:,}\n" in out
    results = [json.loads((folder / "result.json").read_text()) for folder in folders]
    assert [result["resumed_from_step"] for result in results] == [step] * 2

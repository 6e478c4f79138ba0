"""Sweeps of real processes, killed, interrupted, starved and led astray: nothing is lost, and the same command finishes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pendulum import SETTINGS, files_of_at_most, snapshot

from tether import cli, storage
from tether.locks import is_held
from tether.runs.reading import find_runs
from tether.sweep.records import last_step

PATIENCE = 300.0  # seconds, of a machine that is busy with other work


def write_plan(folder: Path, data: Path, seeds: str, variants: str = "", **settings: Any) -> Path:
    """A plan of small runs into `folder/runs`."""
    values = SETTINGS | {"training.steps": 400, "training.evaluate_every": 400}
    values |= {name.replace("__", "."): value for name, value in settings.items()}
    lines = [f'out = "{folder}/runs"', 'preset = "paper"', f'datasets = ["{data}"]', f"seeds = {seeds}", "[settings]"]
    lines += [f'"{name}" = "{value}"' for name, value in values.items()]
    path = folder / "plan.toml"
    path.write_text("\n".join([*lines, variants]))
    return path


@contextmanager
def started(plan: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """`tether sweep` at work, and the file that has what it says."""
    command, said = [sys.executable, "-m", "tether", "sweep", str(plan), *arguments], plan.with_suffix(".txt")
    with said.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT) as process:
        try:
            yield process, said
        finally:
            process.kill()


def wait_for(happened: Callable[[], Any], process: subprocess.Popen[bytes] | None = None) -> Any:
    until = time.monotonic() + PATIENCE
    while not (found := happened()):
        assert process is None or process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.01)
    return found


def workers_in(folder: Path) -> dict[str, int]:
    """Process ids of the workers of runs below a folder, by the run's folder, whoever started them."""
    found = {}
    for place in Path("/proc").iterdir():
        try:
            words = (place / "cmdline").read_bytes().split(b"\0")
            if b"tether.sweep.worker" in words and (place / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                job = json.loads(words[words.index(b"tether.sweep.worker") + 1])
                for run in job["runs"]:
                    if run["folder"].startswith(str(folder)):
                        found[run["folder"]] = int(place.name)
        except (OSError, ValueError, KeyError):  # gone, or a worker of another version
            continue
    return found


def kill(pid: int, folder: Path) -> None:
    """With -9, and wait for its end: only then does what is on disk stay as it is."""
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: pid not in workers_in(folder).values())


def statuses(plan: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    capsys.readouterr()
    assert cli.main(["sweep", "status", str(plan)]) == 0
    return capsys.readouterr().out.splitlines()


def test_a_killed_worker_a_diverging_run_a_killed_head_and_ctrl_c_in_one_sweep(
    pendulum_file: Path, tmp_path: Path, finished_run: Path, capsys: pytest.CaptureFixture[str]
):
    variants = "[variants.wild]\ntraining.value_limit = 1e-9\n[variants.usual]\n"
    steps = 10_000_000  # it never comes to its end, however long the rest takes
    plan = write_plan(tmp_path, pendulum_file, "[0]", variants, training__steps=steps)
    usual, wild = (tmp_path / "runs" / "pendulum" / "td3-cvae" / name / "s0" for name in ("usual", "wild"))
    name = "pendulum/td3-cvae/usual/s0"
    with started(plan, "--workers", "2") as (head, said):
        wait_for(lambda: last_step(usual) >= 200, head)  # and the checkpoint of step 100 is there
        wait_for(lambda: "failed" in said.read_text(), head)  # the wild one, which stops nobody
        pid = workers_in(usual)[str(usual)]
        assert len(os.sched_getaffinity(pid)) == 1
        kill(pid, tmp_path)
        killed_at = last_step(usual)  # of the dead: a step that was read before would soon be passed by the one that is killed
        wait_for(lambda: last_step(usual) > killed_at + 100, head)
        assert f"killed   {name}, by SIGKILL; it is started again\n" in said.read_text()
        assert f"started  {name}, from step " in said.read_text()

        lines = statuses(plan, capsys)
        assert lines[0].startswith(f"running  {name}: step ")
        assert lines[1].startswith("failed   pendulum/td3-cvae/wild/s0: ")
        assert "past training.value_limit 1e-09" in lines[1]
        assert lines[2] == "plan: 1 running, 1 failed; running"
        assert cli.main(["sweep", str(plan)]) == 2  # a second head keeps out
        assert "another process is at work in" in capsys.readouterr().err
        head.kill()
    wait_for(lambda: not workers_in(tmp_path))  # it takes its workers along
    step = last_step(usual)
    assert step == int(storage.read_tensors(usual / "checkpoint.safetensors")[1]["step"])  # ended as by Ctrl-C, all of it saved
    assert killed_at + 100 < step < steps

    # The same command goes on with what is missing, and leaves alone what diverged: it would again. Then Ctrl-C.
    before = snapshot(wild)
    with started(plan, "--workers", "2") as (head, said):
        wait_for(lambda: last_step(usual) > step, head)
        head.send_signal(signal.SIGINT)
        head.wait(timeout=PATIENCE)
    out = said.read_text()
    assert head.returncode == 130, out
    assert "interrupted: the run under way saves its state; the same command goes on from there\n" in out
    assert "Traceback" not in out
    assert not workers_in(tmp_path)
    assert snapshot(wild) == before
    assert f"waiting  {name}, at step {last_step(usual):,}" in statuses(plan, capsys)


@pytest.mark.slow  # the test above goes the same way, for other reasons
def test_a_full_disk_fails_what_needs_it_and_the_same_command_finishes_later(
    pendulum_file: Path, tmp_path: Path, finished_run: Path, capsys: pytest.CaptureFixture[str]
):
    plan = write_plan(tmp_path, pendulum_file, "[0]")
    with files_of_at_most(20_000):  # a checkpoint of TD3 has more
        assert cli.main(["sweep", str(plan), "--workers", "1"]) == 2
    out, err = capsys.readouterr()
    assert "failed   pendulum/td3-cvae/s0: cannot write " in out
    assert "checkpoint.safetensors: File too large" in err
    assert not is_held(tmp_path / "runs" / "_sweep")
    assert cli.main(["sweep", str(plan), "--workers", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"plan: the run is done; tether report {tmp_path}/runs"
    assert not any((tmp_path / "runs" / "_sweep" / "failed").rglob("*.json"))

    names = {"plan": "plan", "runs": ["pendulum/td3-cvae/s0"], "chosen_by": "", "episodes": 0}
    assert json.loads((tmp_path / "runs" / "_sweep" / "plan.json").read_text()) == names

    # What is finished is never made again.
    (run,) = find_runs([tmp_path / "runs"])
    score = (run.result or {})["score"]["last"]
    before = snapshot(run.path)
    assert cli.main(["sweep", str(plan)]) == 0
    assert snapshot(run.path) == before
    assert statuses(plan, capsys) == [
        f"done     pendulum/td3-cvae/s0: last {score['mean']:.1f} ± {score['std']:.1f}",
        "plan: 1 done; not running",
    ]

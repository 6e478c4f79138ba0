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

PATIENCE = 120.0


def write_plan(folder: Path, data: Path, seeds: str, variants: str = "", **settings: Any) -> Path:
    """A plan of small runs into `folder/runs`."""
    values = SETTINGS | {"training.steps": 400, "training.evaluate_every": 400}
    values |= {name.replace("__", "."): value for name, value in settings.items()}
    lines = [f'out = "{folder}/runs"', f'datasets = ["{data}"]', f"seeds = {seeds}", "[settings]"]
    lines += [f'"{name}" = "{value}"' for name, value in values.items()]
    path = folder / "plan.toml"
    path.write_text("\n".join([*lines, variants]))
    return path


@contextmanager
def started(plan: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tether", "sweep", str(plan), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(happened: Callable[[], Any], process: subprocess.Popen[str] | None = None) -> Any:
    until = time.monotonic() + PATIENCE
    while not (found := happened()):
        assert process is None or process.poll() is None, process.communicate()[0]
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
                if job["folder"].startswith(str(folder)):
                    found[job["folder"]] = int(place.name)
        except (OSError, ValueError):
            continue
    return found


def statuses(plan: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    capsys.readouterr()
    assert cli.main(["sweep", "status", str(plan)]) == 0
    return capsys.readouterr().out.splitlines()


def test_a_killed_worker_is_started_again_and_a_diverging_run_stops_nobody(
    pendulum_file: Path, tmp_path: Path, finished_run: Path, capsys: pytest.CaptureFixture[str]
):
    variants = "[variants.wild]\ntraining.value_limit = 1e-9\n[variants.usual]\n"
    plan = write_plan(tmp_path, pendulum_file, "[0]", variants, training__steps=2000)
    usual = tmp_path / "runs" / "pendulum" / "td3-cvae" / "usual" / "s0"
    with started(plan, "--workers", "2") as process:
        wait_for(lambda: last_step(usual) >= 200, process)  # and the checkpoint of step 100 is there
        os.kill(workers_in(usual)[str(usual)], signal.SIGKILL)
        out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2, out
    assert "killed   pendulum/td3-cvae/usual/s0, by SIGKILL; it is started again\n" in out
    assert "started  pendulum/td3-cvae/usual/s0, from step " in out
    assert "error: 1 of 2 runs failed: pendulum/td3-cvae/wild/s0: " in out
    assert "past training.value_limit 1e-09" in out
    results = {run.path.parent.name: run.result or {} for run in find_runs([tmp_path / "runs"])}
    assert set(results) == {"usual"}
    assert results["usual"]["resumed_from_step"] >= 100

    lines = statuses(plan, capsys)
    last = results["usual"]["score"]["last"]
    assert lines[0] == f"done     pendulum/td3-cvae/usual/s0: last {last['mean']:.1f} ± {last['std']:.1f}"
    assert lines[1].startswith("failed   pendulum/td3-cvae/wild/s0: ")
    assert "past training.value_limit 1e-09" in lines[1]
    assert lines[2] == "plan: 1 done, 1 failed; not running"

    # The same command makes nothing again: what is finished stays, and what diverged would diverge.
    before = snapshot(tmp_path / "runs" / "pendulum")
    began = time.monotonic()
    assert cli.main(["sweep", str(plan)]) == 2
    assert time.monotonic() - began < 5.0
    assert snapshot(tmp_path / "runs" / "pendulum") == before


def test_the_head_killed_takes_its_workers_along_and_the_same_command_goes_on(
    pendulum_file: Path, tmp_path: Path, finished_run: Path, capsys: pytest.CaptureFixture[str]
):
    plan = write_plan(tmp_path, pendulum_file, "[0, 1]", training__steps=30_000)
    folders = [tmp_path / "runs" / "pendulum" / "td3-cvae" / f"s{seed}" for seed in (0, 1)]
    with started(plan, "--workers", "2") as head:
        wait_for(lambda: all(last_step(folder) >= 100 for folder in folders), head)
        pids = workers_in(tmp_path)
        assert set(pids) == set(map(str, folders))
        assert [len(os.sched_getaffinity(pid)) for pid in pids.values()] == [1, 1]
        assert any(line.startswith("running") for line in statuses(plan, capsys))
        assert cli.main(["sweep", str(plan)]) == 2  # a second head keeps out
        assert "another process is at work in" in capsys.readouterr().err
        head.kill()
    wait_for(lambda: not workers_in(tmp_path))
    steps = [last_step(folder) for folder in folders]
    saved = [int(storage.read_tensors(folder / "checkpoint.safetensors")[1]["step"]) for folder in folders]
    assert steps == saved  # each ended as by Ctrl-C: after an epoch, with all of it saved
    assert all(100 <= step < 30_000 for step in steps)

    # Ctrl-C: the same, said.
    with started(plan, "--workers", "2") as head:
        wait_for(lambda: all(last_step(folder) > step for folder, step in zip(folders, steps, strict=True)), head)
        head.send_signal(signal.SIGINT)
        out, _ = head.communicate(timeout=PATIENCE)
    assert head.returncode == 130, out
    assert "interrupted: 2 runs save their state; the same command goes on from there\n" in out
    assert "Traceback" not in out
    assert not workers_in(tmp_path)
    lines = statuses(plan, capsys)
    assert lines[:2] == [f"waiting  pendulum/td3-cvae/s{seed}, at step {last_step(folders[seed]):,}" for seed in (0, 1)]


def test_a_full_disk_fails_what_needs_it_and_the_same_command_finishes_later(
    pendulum_file: Path, tmp_path: Path, finished_run: Path, capsys: pytest.CaptureFixture[str]
):
    plan = write_plan(tmp_path, pendulum_file, "[0]", '[variants.usual]\n[variants.cloning]\nagent = "bc"\n')
    with files_of_at_most(20_000):  # a checkpoint of TD3 has more, one of cloning does not
        assert cli.main(["sweep", str(plan), "--workers", "1"]) == 2
    out, err = capsys.readouterr()
    assert "failed   pendulum/td3-cvae/usual/s0: cannot write " in out
    assert "checkpoint.safetensors: File too large" in err
    assert not is_held(tmp_path / "runs" / "_sweep")
    assert cli.main(["sweep", str(plan), "--workers", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"plan: all 2 runs are done; tether report {tmp_path}/runs"
    assert not any((tmp_path / "runs" / "_sweep" / "failed").rglob("*.json"))

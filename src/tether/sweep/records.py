"""What is known of a plan's runs, on disk only: so that any process can tell, and nothing is lost with the one that knew.

A run folder tells itself whether it is done or how far it is. Beside the runs, in the plan's folder, is `_sweep`:

logs/RUN.log      what the run's process said; of several runs as one program, RUN-and-2-more.log, by the first
failed/RUN.json   why it failed, with which settings and data; gone once it is done, and of no account where the plan has others
now.json          what the head is doing, true while it holds the folder
"""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tether import config as configs
from tether import storage
from tether.errors import TetherError
from tether.locks import is_held
from tether.runs import SWEEP_FOLDER
from tether.runs.identity import DATA_HASH, find_result
from tether.sweep.expansion import PlannedRun

DONE, RUNNING, FAILED, WAITING = "done", "running", "failed", "waiting"
BLOCKED = "blocked"  # it cannot be made: its folder holds something else, or its agent cannot learn from the data
DIVERGED = "diverged"  # a failure that would come again: the same numbers make the same run
TAIL = 65_536  # bytes at the end of metrics.jsonl, or of a log, that hold its last line of training
# A line of `progress` in a log: `fitting the bonus: 3,000/100,000 steps  0:00:11  283 steps/s  0:05:43 left  loss 0.08`.
PROGRESS = re.compile(r"(?P<job>[^:]+): (?P<done>[\d,]+/[\d,]+) steps  (?P<rest>.*)")


@dataclass(frozen=True)
class Known:
    """Of one run."""

    state: str
    step: int = 0  # of the last line of training
    how_far: str = ""  # of one that is running
    reason: str = ""  # of a failure, or why it is blocked
    kind: str = ""  # of a failure
    log: str = ""  # of a failure
    with_runs: tuple[str, ...] = ()  # of one that is running: the others of its program
    result: dict[str, Any] | None = None  # of a run that is done


class Records:
    """The files of one plan's folder."""

    def __init__(self, out: Path) -> None:
        self.out, self.folder = out, out / SWEEP_FOLDER

    def keep_plan(self, name: str, runs: Sequence[PlannedRun], chosen_by: str, episodes: int) -> None:
        """For reports, which then know what is missing and what was chosen. A full disk is no reason to stop for this."""
        content = {"plan": name, "runs": [run.name for run in runs], "chosen_by": chosen_by, "episodes": episodes}
        with suppress(TetherError):
            storage.write_json(self.folder / "plan.json", content)

    def log(self, name: str) -> Path:
        """Of the process of a run of that name, or of several runs (`Bundle.log_name`)."""
        return self.folder / "logs" / f"{name}.log"

    def failure(self, run: PlannedRun) -> Path:
        return self.folder / "failed" / f"{run.name}.json"

    def fail(self, run: PlannedRun, kind: str, reason: str, log: Path) -> None:
        """A disk so full that not even this can be written leaves the run undone, which is true too."""
        content: dict[str, Any] = {"run": run.name, "kind": kind, "reason": reason, "log": str(log)}
        content |= {"config": configs.to_json(run.config), DATA_HASH: run.data.sha256}
        with suppress(TetherError):
            storage.write_json(self.failure(run), content)

    def forget_failure(self, run: PlannedRun) -> None:
        with suppress(OSError):
            self.failure(run).unlink(missing_ok=True)

    def say_now(
        self, workers: int, threads: int, running: Sequence[Sequence[str]], together: int, seconds_left: float | None = None
    ) -> None:
        """`running` are the names of the runs at work, those of one program together; `seconds_left` None: not known yet."""
        with suppress(TetherError):
            now: dict[str, Any] = {"pid": os.getpid(), "workers": workers, "threads": threads, "together": together}
            now |= {"running": [list(names) for names in running], "seconds_left": seconds_left, "said_at": time.time()}
            storage.write_json(self.folder / "now.json", now)

    def now(self) -> dict[str, Any] | None:
        """What the head is doing; None where there is none."""
        if not is_held(self.folder):
            return None
        try:
            found = storage.read_json(self.folder / "now.json")
        except TetherError:
            return None
        return found if isinstance(found, dict) else None

    def look(self, run: PlannedRun, running: Sequence[Sequence[str]] = ()) -> Known:
        """What is known of a run; `running` are the names of those that the head says are at work, by program."""
        try:
            result = finished(run)
        except TetherError as error:
            return Known(BLOCKED, reason=str(error))
        if result is not None:
            return Known(DONE, run.config.training.steps, result=result)
        step = last_step(run.folder)
        program = next((names for names in running if run.name in names), ())
        if program or is_held(run.folder):
            mates = tuple(name for name in program if name != run.name)
            log = None if mates else self.log(run.name)  # that of several runs tells of all of them
            return Known(RUNNING, step, how_far(run, log), with_runs=mates)
        place = self.failure(run)
        if place.exists():
            found = storage.read_json(place)
            if _is_of(run, found):
                reason, kind, its_log = (str(found.get(name)) for name in ("reason", "kind", "log"))
                return Known(FAILED, step, reason=reason, kind=kind, log=its_log)
        return Known(WAITING, step)

    def look_at_all(self, runs: Sequence[PlannedRun]) -> dict[str, Known]:
        # A head that was started before an upgrade may still say names alone.
        running = [[name] if isinstance(name, str) else name for name in (self.now() or {}).get("running", [])]
        return {run.name: self.look(run, running) for run in runs}


def _is_of(run: PlannedRun, failure: dict[str, Any]) -> bool:
    """Whether a failure was of the settings and data that the plan has now: others of the same name have not failed yet."""
    if "config" not in failure:  # written before there were settings in it
        return True
    here, there = run.data.sha256, failure.get(DATA_HASH)
    if here and there and here != there:
        return False
    try:
        return configs.first_difference(run.config, configs.from_json(failure["config"])) is None
    except TetherError:  # settings that this version does not have, so not the plan's
        return False


def finished(run: PlannedRun) -> dict[str, Any] | None:
    """The result of a run that is done. A folder that holds another run is an error."""
    if not run.data.sha256:  # the data is not here to be compared
        path = run.folder / "result.json"
        return storage.read_json(path) if path.exists() else None
    try:
        return find_result(run.folder, run.config, run.data.sha256)
    except TetherError as error:
        what, marked, _ = str(error).partition("; choose another --run-dir")  # what follows is for `tether train`
        advice = "; change the plan back, or choose another --out or another name" if marked else ""
        raise TetherError(what.replace(" here, ", " in the plan, ") + advice) from error


def last_step(folder: Path) -> int:
    """How far the training in a run folder has come, by the last whole line that tells."""
    for line in reversed(_last_whole_lines(folder / "metrics.jsonl")):
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and "step" in record:
            return int(record["step"])
    return 0


def how_far(run: PlannedRun, log: Path | None, start: int = 0) -> str:
    """`step 12,000/60,000, 0:38:30 left, score 8.9`, or the same of the fit before: by the run's folder, and by what its process
    has said in a log from byte `start` on."""
    said, step = last_progress(log, start) if log else "", last_step(run.folder)
    if not step:
        return said or "reading, or waiting for a fit"
    left_and_score = said.partition(", ")[2] if said.startswith("step") else ""  # lines of a log come seldom
    return f"step {step:,}/{run.config.training.steps:,}" + (f", {left_and_score}" if left_and_score else "")


def last_progress(log: Path, start: int = 0) -> str:
    """`fitting the bonus 3,000/100,000, 0:05:43 left`, or the same of the training, with its last score: by the last line that
    tells, from byte `start` on; empty where none does."""
    for line in reversed(_last_whole_lines(log, start)):
        found = PROGRESS.fullmatch(line.decode(errors="replace"))
        if found:
            job = found["job"] if found["job"].startswith("fitting") else "step"
            left = re.search(r"([\d:]+) left", found["rest"])
            score = re.search(r"score (\S+)", found["rest"])
            parts = [f"{job} {found['done']}", left and left[0], score and score[0]]
            return ", ".join(part for part in parts if part)
    return ""


def _last_whole_lines(path: Path, start: int = 0) -> list[bytes]:
    """Of a file that somebody may be writing to: what follows the last line break is not whole."""
    try:
        with open(path, "rb") as file:
            file.seek(max(start, file.seek(0, os.SEEK_END) - TAIL))
            return file.read().split(b"\n")[:-1]
    except OSError:
        return []


def counted(known: dict[str, Known]) -> str:
    """`3 done, 2 running, 1 failed, 6 waiting`, and those that are blocked."""
    states = Counter(one.state for one in known.values())
    order = (DONE, RUNNING, FAILED, BLOCKED, WAITING)
    return ", ".join(f"{states[state]} {state}" for state in order if states[state]) or "no runs"

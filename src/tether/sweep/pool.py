"""Workers side by side, each with cores of its own. The head starts them, and takes what they report or how they died.

Where they are is the backend's matter: processes on this machine (here), or on the machines of a Ray cluster (on_ray.py).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

from tether.config import to_json
from tether.cores import available_cores, thread_limits
from tether.errors import TetherError
from tether.locks import is_held
from tether.progress import Bar, progress
from tether.sweep import worker
from tether.sweep.expansion import PlannedRun
from tether.sweep.records import Records, last_step
from tether.training.interrupt import StopRequest

Say = Callable[[str], None]

RESTARTS = 2  # of a run whose process is killed, before it counts as failed
SECONDS_BETWEEN_LOOKS = 0.1
SECONDS_BETWEEN_STEPS = 1.0  # to read how far the runs are


@dataclass(frozen=True)
class Slots:
    """How the cores are shared out: so many workers, each with so many threads."""

    workers: int
    threads: int
    cores: tuple[tuple[int, ...], ...]  # of each worker

    def __str__(self) -> str:
        workers, threads = ("" if number == 1 else "s" for number in (self.workers, self.threads))
        return f"{self.workers} worker{workers} of {self.threads} thread{threads} each"


def share_out(workers: int | None = None, threads: int | None = None) -> Slots:
    """A worker of one thread for each core, unless told otherwise: a busy core makes the most updates so (docs/speed.md)."""
    cores = available_cores()
    for flag, number in (("--workers", workers), ("--threads", threads)):
        if number is not None and number < 1:
            raise TetherError(f"{flag} is {number}; it takes a whole number from 1 on")
    threads = threads or (max(1, len(cores) // workers) if workers else 1)
    if threads > len(cores):
        raise TetherError(f"--threads is {threads}, and there are {len(cores)} cores")
    workers = workers or len(cores) // threads
    first = [worker * threads for worker in range(workers)]
    # More workers than there are cores for take turns on them.
    return Slots(workers, threads, tuple(tuple(cores[(at + i) % len(cores)] for i in range(threads)) for at in first))


def start_worker(job: dict[str, Any], threads: int, log: IO[bytes] | int) -> subprocess.Popen[str]:
    """In a session of its own: a Ctrl-C at the terminal is the head's, which then asks each worker once."""
    return subprocess.Popen(
        [sys.executable, "-m", "tether.sweep.worker", json.dumps(job)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        env=os.environ | thread_limits(threads),
        start_new_session=True,
    )


class Ended(NamedTuple):
    """How a worker's process ended."""

    report: str  # what it said at its end, one line of JSON; empty where it died before
    code: int  # negative: the number of the signal that ended it
    lost: str = ""  # why nothing is known of it, as where its machine is gone


class Worker(Protocol):
    """A process that makes a run, wherever it is."""

    def ended(self) -> Ended | None:
        """None while it is at work."""

    def ask_to_save(self) -> None:
        """It saves after the epoch under way, and ends."""

    def end(self) -> None:
        """Leave nothing of it, whether it has ended or not."""


class Backend(Protocol):
    """Where workers are started."""

    @property
    def workers(self) -> int:
        """How many there is room for now."""

    @property
    def threads(self) -> int:
        """Of each."""

    def start(self, run: PlannedRun, slot: int, log: Path) -> Worker:
        """One that makes the run, in a slot that no other has: a whole number below `workers`."""


class Processes:
    """Workers on this machine: the usual backend."""

    def __init__(self, slots: Slots, wandb: str | None = None) -> None:
        self.slots, self.workers, self.threads, self._wandb = slots, slots.workers, slots.threads, wandb

    def __str__(self) -> str:
        return str(self.slots)

    def start(self, run: PlannedRun, slot: int, log: Path) -> Worker:
        job = {"config": to_json(run.config), "folder": str(run.folder), "cores": self.slots.cores[slot], "wandb": self._wandb}
        with opened(log) as file:
            return LocalWorker(start_worker(job, self.threads, file))


class LocalWorker:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._ended: Ended | None = None

    def ended(self) -> Ended | None:
        if self._ended is None and self.process.poll() is not None:
            assert self.process.stdout is not None
            self._ended = Ended(self.process.stdout.read(), self.process.returncode)
        return self._ended

    def ask_to_save(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


@contextmanager
def opened(log: Path) -> Iterator[IO[bytes] | int]:
    """The file to write a worker's words to."""
    with ExitStack() as stack:
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            file: IO[bytes] | int = stack.enter_context(open(log, "ab"))
        except OSError:  # a full disk: the run will say so, if it needs more of it
            file = subprocess.DEVNULL
        yield file


@dataclass
class _Working:
    run: PlannedRun
    slot: int
    worker: Worker
    began: float


class Pool:
    """Carries out runs until none is left, or the user asks to stop. What has failed is in the records."""

    def __init__(self, records: Records, backend: Backend, stop: StopRequest, say: Say = print, show: bool = True) -> None:
        self._records, self._backend, self._stop, self._say, self._show = records, backend, stop, say, show
        self._working: list[_Working] = []
        self._kills: Counter[str] = Counter()

    def carry_out(self, runs: Sequence[PlannedRun], title: str, done_steps: int = 0) -> None:
        """`done_steps` were made before, of the runs given here and of others that are shown with them."""
        self._queue = list(runs)
        total = done_steps + sum(run.config.training.steps for run in runs)
        self._steps = done_steps
        with ExitStack() as stack:
            stack.callback(self._end_all)
            start = done_steps + sum(last_step(run.folder) for run in runs)
            bar = stack.enter_context(progress(title, total, start=start, enabled=self._show))
            looked = 0.0
            while (self._queue or self._working) and not self._stop.asked:
                before = [*self._working]
                for one in before:
                    if ended := one.worker.ended():
                        self._take(one, ended)
                while found := self._next():
                    self._start(*found)
                changed = before != self._working
                if changed:
                    self._records.say_now(self._backend.workers, self._backend.threads, [one.run.name for one in self._working])
                if changed or time.monotonic() - looked >= SECONDS_BETWEEN_STEPS:
                    looked = time.monotonic()
                    self._show_steps(bar)
                time.sleep(SECONDS_BETWEEN_LOOKS)
            if self._stop.asked:
                self._save_all()

    def _next(self) -> tuple[PlannedRun, int] | None:
        """A run to start, and where. One that would only wait for the fit of another comes after those that would not."""
        taken = {one.slot for one in self._working}
        slot = next((slot for slot in range(self._backend.workers) if slot not in taken), None)
        if slot is None:
            return None
        fits = {one.run.fit for one in self._working if one.run.fit and last_step(one.run.folder) == 0}
        in_turn = [run for run in self._queue if run.fit not in fits] + [run for run in self._queue if run.fit in fits]
        # A folder may be held by a worker whose head was killed; it is about to save and end.
        run = next((run for run in in_turn if not is_held(run.folder)), None)
        return None if run is None else (run, slot)

    def _start(self, run: PlannedRun, slot: int) -> None:
        self._queue.remove(run)
        worker = self._backend.start(run, slot, self._records.log(run))
        self._working.append(_Working(run, slot, worker, time.monotonic()))
        step = last_step(run.folder)
        self._say(f"started  {run.name}" + (f", from step {step:,}" if step else ""))

    def _take(self, one: _Working, ended: Ended) -> None:
        """What a worker that has ended leaves."""
        self._working.remove(one)
        one.worker.end()
        run = one.run
        try:
            outcome = json.loads(ended.report)
        except ValueError:  # it died before it could say anything
            outcome = self._loss(run, ended.lost) if ended.lost else self._death(run, ended.code)
        if outcome["outcome"] == worker.DONE:
            self._steps += run.config.training.steps
            self._records.forget_failure(run)
            self._say(f"done     {run.name} in {clock(time.monotonic() - one.began)}")
        elif outcome["outcome"] == worker.FAILED:
            self._records.fail(run, outcome["kind"], outcome["reason"])
            self._say(f"failed   {run.name}: {outcome['reason']}")
        elif outcome["outcome"] == worker.BUSY:
            self._queue.append(run)
        else:  # somebody interrupted the worker and not the head
            self._say(f"stopped  {run.name}; it goes on when the others are done")
            self._queue.append(run)

    def _death(self, run: PlannedRun, code: int) -> dict[str, str]:
        if code >= 0:
            return {
                "outcome": worker.FAILED,
                "kind": "crash",
                "reason": f"its process ended with code {code}: {self._last_line(run)}",
            }
        name = signal.Signals(-code).name
        self._kills[run.name] += 1
        if self._kills[run.name] > RESTARTS:
            times = f"{self._kills[run.name]} times"
            hint = " (too little memory is the usual reason; fewer --workers need less)" if -code == signal.SIGKILL else ""
            return {"outcome": worker.FAILED, "kind": "killed", "reason": f"its process was ended by {name} {times}{hint}"}
        self._say(f"killed   {run.name}, by {name}; it is started again")
        return {"outcome": worker.BUSY}

    def _loss(self, run: PlannedRun, why: str) -> dict[str, str]:
        """A machine that is gone says nothing against the run: it is made elsewhere, however often that happens."""
        self._say(f"lost     {run.name}, {why}; it is started again")
        return {"outcome": worker.BUSY}

    def _last_line(self, run: PlannedRun) -> str:
        try:
            lines = self._records.log(run).read_text(errors="replace").split("\n")
        except OSError:
            return "no log"
        return next((line.strip() for line in reversed(lines) if line.strip()), "nothing said")

    def _show_steps(self, bar: Bar) -> None:
        steps = self._steps + sum(last_step(one.run.folder) for one in self._working)
        bar.update(steps, running=str(len(self._working)), waiting=str(len(self._queue)))

    def _save_all(self) -> None:
        """Ask every worker to save, and wait for it. A second Ctrl-C ends the wait, and `_end_all` the workers."""
        self._say(f"interrupted: {len(self._working)} runs save their state; the same command goes on from there")
        for one in self._working:
            one.worker.ask_to_save()
        while any(one.worker.ended() is None for one in self._working):
            time.sleep(SECONDS_BETWEEN_LOOKS)
        raise KeyboardInterrupt

    def _end_all(self) -> None:
        """However the head leaves, nothing that it started stays."""
        for one in self._working:
            one.worker.end()
        self._working.clear()


def clock(seconds: float) -> str:
    """`1:30:00`, or days from two on."""
    if seconds >= 2 * 86_400:
        return f"{seconds / 86_400:,.1f} days"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"

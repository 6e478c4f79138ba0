"""Workers and where they are: processes on this machine, each with cores of its own. on_ray.py has those of a Ray cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

from tether.config import to_json
from tether.cores import available_cores, claimed, thread_limits, unclaimed
from tether.errors import TetherError
from tether.sweep.bundles import Bundle


@dataclass(frozen=True)
class Slots:
    """How the cores are shared out: so many workers, each with so many threads."""

    workers: int
    threads: int
    cores: tuple[tuple[int, ...], ...]  # of each worker

    def __str__(self) -> str:
        workers, threads = ("" if number == 1 else "s" for number in (self.workers, self.threads))
        return f"{self.workers} worker{workers} of {self.threads} thread{threads} each"

    def shared(self) -> str:
        """That a sweep under way has some of the cores now; empty where there are enough that it does not have."""
        cores = len({core for worker in self.cores for core in worker})
        shared = cores - unclaimed()
        return f"a sweep under way has {shared} of the {cores} cores too" if shared > 0 else ""


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


def job_of(bundle: Bundle) -> dict[str, Any]:
    """The runs for their process: the seeds apart, since a command line has no room for many configs."""
    runs = [{"seed": run.config.seed, "folder": str(run.folder)} for run in bundle.runs]
    return {"config": to_json(bundle.runs[0].config), "runs": runs}


class Ended(NamedTuple):
    """How a worker's process ended."""

    report: str  # what it said, a line of JSON for each run that has ended; empty where it died before any had
    code: int  # negative: the number of the signal that ended it
    lost: str = ""  # why nothing is known of it, as where its machine is gone


class Worker(Protocol):
    """A process that makes a run, or several as one program, wherever it is."""

    def lines(self) -> Sequence[str]:
        """What it has said so far: a line of JSON for each run that has ended."""

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

    def start(self, bundle: Bundle, slot: int, log: Path) -> Worker:
        """One that makes the runs, in a slot that no other has: a whole number below `workers`."""


class Processes:
    """Workers on this machine: the usual backend."""

    def __init__(self, slots: Slots, wandb: str | None = None) -> None:
        self.slots, self.workers, self.threads, self._wandb = slots, slots.workers, slots.threads, wandb

    def __str__(self) -> str:
        shared = self.slots.shared()
        return f"{self.slots}; {shared}, so both are slower" if shared else str(self.slots)

    def start(self, bundle: Bundle, slot: int, log: Path) -> Worker:
        with ExitStack() as stack, opened(log) as file:
            cores = stack.enter_context(claimed(self.threads, self.slots.cores[slot]))  # another sweep may be on the slot's own
            process = start_worker(job_of(bundle) | {"cores": cores, "wandb": self._wandb}, self.threads, file)
            return LocalWorker(process, stack.pop_all())


class LocalWorker:
    def __init__(self, process: subprocess.Popen[str], held: ExitStack) -> None:
        self.process, self._held = process, held  # what it has until it ends: its cores
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self._lines.extend(self.process.stdout)

    def lines(self) -> Sequence[str]:
        return [*self._lines]

    def ended(self) -> Ended | None:
        if self.process.poll() is None:
            return None
        self._reader.join()
        return Ended("".join(self._lines), self.process.returncode)

    def ask_to_save(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        self._held.close()


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

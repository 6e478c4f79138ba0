"""The workers of a sweep on the machines of a Ray cluster, or on this one's cores shared out by Ray.

An actor stands for a run, or for several as one program, and asks Ray for its cores and its share of a GPU. On its machine it
starts the same process as without Ray, which ends when the actor does, however that ends: so nothing is lost that would not be
lost without Ray either.
The folders of runs, the data and the cache of fits are found by their paths, so all machines must have them: a shared mount.
"""

from __future__ import annotations

import json
import logging
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tether import storage
from tether.cores import available_cores, claimed, thread_limits
from tether.errors import TetherError
from tether.sweep import worker
from tether.sweep.bundles import Bundle
from tether.sweep.workers import Ended, Worker, job_of, opened

PACKAGE = "tether sweep --backend ray needs the package ray; pip install 'tether-rl[ray]' brings it"
PASSED_ON = ("JAX_", "TETHER_", "WANDB_MODE", "XLA_")  # variables of the head that its workers have too
SECONDS_BETWEEN_COUNTS = 1.0
TRIES = 3  # to start Ray on this machine


class Runner:
    """The actor: starts the process of a run on its machine, and takes its report. Texts of JSON go in and out."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._asked = False
        self._lines: list[str] = []

    def ready(self) -> bool:
        """To be asked whether it has been placed."""
        return True

    def run(self, text: str) -> str:
        """Make the run, or several as one program; gives the report and the exit code of the process."""
        job = json.loads(text)
        refusal = refuse(job)
        if refusal:
            outcome = {"outcome": worker.FAILED, "kind": "error", "reason": refusal}
            lines = [json.dumps({"run": number, **outcome}) for number in range(len(job["runs"]))]
            return json.dumps({"report": "\n".join(lines), "code": 0})
        with opened(Path(job["log"])) as log, claimed(job["threads"]) as cores:
            given = {"config": job["config"], "runs": job["runs"], "cores": cores, "wandb": job.get("wandb")}
            process = subprocess.Popen(
                [sys.executable, "-m", "tether.sweep.worker", json.dumps(given)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=job["cwd"],
                env=os.environ | job["environment"] | thread_limits(job["threads"]),
                start_new_session=True,
            )
            with process:
                self._process = process
                if self._asked:
                    self.save()
                assert process.stdout is not None
                self._lines.extend(process.stdout)
                return json.dumps({"report": "".join(self._lines), "code": process.wait()})

    def lines(self) -> list[str]:
        """What the process has said so far."""
        return [*self._lines]

    def save(self) -> None:
        """Ask the process to save and end."""
        self._asked = True
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()


def refuse(job: dict[str, Any]) -> str:
    """Why this machine cannot make a run; empty where it can."""
    here, name = version("tether-rl"), os.uname().nodename
    if here != job["version"]:
        return f"{name} has tether {here} and the head {job['version']}; all machines need the same"
    missing = next((place for place in (job["cwd"], job["sees"]) if not Path(place).is_dir()), None)
    if missing:
        return f"{name} does not see {missing}; runs and data are in folders that all machines share"
    return ""


def passed_on(environment: Mapping[str, str], gpus: float) -> dict[str, str]:
    """The head's variables that its workers have too. JAX takes most of a GPU's memory unless told that it has a share."""
    found = {name: value for name, value in environment.items() if name.startswith(PASSED_ON)}
    if 0.0 < gpus < 1.0:
        found.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", f"{0.9 * gpus:.3g}")
    return found


def room(nodes: Sequence[dict[str, Any]], threads: int, gpus: float) -> int:
    """How many runs fit on the machines that are there: of each, as many as its cores and its GPUs allow."""
    total = 0
    for node in nodes:
        if node.get("Alive"):
            resources = node.get("Resources", {})
            by_cores = int(resources.get("CPU", 0.0) // threads)
            total += min(by_cores, int(resources.get("GPU", 0.0) / gpus + 1e-9)) if gpus else by_cores
    return total


class RayWorker:
    """A run's actor, seen from the head."""

    def __init__(self, ray: Any, actor: Any, job: dict[str, Any]) -> None:
        self._ray, self._actor = ray, actor
        self._ready, self._report = actor.ready.remote(), actor.run.remote(json.dumps(job))
        self._ended: Ended | None = None
        self._several = len(job["runs"]) > 1
        self._lines: list[str] = []
        self._asked_for_lines: Any = None
        self._asked_at = 0.0

    def lines(self) -> Sequence[str]:
        """As of a moment ago: nobody waits for the answer. Of one run there is nothing to hear before its end."""
        if self._several and self._asked_for_lines is None and time.monotonic() - self._asked_at >= SECONDS_BETWEEN_COUNTS:
            self._asked_for_lines, self._asked_at = self._actor.lines.remote(), time.monotonic()
        elif self._asked_for_lines is not None and self._is_there(self._asked_for_lines):
            with suppress(self._ray.exceptions.RayError):  # its machine is gone, as `ended` will say
                self._lines = self._ray.get(self._asked_for_lines)
            self._asked_for_lines = None
        return self._lines

    def ended(self) -> Ended | None:
        if self._ended is None and self._is_there(self._report):
            try:
                self._ended = Ended(**json.loads(self._ray.get(self._report)))
            except self._ray.exceptions.RayError as error:
                self._ended = Ended("", 0, lost=_first_line(error))
        return self._ended

    def ask_to_save(self) -> None:
        if self._is_there(self._ready):
            self._actor.save.remote()
        else:  # it was not placed yet, and has nothing to save
            self.end()
            self._ended = self._ended or Ended("", 0, lost="it had not begun")

    def end(self) -> None:
        self._ray.kill(self._actor)

    def _is_there(self, answer: Any) -> bool:
        return bool(self._ray.wait([answer], timeout=0)[0])


class OnRay:
    """Workers on a cluster that this process is connected to. There may be more or fewer machines at any time."""

    def __init__(self, ray: Any, records: Path, threads: int, gpus: float, most: int | None, wandb: str | None = None) -> None:
        self._ray, self._records, self.threads, self._gpus, self._most, self._wandb = ray, records, threads, gpus, most, wandb
        self._counted, self._room = 0.0, 0

    def __str__(self) -> str:
        share = f" and {self._gpus:g} GPUs" if self._gpus else ""
        threads = f"{self.threads} thread{'s' * (self.threads != 1)}"
        workers = f"{self.workers} worker{'s' * (self.workers != 1)}"
        return f"Ray with room for {workers} of {threads}{share} each"

    @property
    def workers(self) -> int:
        if time.monotonic() - self._counted >= SECONDS_BETWEEN_COUNTS:
            self._room, self._counted = room(self._ray.nodes(), self.threads, self._gpus), time.monotonic()
        return self._room if self._most is None else min(self._room, self._most)

    def start(self, bundle: Bundle, slot: int, log: Path) -> Worker:
        job = job_of(bundle) | {
            "log": str(log.resolve()),
            "sees": str(self._records.resolve()),
            "cwd": os.getcwd(),
            "threads": self.threads,
            "wandb": self._wandb,
            "version": version("tether-rl"),
            # One place for the fits of all: where it is not shared, every machine makes its own.
            "environment": passed_on(os.environ, self._gpus) | {"TETHER_CACHE": str(storage.cache_root().resolve())},
        }
        actor = self._ray.remote(Runner).options(
            num_cpus=self.threads, num_gpus=self._gpus, max_concurrency=4, max_restarts=0, max_task_retries=0
        )
        return RayWorker(self._ray, actor.remote(), job)


@contextmanager
def connected(
    address: str | None,
    records: Path,
    threads: int | None = None,
    gpus: float = 0.0,
    most: int | None = None,
    wandb: str | None = None,
    say: Callable[[str], None] = print,
) -> Iterator[OnRay]:
    """A cluster by its address (`auto`: the one that this machine belongs to), or one of this machine's cores alone."""
    for flag, number in (("--workers", most), ("--threads", threads)):
        if number is not None and number < 1:
            raise TetherError(f"{flag} is {number}; it takes a whole number from 1 on")
    if not 0 <= gpus < math.inf:
        raise TetherError(f"--gpus is {gpus:g}; it takes a number from 0 on, such as 0.25")
    threads = threads or 1
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere unless asked
    try:
        import ray
    except ImportError as error:
        raise TetherError(PACKAGE) from error
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        start_here(ray, options, say)
    else:
        check_reachable(address)
        try:
            ray.init(address=address, **options)
        except Exception as error:  # some of Ray's are of no class of their own
            raise TetherError(
                f"no Ray cluster at {address} that lets us in: {_first_line(error)}; one that wants a token, as "
                "`ray start` may make it, takes RAY_AUTH_MODE=token in the environment"
            ) from error
    try:
        backend = OnRay(ray, records, threads, gpus, most, wandb)
        if not backend.workers:
            has = {name: f"{value:g}" for name, value in ray.cluster_resources().items() if name in ("CPU", "GPU")}
            wanted = f"{threads} CPU" + (f" and {gpus:g} GPU" if gpus else "")
            raise TetherError(f"no machine of the cluster has room for a run of {wanted}; in all it has {has}")
        yield backend
    finally:
        ray.shutdown()


def start_here(ray: Any, options: dict[str, Any], say: Callable[[str], None]) -> None:
    """Start Ray on this machine's cores, whatever cluster is there already.

    Where the machine is busy this fails now and then: Ray gives its own processes 15 and 30 seconds to begin, and ray.init has no
    setting for more (2.60). So it is tried again.
    """
    os.environ.setdefault("RAY_gcs_server_port_wait_time_s", "120")  # the one wait that can be longer
    # When the head is killed, the process of a run shall save as it does without Ray. Ray would kill it with its actor.
    os.environ.setdefault("RAY_kill_child_processes_on_worker_exit", "false")
    options = options | {"address": "local", "num_cpus": len(available_cores()), "include_dashboard": False}
    before = _children()
    for number in range(1, TRIES + 1):
        try:
            ray.init(**options)
            return
        except Exception as error:  # a bare Exception is what Ray raises when it has waited long enough
            ray.shutdown()
            for child in _children() - before:  # Ray would leave them until this process ends, and they are in the way
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGTERM)
            reason = _first_line(error)
            if isinstance(error, OSError | ValueError):  # such as a full disk: it would be the same again
                raise TetherError(f"Ray cannot be started on this machine: {reason}") from error
            if number == TRIES:
                raise TetherError(
                    f"Ray did not start on this machine, tried {TRIES} times: {reason} The usual reason is a busy machine. "
                    "Try again later, or leave out --backend ray: processes on this machine need no Ray (docs/scale.md says more)"
                ) from error
            say(f"Ray did not start: {reason} Try {number + 1} of {TRIES}")


def _children() -> set[int]:
    """Processes that this one has started, where the system tells."""
    found: set[int] = set()
    for place in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # of a thread that has just ended
            found.update(map(int, place.read_text().split()))
    return found


def check_reachable(address: str, seconds: float = 5.0) -> None:
    """Refuse an address where nobody answers. Ray would try for minutes."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "/" in address:
        raise TetherError(f"--address is {address!r}; it takes auto, or HOST:PORT of the cluster's head such as 10.0.0.1:6379")
    try:
        socket.create_connection((host, int(port)), timeout=seconds).close()
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise TetherError(f"nobody answers at {address}: {reason}; `ray start --head` says the address of a cluster") from error


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__

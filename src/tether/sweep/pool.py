"""Workers side by side. The head starts them, and takes what they report or how they died.

Where they are is the backend's matter: processes on this machine (workers.py), or on the machines of a Ray cluster (on_ray.py).
"""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tether.locks import is_held
from tether.progress import BarWithParts, progress
from tether.sweep import worker
from tether.sweep.bundles import Bundle, bundle_with, step_of
from tether.sweep.expansion import PlannedRun
from tether.sweep.records import Records, how_far, last_step
from tether.sweep.workers import Backend, Ended, Worker
from tether.training.interrupt import StopRequest

Say = Callable[[str], None]

RESTARTS = 2  # of a run whose process is killed, before it counts as failed
SECONDS_BETWEEN_LOOKS = 0.1
SECONDS_BETWEEN_STEPS = 1.0  # to read how far the runs are
LOOKS_BETWEEN_TIMES = 10  # such looks, to write down how long it will still take


@dataclass
class _Working:
    bundle: Bundle
    slot: int
    worker: Worker
    log: Path
    log_start: int  # bytes that were in it before
    began: float
    left: list[PlannedRun]  # whose end has not been heard of
    heard: int = 0  # lines

    @property
    def names(self) -> list[str]:
        return [run.name for run in self.left]


class Pool:
    """Carries out runs until none is left, or the user asks to stop. What has failed is in the records.

    Up to `together` runs that differ in their seeds alone are one program.
    """

    def __init__(
        self, records: Records, backend: Backend, stop: StopRequest, say: Say = print, show: bool = True, together: int = 1
    ) -> None:
        self._records, self._backend, self._stop, self._say, self._show = records, backend, stop, say, show
        self._together = together
        self._working: list[_Working] = []
        self._kills: Counter[str] = Counter()
        self._failed = 0

    def carry_out(self, runs: Sequence[PlannedRun], title: str, done_steps: int = 0) -> None:
        """`done_steps` were made before, of the runs given here and of others that are shown with them."""
        self._queue = list(runs)
        self._total = done_steps + sum(run.config.training.steps for run in runs)
        self._steps = done_steps
        with ExitStack() as stack:
            stack.callback(self._end_all)
            start = done_steps + sum(last_step(run.folder) for run in runs)
            bar = stack.enter_context(progress(title, self._total, start=start, enabled=self._show))
            looked, looks, said = 0.0, 0, [[""]]
            while (self._queue or self._working) and not self._stop.asked:
                for one in [*self._working]:
                    self._look(one)
                while found := self._next():
                    self._start(*found)
                now = [one.names for one in self._working]
                if now != said or time.monotonic() - looked >= SECONDS_BETWEEN_STEPS:
                    self._show_steps(bar)
                    if now != said or looks % LOOKS_BETWEEN_TIMES == 0:
                        self._say_now(now, bar.seconds_left())
                    looked, looks, said = time.monotonic(), looks + 1, now
                time.sleep(SECONDS_BETWEEN_LOOKS)
            if self._stop.asked:
                self._save_all()

    def _next(self) -> tuple[Bundle, int] | None:
        """What to start, and where. A run that would only wait for the fit of another comes after those that would not."""
        taken = {one.slot for one in self._working}
        slot = next((slot for slot in range(self._backend.workers) if slot not in taken), None)
        if slot is None:
            return None
        fits = {one.bundle.fit for one in self._working if one.bundle.fit and last_step(one.bundle.runs[0].folder) == 0}
        in_turn = [run for run in self._queue if run.fit not in fits] + [run for run in self._queue if run.fit in fits]
        # A folder may be held by a worker whose head was killed; it is about to save and end.
        run = next((run for run in in_turn if not is_held(run.folder)), None)
        if run is None:
            return None
        if self._together == 1 or self._is_last_try(run):
            return Bundle((run,)), slot
        near = [other for other in in_turn if other.folder.parent == run.folder.parent and not self._is_last_try(other)]
        return bundle_with(run, [other for other in near if not is_held(other.folder)], self._together), slot

    def _is_last_try(self, run: PlannedRun) -> bool:
        """Which it makes alone: with less memory, and without one that may be to blame."""
        return self._kills[run.name] >= RESTARTS

    def _start(self, bundle: Bundle, slot: int) -> None:
        for run in bundle.runs:
            self._queue.remove(run)
        log = self._records.log(bundle.log_name)
        log_start = log.stat().st_size if log.exists() else 0
        worker = self._backend.start(bundle, slot, log)
        self._working.append(_Working(bundle, slot, worker, log, log_start, time.monotonic(), [*bundle.runs]))
        step = step_of(bundle.runs[0])  # lines of training may be past it
        as_one = " as one program" if len(bundle.runs) > 1 else ""
        self._say(f"started  {bundle.name}{as_one}" + (f", from step {step:,}" if step else ""))

    def _look(self, one: _Working) -> None:
        """Hear what a worker has to say of its runs; and where it has ended, what became of the others."""
        ended = one.worker.ended()
        lines = ended.report.splitlines() if ended else one.worker.lines()
        for line in lines[one.heard :]:
            try:
                outcome = json.loads(line)
            except ValueError:  # it was killed in the middle of a word
                continue
            run = one.bundle.runs[outcome["run"]]
            one.left.remove(run)
            self._take(one, run, outcome)
        one.heard = len(lines)
        if ended:
            self._working.remove(one)
            one.worker.end()
            if one.left:
                self._died(one, ended)

    def _take(self, one: _Working, run: PlannedRun, outcome: dict[str, Any]) -> None:
        """What has come of a run."""
        if outcome["outcome"] == worker.DONE:
            self._steps += run.config.training.steps
            self._records.forget_failure(run)
            self._say(f"done     {run.name} in {clock(time.monotonic() - one.began)}")
        elif outcome["outcome"] == worker.FAILED:
            self._fail(one, run, outcome["kind"], outcome["reason"])
        elif outcome["outcome"] == worker.BUSY:
            self._queue.append(run)
        else:  # somebody interrupted the worker and not the head
            self._say(f"stopped  {run.name}; it goes on when the others are done")
            self._queue.append(run)

    def _fail(self, one: _Working, run: PlannedRun, kind: str, reason: str) -> None:
        self._records.fail(run, kind, reason, one.log)
        made = last_step(run.folder)
        self._steps += made
        self._total -= run.config.training.steps - made  # nobody makes those now
        self._failed += 1
        self._say(f"failed   {run.name}: {reason}")

    def _died(self, one: _Working, ended: Ended) -> None:
        """A worker that ended before it could say anything of these runs."""
        if ended.lost:  # a machine that is gone says nothing against the run: it is made elsewhere, however often that happens
            self._start_again("lost", one.left, ended.lost)
        elif ended.code >= 0:
            for run in one.left:
                self._fail(one, run, "crash", f"its process ended with code {ended.code}: {_last_line(one.log)}")
        else:
            self._killed(one, signal.Signals(-ended.code))

    def _killed(self, one: _Working, number: signal.Signals) -> None:
        again = []
        for run in one.left:
            self._kills[run.name] += 1
            if self._kills[run.name] <= RESTARTS:
                again.append(run)
                continue
            hint = " (too little memory is the usual reason; fewer --workers need less)" if number == signal.SIGKILL else ""
            reason = f"its process was ended by {number.name} {self._kills[run.name]} times{hint}"
            self._fail(one, run, "killed", reason)
        if again:
            self._start_again("killed", again, f"by {number.name}")

    def _start_again(self, what: str, runs: Sequence[PlannedRun], why: str) -> None:
        each_alone = len(runs) > 1 and any(map(self._is_last_try, runs))
        they = f"they are started again{', each alone' * each_alone}" if len(runs) > 1 else "it is started again"
        self._say(f"{what:8} {Bundle(tuple(runs)).name}, {why}; {they}")
        self._queue.extend(runs)

    def _say_now(self, running: Sequence[Sequence[str]], seconds_left: float | None) -> None:
        self._records.say_now(self._backend.workers, self._backend.threads, running, self._together, seconds_left)

    def _show_steps(self, bar: BarWithParts) -> None:
        at_work = [run for one in self._working for run in one.left]
        steps = self._steps + sum(last_step(run.folder) for run in at_work)
        told = {one.bundle.name: how_far(one.bundle.runs[0], one.log, one.log_start) for one in self._working}
        fitting = sum(said.startswith("fitting") for said in told.values())
        running = f"{len(at_work)} ({fitting} fitting)" if fitting else str(len(at_work))
        bar.set_total(self._total)
        failed = {"failed": str(self._failed)} if self._failed else {}
        bar.update(steps, running=running, waiting=str(len(self._queue)), **failed)
        bar.show_parts([f"{name}: {said}" for name, said in told.items()])

    def _save_all(self) -> None:
        """Ask every worker to save, and wait for it. A second Ctrl-C ends the wait, and `_end_all` the workers."""
        number = sum(len(one.left) for one in self._working)
        saving = "the run under way saves its" if number == 1 else f"{number} runs save their"
        self._say(f"interrupted: {saving} state; the same command goes on from there")
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


def _last_line(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").split("\n")
    except OSError:
        return "no log"
    return next((line.strip() for line in reversed(lines) if line.strip()), "nothing said")


def clock(seconds: float) -> str:
    """`1:30:00`, or days from two on."""
    if seconds >= 2 * 86_400:
        return f"{seconds / 86_400:,.1f} days"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"

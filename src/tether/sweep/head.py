"""The whole of a sweep: what is asked for, what is there already, and everything else carried out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tether import storage
from tether.errors import TetherError
from tether.sweep.choosing import Winner, check_comparable, final_runs, find_winners, in_words
from tether.sweep.expansion import Data, PlannedRun, cannot_learn, expand, find_data
from tether.sweep.narrowing import asked_for
from tether.sweep.plan import Plan, read_plan
from tether.sweep.pool import Pool, Say
from tether.sweep.records import BLOCKED, DIVERGED, DONE, FAILED, RUNNING, Known, Records, counted
from tether.sweep.workers import Backend
from tether.training.interrupt import stop_on_interrupt


@dataclass(frozen=True)
class Sweep:
    """A plan with its runs, and what is known of them."""

    plan: Plan
    datasets: tuple[Data, ...]
    runs: list[PlannedRun]  # the final ones too, once they are decided
    known: dict[str, Known]
    winners: list[Winner] | None = None  # None: not decided yet, or nothing to decide
    only: tuple[str, ...] = ()  # what is asked for of the runs; empty: all of them

    @property
    def records(self) -> Records:
        return Records(self.plan.out)

    @property
    def asked(self) -> Sweep:
        """The part of it that is asked for."""
        runs = asked_for(self.runs, self.only)
        datasets = tuple(data for data in self.datasets if any(run.data is data for run in runs))
        return replace(self, runs=runs, known={run.name: self.known[run.name] for run in runs}, datasets=datasets)


def open_sweep(path: Path, out: Path | None = None, only: tuple[str, ...] = (), to_look: bool = False) -> Sweep:
    """Read the plan and look at what there is of it. Nothing is written.

    `to_look` alone, no data need be there, and what cannot be made is shown. Else what is asked for must be possible.
    """
    plan = read_plan(path, out)
    sweep = look(plan, find_data(plan, in_part=to_look or bool(only)), only)
    if not to_look:
        _check_possible(sweep.asked)
    return sweep


def look(plan: Plan, datasets: tuple[Data, ...], only: tuple[str, ...] = ()) -> Sweep:
    runs = expand(plan, datasets)
    check_comparable(plan, runs)
    known = _look_at_all(plan, runs)
    winners = find_winners(plan, runs, known) if plan.choose else None
    if winners and plan.final_seeds:
        final = final_runs(plan, datasets, winners)
        known |= _look_at_all(plan, final)
        runs = runs + final
    return Sweep(plan, datasets, runs, known, winners, only)


def _look_at_all(plan: Plan, runs: Sequence[PlannedRun]) -> dict[str, Known]:
    known = Records(plan.out).look_at_all(runs)
    for run in runs:
        if known[run.name].state not in (DONE, RUNNING) and (why := cannot_learn(plan, run)):
            known[run.name] = Known(BLOCKED, reason=why)
    return known


def carry_out(
    sweep: Sweep, backend: Backend, say: Say = print, show: bool = True, retry: bool = False, together: int = 1
) -> Sweep:
    """Make every run that is asked for and missing, then the final ones. A run that diverged is left, unless `retry`.

    Up to `together` runs that differ in their seeds alone are one program. Only what is still to be made needs its data.
    """
    missing = [data for data in sweep.asked.datasets if data.missing]
    needed = [data for data in missing if _is_needed(data, sweep.asked, retry)]
    if needed:
        more = f" (and {len(needed) - 1} more datasets)" if len(needed) > 1 else ""
        raise TetherError(f"{sweep.plan.path}: {needed[0].missing}{more}")
    for data in missing:
        say(f"{data.name}: its runs are left as they are; whether they were of this data was not compared: {data.missing}")
    with storage.exclusive(sweep.records.folder), stop_on_interrupt() as stop:
        tried: set[str] = set()
        notes = _notes(sweep, retry)
        while True:
            _keep_plan(sweep)
            asked = sweep.asked
            _check_possible(asked)  # final runs, too, which are new
            todo = [run for run in asked.runs if run.name not in tried and is_to_do(sweep.known[run.name], retry)]
            if not todo:
                return sweep
            done_steps = sum(known.step for known in asked.known.values() if known.state == DONE)
            programs = f", up to {together} seeds in one program" if together > 1 else ""
            say(f"{sweep.plan.name}: {counted(asked.known)}; {len(todo)} to do by {backend}{programs}")
            while notes:
                say(notes.pop(0))
            Pool(sweep.records, backend, stop, say, show, together).carry_out(todo, sweep.plan.name, done_steps)
            tried |= {run.name for run in todo}
            sweep = look(sweep.plan, sweep.datasets, sweep.only)  # which may have decided on final runs


def _check_possible(asked: Sweep) -> None:
    """Refuse all of it where a run cannot be made, before any is."""
    blocked = [known.reason for known in asked.known.values() if known.state == BLOCKED]
    if blocked:
        more = f" (and {len(blocked) - 1} more runs)" if len(blocked) > 1 else ""
        raise TetherError(f"{asked.plan.path}: {blocked[0]}{more}")


def _keep_plan(sweep: Sweep) -> None:
    choice, compared = sweep.plan.choose, [winner for winner in sweep.winners or () if winner.scores]
    episodes = sum(winner.episodes for winner in compared)
    sweep.records.keep_plan(sweep.plan.name, sweep.runs, in_words(choice) if choice and compared else "", episodes)


def _notes(sweep: Sweep, retry: bool) -> list[str]:
    """A line for all runs of which the same is to be said."""
    found: dict[str, dict[str, None]] = {}
    for run in sweep.asked.runs:
        for note in run.notes if is_to_do(sweep.known[run.name], retry) else ():
            found.setdefault(note, {})[run.data.name] = None
    return [f"{', '.join(names)}: {note}" for note, names in found.items()]


def _is_needed(data: Data, sweep: Sweep, retry: bool) -> bool:
    return any(run.data is data and is_to_do(sweep.known[run.name], retry) for run in sweep.runs)


def anything_to_do(sweep: Sweep, retry: bool) -> bool:
    return any(is_to_do(known, retry) for known in sweep.asked.known.values())


def is_to_do(known: Known, retry: bool) -> bool:
    return known.state not in (DONE, BLOCKED) and (retry or known.kind != DIVERGED)


def failures(sweep: Sweep) -> Sequence[tuple[str, Known]]:
    return [(name, known) for name, known in sweep.known.items() if known.state == FAILED]

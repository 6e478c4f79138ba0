"""A sweep in words: what it will do, how far it is, what was chosen."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

from tether.sweep.bundles import bundles_of
from tether.sweep.choosing import Winner, in_words, number_of_final_runs
from tether.sweep.estimate import Estimate
from tether.sweep.expansion import Data, PlannedRun, twins
from tether.sweep.head import Sweep, is_to_do
from tether.sweep.pool import clock
from tether.sweep.records import BLOCKED, DIVERGED, DONE, FAILED, RUNNING, WAITING, counted

STALE = 60.0  # seconds after which what the head has said is told with its age: it says it more often while it is at work


def plan_lines(sweep: Sweep, left: Estimate | None, together: int = 1, retry: bool = False) -> list[str]:
    """The runs, those of all seeds on one line, the fits they share, and the time they will take."""
    plan, runs = sweep.plan, sweep.runs
    lines = [f"{plan.name}: {len(runs)} runs in {plan.out} ({counted(sweep.known)})"]
    for name, seeds in _by_seeds(runs).items():
        steps = seeds[0].config.training.steps
        lines.append(f"  {name}  {steps:,} steps, seeds {', '.join(str(run.config.seed) for run in seeds)}")
    if together > 1:
        lines += _program_lines(sweep, together, retry)
    fits = Counter(run.fit for run in runs if run.fit)
    first = {run.fit: run for run in reversed(runs)}
    lines.append(f"fits: {len(fits)}, each made once" if fits else "fits: none to make")
    for fit, number in fits.items():
        run = first[fit]
        lines.append(f"  {run.bonus} on {run.data.name}  {run.config.bonus.steps:,} steps, for {number} runs")
    if plan.final_seeds and sweep.winners is None:
        number = number_of_final_runs(plan, runs)
        lines.append(
            f"then: {number} final runs, of seeds {', '.join(map(str, plan.final_seeds))} with the settings chosen by then"
        )
    if left is not None and not left.processes:
        lines.append("time: nothing is left to do")
    elif left is not None:
        lines.append(f"time: {time_line(left)}")
        parts = {"training": left.runs, "fits": left.fits, "evaluations at most": left.evaluations, "starting": left.starts}
        lines.append(f"  of it: {', '.join(f'{name} {seconds / left.total:.0%}' for name, seconds in parts.items())}")
        if together > 1:
            lines.append("  a program of several seeds is counted as its runs one by one; tether bench --seeds-together compares")
    return lines + twin_lines(sweep) + _missing_lines(sweep.datasets)


def twin_lines(sweep: Sweep) -> list[str]:
    """That some variants are made twice for nothing."""
    spelt = [f"{', '.join(names[:-1])} and {names[-1]}" for names in twins(sweep.runs)]
    return [f"variants {names} have the same settings: their runs are the same" for names in spelt]


def _missing_lines(datasets: Iterable[Data]) -> list[str]:
    missing = [data for data in datasets if data.missing]
    others = "".join(f", {data.name}" for data in missing[1:])
    return [f"missing: {missing[0].missing}" + (f"; the same for{others[1:]}" if others else "")] if missing else []


def _program_lines(sweep: Sweep, together: int, retry: bool) -> list[str]:
    """What of the runs to do is one program."""
    bundles = bundles_of([run for run in sweep.runs if is_to_do(sweep.known[run.name], retry)], together)
    several = [bundle for bundle in bundles if len(bundle.runs) > 1]
    alone = len(bundles) - len(several)
    return [
        f"programs: {len(several)} of several seeds, {alone} of one run",
        *(f"  {bundle.name}" for bundle in several),
    ]


def time_line(left: Estimate) -> str:
    """`1:30:00 by 2 workers of 1 thread each; 3.0 core-hours`."""
    return f"{clock(left.seconds)} by {left.slots}; {left.core_hours:,.1f} core-hours"


def status_lines(sweep: Sweep, left: Estimate | None) -> list[str]:
    """One line a run, those that need a look first; then the whole."""
    lines = []
    by_state = {state: [run for run in sweep.runs if sweep.known[run.name].state == state] for state in (FAILED, RUNNING, DONE)}
    for run in by_state[DONE]:
        lines.append(f"{DONE:8} {run.name}{_score(sweep, run)}")
    for run in by_state[RUNNING]:
        known = sweep.known[run.name]
        mates = ", ".join(name.rpartition("/")[2] for name in known.with_runs)
        lines.append(f"{RUNNING:8} {run.name}: {known.how_far}" + (f", as one program with {mates}" if mates else ""))
    for run in by_state[FAILED]:
        known = sweep.known[run.name]
        lines.append(f"{FAILED:8} {run.name}: {known.reason}; log: {known.log}")
    lines += [f"{BLOCKED:8} {name}: {known.reason}" for name, known in sweep.known.items() if known.state == BLOCKED]
    waiting = [run for run in sweep.runs if sweep.known[run.name].state == WAITING]
    begun = [run for run in waiting if sweep.known[run.name].step]
    lines += [f"{WAITING:8} {run.name}, at step {sweep.known[run.name].step:,}" for run in begun]
    now = sweep.records.now()
    lines.append(f"{sweep.plan.name}: {counted(sweep.known)}; {'not running' if now is None else 'running'}")
    if sweep.plan.final_seeds and sweep.winners is None:
        lines.append(f"then: {number_of_final_runs(sweep.plan, sweep.runs)} final runs with the settings chosen by then")
    if any(is_to_do(known, retry=False) for known in sweep.known.values()):
        lines.append(f"time left: {_time_left(sweep, left, now)}")
    lines += [text] if (text := retry_line(sweep)) else []
    return lines + _missing_lines({run.data: None for run in sweep.runs if is_to_do(sweep.known[run.name], retry=False)})


def retry_line(sweep: Sweep) -> str:
    """Where nothing but what has diverged is left."""
    diverged = any(known.kind == DIVERGED for known in sweep.known.values())
    only_diverged = diverged and not any(is_to_do(known, retry=False) for known in sweep.known.values())
    return "nothing is left to do; what diverged is made again with --retry" if only_diverged else ""


def _time_left(sweep: Sweep, left: Estimate | None, now: dict[str, Any] | None) -> str:
    """By the head at work, which sees how fast it is; else as estimated."""
    seconds = (now or {}).get("seconds_left")  # a head that was started before an upgrade does not say
    if now is not None and seconds is not None:
        whole = ", for all that it makes" if sweep.only else ""
        final = ", and then the final runs" if sweep.plan.final_seeds and sweep.winners is None else ""
        age = time.time() - now["said_at"]
        old = f", as it said {clock(age)} ago" if age > STALE else ""
        return f"{clock(seconds)}, by the sweep under way{whole}{final}{old}"
    if left is not None:
        return time_line(left)
    if now is not None or any(known.state == RUNNING for known in sweep.known.values()):  # to measure beside it would slow it
        return "not known yet"
    return f"not known; tether sweep {sweep.plan.path} --dry-run measures the speed here"


def winner_lines(sweep: Sweep) -> list[str]:
    """What was chosen, by what, and what it cost."""
    choice = sweep.plan.choose
    if choice is None or not sweep.winners:
        return []
    lines = []
    for winner in sweep.winners:
        if winner.variant is None:
            why = "every run of its only variant diverged" if winner.alone else "every variant has a run that diverged"
            lines.append(f"chosen   {winner.method} on {winner.scope}: nothing, since {why}")
        elif winner.scores:
            lines.append(f"chosen   {winner.method} on {winner.scope}: {winner.variant} ({_ranking(winner)})")
    if lines:
        episodes = sum(winner.episodes for winner in sweep.winners)
        lines.append(f"chosen by {in_words(choice)}; that took {episodes:,} episodes in the environment")
    return lines


def _ranking(winner: Winner, most: int = 3) -> str:
    ranked = sorted(winner.scores.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{name} {score:.1f}" for name, score in ranked[:most])
    return f"{shown}, …" if len(ranked) > most else shown


def _score(sweep: Sweep, run: PlannedRun) -> str:
    score = (sweep.known[run.name].result or {}).get("score")
    return f": last {score['last']['mean']:.1f} ± {score['last']['std']:.1f}" if score else ""


def _by_seeds(runs: Iterable[PlannedRun]) -> dict[str, list[PlannedRun]]:
    found: dict[str, list[PlannedRun]] = {}
    for run in runs:
        found.setdefault(run.name.rpartition("/")[0], []).append(run)
    return found

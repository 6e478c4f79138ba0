"""How many episodes in the environment stand behind what a table has chosen. Offline learning has none to spend."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tether.report.gathered import SweepFacts
from tether.runs import FINAL
from tether.runs.reading import Run

BEST = "best"  # the column whose step is chosen by looking at every evaluation


def cost_line(runs: Sequence[Run], sweeps: Sequence[SweepFacts] = ()) -> str:
    """Of the step, by column, and of the settings, where a sweep has chosen them."""
    settings = _of_settings(sweeps) or "0, as far as is recorded here"
    step = f"of the step 0 for last and last ten, {_looked_at(runs):,} for best"
    online = sum((run.result or {}).get("online", {}).get("environment_steps", 0) for run in runs)
    learnt = f"; {online:,} steps in the environment were learnt from" if online else ""
    return f"episodes in the environment that choices cost: {step}; of settings {settings}{learnt}{_flattered(runs, sweeps)}"


def table_cost(runs: Sequence[Run], sweeps: Sequence[SweepFacts], columns: Sequence[str]) -> str:
    """The same of one table, in a line below it. `columns` are those of its scores."""
    step = "0"
    if BEST in columns:
        step = f"{_looked_at(runs):,}" + (" for best, 0 for last and last ten" if len(columns) > 1 else "")
    settings = _of_settings(sweeps)
    return f"Episodes in the environment that choices cost: {step}{settings and '; of settings ' + settings}."


def _looked_at(runs: Sequence[Run]) -> int:
    return sum(len(episodes) for run in runs for episodes in run.returns(_any_policy(run))[1])


def _of_settings(sweeps: Sequence[SweepFacts]) -> str:
    return " and ".join(f"{sweep.episodes:,} ({sweep.name}: by {sweep.chosen_by})" for sweep in sweeps if sweep.chosen_by)


def _flattered(runs: Sequence[Run], sweeps: Sequence[SweepFacts]) -> str:
    """Whether runs are shown that settings were chosen by: of several the luckiest is taken, and in these runs it is lucky."""
    looked_at = any(
        _is_below(run, sweep.folder) and not _is_below(run, sweep.folder / FINAL)
        for sweep in sweeps
        if sweep.chosen_by
        for run in runs
    )
    if not looked_at:
        return ""
    return "; runs here are among those that settings were chosen by, and flatter what was chosen: compare final ones"


def _is_below(run: Run, folder: Path) -> bool:
    return run.path.resolve().is_relative_to(folder.resolve())


def _any_policy(run: Run) -> str | None:
    """All policies of a run are evaluated by as many episodes; `best` is chosen by those of the one that is shown."""
    known = [name for record in run.evaluations for name in record["evaluation"]]
    return run.policy if run.policy in known else next(iter(known), None)

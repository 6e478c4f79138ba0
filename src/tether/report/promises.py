"""What Q-values promise at the start of an episode, beside what the episode was then worth: overestimation, seen directly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tether.errors import TetherError
from tether.report.curves import DIVERGED, break_axis
from tether.report.figures import COLOURS, GREY, label_steps, legend_above, save_figure, style
from tether.report.tables import Score
from tether.runs.reading import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LIMIT_SHOWS = 0.3  # of the largest possible value: where all lies far below, the line for it would leave no room for them


class Promises(NamedTuple):
    """Of one method's runs, means over the episodes of an evaluation. Both in scaled, discounted rewards."""

    steps: np.ndarray  # (T,)
    values: np.ndarray | None  # (runs, T) Q of the first action; None: the method has no Q-values
    worth: np.ndarray  # (runs, T) discounted return
    visited: np.ndarray | None = None  # (runs, T) the same from every visited state on, in their mean; None: not recorded


def find_promises(groups: Mapping[str, Sequence[Run]], policy: str | None = None) -> dict[str, Promises]:
    """By method, those whose evaluations tell what episodes were worth; an error where none does."""
    found = {label: _of_runs(runs, policy) for label, runs in groups.items()}
    known = {label: promises for label, promises in found.items() if promises is not None}
    _refuse_other_scales([run for label in known for run in groups[label]])
    if not known:
        raise TetherError("no run tells what its episodes were worth; those of an earlier version of Tether do not")
    return known


def _refuse_other_scales(runs: Sequence[Run]) -> None:
    """Worths in rewards that were scaled otherwise do not compare; they do on different datasets, each beside its own."""
    found: dict[str, tuple[dict[str, Any], Run]] = {}
    for run in runs:
        data = (run.result or {}).get("dataset", {})
        scale = {"keep_zero": False, "unit": None} | (data.get("reward_scale") or {})
        other, first = found.setdefault(str(data.get("sha256")), (scale, run))
        if scale != other:
            raise TetherError(
                f"the runs {first.path} and {run.path} have rewards scaled in different ways, so what they are worth does not "
                "compare; train both with the same training.reward_scaling"
            )


def promise_lines(found: Mapping[str, Promises]) -> list[list[str]]:
    """A table of the last evaluation: mean ± std over the runs of a method."""

    def last(column: np.ndarray | None) -> str:
        return "" if column is None else str(Score(float(column[:, -1].mean()), float(column[:, -1].std())))

    lines = [["run", "Q at the start", "discounted return", "over visited states"]]
    lines += [[label, *map(last, (promises.values, promises.worth, promises.visited))] for label, promises in found.items()]
    recorded = any(promises.visited is not None for promises in found.values())  # not by earlier versions
    return lines if recorded else [line[:-1] for line in lines]


def draw_promises(found: Mapping[str, Promises], path: Path | str, discount: float) -> None:
    """Write the figure as a PNG."""
    save_figure(promises_figure(found, discount), path)


def promises_figure(found: Mapping[str, Promises], discount: float) -> Figure:
    """A panel for each method: the Q-value (solid) and what it was worth (dashed), means over runs, bands from least to most."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    limit = 1.0 / (1.0 - discount)
    columns = [column for promises in found.values() for column in (promises.values, promises.worth) if column is not None]
    largest = max(float(np.abs(column).max()) for column in columns)
    limit_shows = max(float(column.max()) for column in columns) > LIMIT_SHOWS * limit
    lines: dict[Any, str] = {"-": "Q at the start", "--": "what the episode was worth"}
    lines |= {"-.": r"$1/(1-\gamma)$: the most possible"} if limit_shows else {}
    with style():
        figure = Figure(figsize=(max(3.2 * len(found), 5.0), 4.0), layout="constrained")
        panels = figure.subplots(1, len(found), sharey=True, squeeze=False)[0]
        for axes, (label, promises), colour in zip(panels, found.items(), COLOURS, strict=False):
            for column, line in ((promises.values, "-"), (promises.worth, "--")):
                if column is None:
                    continue
                axes.plot(promises.steps, column.mean(axis=0), color=colour, linestyle=line)
                axes.fill_between(promises.steps, column.min(axis=0), column.max(axis=0), color=colour, alpha=0.15, linewidth=0)
            if limit_shows:
                axes.axhline(limit, color=GREY, linestyle="-.", linewidth=1.2)
            axes.set_title(label)
            label_steps(axes)
        panels[0].set_ylabel("discounted, scaled reward")
        if largest > DIVERGED * limit:
            break_axis(panels[0], limit, largest)
        handles = [Line2D([], [], color=GREY, linestyle=line, label=text) for line, text in lines.items()]
        legend_above(figure, handles)
    return figure


def _of_runs(runs: Sequence[Run], policy: str | None) -> Promises | None:
    name = policy or runs[0].policy
    records = [
        [record for record in run.evaluations if "discounted_returns" in record["evaluation"].get(name, {})] for run in runs
    ]
    if not all(records):
        return None
    steps = [record["step"] for record in records[0]]
    if any([record["step"] for record in of_run] != steps for of_run in records):
        raise TetherError(f"the runs beside {runs[0].path} were not evaluated at the same steps")

    def means(fact: str, by_length: bool = False) -> np.ndarray | None:
        """By run and step; None where not all have it. By length, every step of an episode counts as much."""
        found = [[record["evaluation"][name] for record in of_run] for of_run in records]
        if any(fact not in facts for of_run in found for facts in of_run):
            return None
        return np.array(
            [[np.average(facts[fact], weights=facts["lengths"] if by_length else None) for facts in of_run] for of_run in found]
        )

    worth = means("discounted_returns")
    assert worth is not None  # all records here have it
    return Promises(np.array(steps, float), means("values"), worth, means("visited_returns", by_length=True))

"""Learning curves, after the paper's last figure: score and bonus over training on one plot, Q-values below."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from tether.errors import TetherError
from tether.report.figures import COLOURS, GREY, label_steps, legend_above, save_figure, style
from tether.runs.reading import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BONUSES: dict[str, tuple[str, Literal["--", ":"]]] = {"actor bonus": ("actor/bonus", "--"), "critic bonus": ("critic/bonus", ":")}
LINEAR_SPAN = 30.0  # bonuses that differ by a larger factor are drawn on a logarithmic axis
DIVERGED = 5.0  # Q-values beyond so many times the largest possible one too: a linear axis would show nothing else


def draw_curves(runs: Sequence[Run], path: Path | str, labels: Sequence[str] | None = None, policy: str | None = None) -> None:
    """Write the learning curves of one or several runs as a PNG. Labels are the names of the run folders unless given."""
    save_figure(curves_figure(runs, labels, policy), path)


def curves_figure(runs: Sequence[Run], labels: Sequence[str] | None = None, policy: str | None = None) -> Figure:
    """Two panels over training steps, one colour for each run.

    Above, on the left axis, the mean score of each evaluation with a band from its worst to its best episode (returns, if any
    of the runs has no reference scores), of each run's own policy unless another is named, and the mean of the data's own
    episodes; on the right axis the mean bonus in the actor's (dashed) and the critic's (dotted) loss. Below, if any run has a
    critic, the mean Q-value and the largest that rewards in [0, 1] allow. A line stands where a run of `tether finetune` went on
    from another.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    if not runs:
        raise TetherError("there are no runs to draw")
    labels = labels or [run.name for run in runs]
    colours = [COLOURS[index % len(COLOURS)] for index in range(len(runs))]
    has_critic = any(len(run.series("critic/q")[0]) for run in runs)
    with style():
        figure = Figure(figsize=(8.0, 6.4 if has_critic else 4.4), layout="constrained")
        panels = figure.subplots(2 if has_critic else 1, 1, sharex=True, squeeze=False, height_ratios=(3, 2)[: 1 + has_critic])[
            :, 0
        ]
        _draw_scores(panels[0], runs, colours, policy)
        drawn = _draw_bonuses(panels[0], runs, colours if len(runs) > 1 else [GREY])
        if has_critic:
            _draw_values(panels[1], runs, colours)
        starts = {run.config["start"]["step"] for run in runs if run.config.get("start")}
        for panel in panels:
            for step in starts:
                panel.axvline(step, color=GREY, linewidth=1.2)
        label_steps(panels[-1])
        handles = [Line2D([], [], color=colour, label=label) for colour, label in zip(colours, labels, strict=True)]
        handles += [Line2D([], [], color=GREY, linewidth=1.2, label="goes on from here")] if starts else []
        handles += [Line2D([], [], color=GREY, linestyle=BONUSES[name][1], label=name) for name in drawn]
        legend_above(figure, handles)
    return figure


def _draw_scores(axes: Axes, runs: Sequence[Run], colours: Sequence[str], policy: str | None) -> None:
    scores = [run.scores(policy) for run in runs]
    normalised = [score for score in scores if score is not None]
    curves = normalised if len(normalised) == len(runs) else [run.returns(policy) for run in runs]
    axes.set_ylabel("normalised score" if curves is normalised else "return")
    for level in _data_levels(runs, curves is normalised):
        axes.axhline(level, color=GREY, linestyle=(0, (6, 3)), linewidth=1.4)
        axes.annotate(
            "the data's own",
            (1.0, level),
            xycoords=("axes fraction", "data"),
            xytext=(-4, 3),
            textcoords="offset points",
            ha="right",
            color=GREY,
        )
    for (steps, episodes), colour in zip(curves, colours, strict=True):
        lowest, mean, highest = ([f(values) for values in episodes] for f in (np.min, np.mean, np.max))
        axes.plot(steps, mean, color=colour, marker="o", markersize=4)  # a run may have been evaluated only once
        axes.fill_between(steps, lowest, highest, color=colour, alpha=0.15 if len(runs) <= 3 else 0.07, linewidth=0)


def _data_levels(runs: Sequence[Run], normalised: bool) -> list[float]:
    """The mean score of the episodes that were learnt from, of each dataset, in the unit of the axis."""
    unit, found = "normalised" if normalised else "return", {}
    for run in runs:
        if run.result is not None and run.result.get("score_unit") == unit and run.evaluations:
            found[run.result["dataset"]["sha256"]] = float(run.result["dataset"]["score"]["mean"])
    return sorted({*found.values()})


def _draw_bonuses(scores: Axes, runs: Sequence[Run], colours: Sequence[str]) -> list[str]:
    """Draw on a second axis at the right, if any run has a bonus at all. Gives the names of what was drawn."""
    from matplotlib.ticker import LogLocator, NullLocator

    curves = [
        (name, colour, line_style, *run.series(metric))
        for name, (metric, line_style) in BONUSES.items()
        for run, colour in zip(runs, colours, strict=True)
    ]
    curves = [curve for curve in curves if np.any(curve[-1])]
    if not curves:
        return []
    axes = scores.twinx()
    axes.grid(visible=False)  # one grid, that of the scores
    axes.spines.right.set_visible(True)
    axes.set_ylabel("bonus")
    for _, colour, line_style, steps, values in curves:
        axes.plot(steps, values, color=colour, linestyle=line_style, linewidth=1.6)
    values = np.concatenate([curve[-1] for curve in curves])
    positive = values[np.isfinite(values) & (values > 0)]
    if positive.size and positive.max() > LINEAR_SPAN * positive.min():
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(bottom=0.0)
    return [name for name in BONUSES if any(curve[0] == name for curve in curves)]


def _draw_values(axes: Axes, runs: Sequence[Run], colours: Sequence[str]) -> None:
    axes.set_ylabel("Q-value")
    largest = 0.0
    for run, colour in zip(runs, colours, strict=True):
        steps, values = run.series("critic/q")
        axes.plot(steps, values, color=colour)
        largest = max([largest, *np.abs(values[np.isfinite(values)])])
    discounts = {run.config.get("agent", {}).get("discount") for run in runs} - {None, 1.0}
    limits = {1.0 / (1.0 - discount): discount for discount in sorted(discounts)}
    for limit, discount in limits.items():
        axes.axhline(limit, color=GREY, linestyle="-.", linewidth=1.2)
        axes.annotate(
            rf"$1/(1-\gamma)$, $\gamma$ = {discount:g}",
            (0.0, limit),
            xycoords=("axes fraction", "data"),
            xytext=(5, -4),
            textcoords="offset points",
            va="top",
            color=GREY,
        )
    if limits and largest > DIVERGED * max(limits):
        break_axis(axes, max(limits), largest)


def break_axis(axes: Axes, limit: float, largest: float) -> None:
    """Linear up to `limit` in size, logarithmic beyond."""
    first, last = math.ceil(math.log10(limit)), math.ceil(math.log10(largest))
    decades = [10.0**power for power in range(first, last + 1, 1 + (last - first) // 6)]
    axes.set_yscale("symlog", linthresh=limit)
    axes.set_yticks([*(-decade for decade in reversed(decades)), 0.0, *decades])
    axes.minorticks_off()
    low, high = axes.dataLim.intervaly
    axes.set_ylim(-2 * abs(low) if low < -limit else min(low, 0.0), 2 * high)

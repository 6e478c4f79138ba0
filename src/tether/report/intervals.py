"""Methods on every task at a glance: each mean with its interval, every seed, and the data's own score."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tether.report.figures import COLOURS, GREY, save_figure, style
from tether.report.statistics import Interval, Scores, interquartile_means, task_means
from tether.runs.reading import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 3
LINE, PANEL = 0.26, 0.75  # inches: of a method in a panel, and of a panel besides


def draw_intervals(scores: Scores, runs: Sequence[Run], path: Path | str) -> None:
    """Write the figure as a PNG. The runs, from which the scores are, tell their unit and what their data scores."""
    results = [run.result for run in runs if run.result is not None]
    sources = [found["dataset"] for found in results]
    levels = {source["name"]: float(source["score"]["mean"]) for source in sources if "score" in source}
    unit = "normalised score" if all(found.get("score_unit") == "normalised" for found in results) else "return"
    save_figure(intervals_figure(scores, levels, unit), path)


def intervals_figure(scores: Scores, levels: Mapping[str, float], unit: str) -> Figure:
    """A panel for each task, and before them one for all where there are several. The best method over all is on top."""
    from matplotlib.figure import Figure

    overall, by_task = interquartile_means(scores), task_means(scores)
    methods = sorted(overall, key=lambda name: overall[name].value)  # from the bottom up
    tasks = [(task, {name: by_task[name][place] for name in methods}) for place, task in enumerate(scores.tasks)]
    panels = [(f"interquartile mean of {len(tasks)}", overall), *tasks] if len(tasks) > 1 else tasks
    columns = min(COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    with style():
        size = (4.0 * columns + 1.5, rows * (PANEL + LINE * len(methods)))
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False, sharey=True).ravel()
        for axis, (title, intervals) in zip(axes, panels, strict=False):
            seeds = {name: _seeds(scores, name, title) for name in methods}
            _draw_panel(axis, title, methods, intervals, seeds, levels.get(title))
        for axis in axes[len(panels) :]:
            axis.set_visible(False)
        figure.supxlabel(f"{unit}: mean and 95 % interval; hollow: single seeds; dashed: the data's own", fontsize=11)
    return figure


def _seeds(scores: Scores, method: str, task: str) -> list[float]:
    """Of one task. Over all of them single runs say nothing."""
    return scores.by_method[method][:, scores.tasks.index(task)].tolist() if task in scores.tasks else []


def _draw_panel(
    axis: Axes,
    title: str,
    methods: Sequence[str],
    intervals: Mapping[str, Interval],
    seeds: Mapping[str, Sequence[float]],
    level: float | None,
) -> None:
    axis.set_title(title, fontsize=11)
    for place, name in enumerate(methods):
        found, colour = intervals[name], COLOURS[(len(methods) - 1 - place) % len(COLOURS)]
        axis.plot([found.low, found.high], [place, place], color=colour, linewidth=5.0, alpha=0.35, solid_capstyle="butt")
        axis.plot(seeds[name], [place] * len(seeds[name]), "o", color=colour, markersize=4, markerfacecolor="none")
        axis.plot([found.value], [place], "|", color=colour, markersize=13, markeredgewidth=2.5)
    if level is not None:
        axis.axvline(level, color=GREY, linestyle=(0, (6, 3)), linewidth=1.2)
    axis.set_yticks(range(len(methods)), methods)
    axis.set_ylim(-0.6, len(methods) - 0.4)
    axis.set_xlim(left=min(0.0, axis.get_xlim()[0]))
    axis.grid(visible=False, axis="y")

"""The paper's picture of a bonus: its values on the data's own actions and on others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tether.errors import TetherError
from tether.evaluation.discrimination import bin_edges, shares_in
from tether.report.figures import COLOURS, name_panel, save_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BINS = 80


def draw_bonus_histograms(bonus_by_kind: dict[str, np.ndarray], path: Path | str, title: str) -> None:
    """Write the histograms of a bonus over several kinds of state-action pairs as a PNG."""
    save_figure(histogram_figure(bonus_by_kind, title), path)


def draw_histogram_panels(values_by_bonus: dict[str, dict[str, np.ndarray]], path: Path | str, title: str) -> None:
    """The same for several bonuses, a panel each, as a PNG."""
    save_figure(panels_figure(values_by_bonus, title), path)


def histogram_figure(bonus_by_kind: dict[str, np.ndarray], title: str) -> Figure:
    """One outline per kind, in the order given, over common bins; the first kind, the data, is filled.

    The heights of a kind add up to one. The outermost bins hold all that lies beyond them.
    """
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(8.0, 4.6), layout="constrained")
        axes = figure.subplots()
        _draw(axes, bonus_by_kind)
        axes.set_title(title)
        axes.legend()
    return figure


def panels_figure(values_by_bonus: dict[str, dict[str, np.ndarray]], title: str) -> Figure:
    """A panel per bonus, two in a row, with one legend for all."""
    from matplotlib.figure import Figure

    if not values_by_bonus:
        raise TetherError("cannot draw bonuses: none was given")
    rows = -(-len(values_by_bonus) // 2)
    with style():
        figure = Figure(figsize=(12.0, 1.2 + 3.4 * rows), layout="constrained")
        panels = figure.subplots(rows, 2, squeeze=False).ravel()
        for axes, (bonus, found) in zip(panels, values_by_bonus.items(), strict=False):
            _draw(axes, found)
            name_panel(axes, bonus)
        for axes in panels[len(values_by_bonus) :]:
            axes.set_visible(False)
        figure.suptitle(title)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4)
    return figure


def _draw(axes: Axes, bonus_by_kind: dict[str, np.ndarray]) -> None:
    found = {kind: np.asarray(values, float).ravel() for kind, values in bonus_by_kind.items()}
    for kind, values in found.items():
        if values.size == 0 or not np.all(np.isfinite(values)):
            raise TetherError(f"cannot draw the bonus of {kind}: {'no values' if values.size == 0 else 'not all are finite'}")
    if not found:
        raise TetherError("cannot draw a bonus: no values were given")
    edges, logarithmic = bin_edges(list(found.values()), BINS)
    for index, (kind, values) in enumerate(found.items()):
        colour = COLOURS[index % len(COLOURS)]
        shares = shares_in(values, edges)
        axes.stairs(shares, edges, color=colour, label=kind, linewidth=2.0)
        if index == 0:
            axes.stairs(shares, edges, color=colour, fill=True, alpha=0.25)
    axes.set_xscale("log" if logarithmic else "linear")
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel("bonus")
    axes.set_ylabel("share of pairs")

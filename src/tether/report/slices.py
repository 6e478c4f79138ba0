"""The landscape of a bonus around one recorded action: is it one that an actor can follow?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tether.errors import TetherError
from tether.report.figures import COLOURS, save_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEVELS = 12
IN_A_ROW = 3


@dataclass(frozen=True)
class Slice:
    """The bonus over the first two action dimensions (or the only one); the others stay as recorded."""

    axes: list[np.ndarray]  # one or two: the values of each dimension
    scores: np.ndarray  # (second, first), or (first,)
    marks: dict[str, np.ndarray]  # actions to mark, by what they are


def draw_slices(slices: dict[str, Slice], path: Path | str, title: str) -> None:
    """Write a panel for each bonus as a PNG."""
    save_figure(slices_figure(slices, title), path)


def slices_figure(slices: dict[str, Slice], title: str) -> Figure:
    from matplotlib.figure import Figure

    if not slices:
        raise TetherError("cannot draw bonuses: none was given")
    columns = min(IN_A_ROW, len(slices))
    rows = -(-len(slices) // columns)
    with style():
        figure = Figure(figsize=(1.0 + 4.2 * columns, 1.2 + 3.9 * rows), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes, (bonus, slice_) in zip(panels, slices.items(), strict=False):
            _draw(figure, axes, slice_)
            axes.set_title(bonus)
        for axes in panels[len(slices) :]:
            axes.set_visible(False)
        figure.suptitle(title)
        entries = {label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
        figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=3)
    return figure


def _draw(figure: Figure, axes: Axes, slice_: Slice) -> None:
    axes.grid(False)
    axes.set_xlabel("first action")
    if len(slice_.axes) == 1:
        axes.plot(slice_.axes[0], slice_.scores, color=COLOURS[0])
        axes.set_ylabel("bonus")
    else:
        # From zero up: what looks dark in every panel is what the data is to be.
        top = max(float(slice_.scores.max()), 1e-9)
        shades = axes.pcolormesh(*slice_.axes, slice_.scores, cmap="viridis", vmin=0.0, vmax=top, shading="gouraud")
        if slice_.scores.min() < slice_.scores.max():
            axes.contour(*slice_.axes, slice_.scores, levels=LEVELS, colors="white", linewidths=0.6, alpha=0.6)
        figure.colorbar(shades, ax=axes, label="bonus")
        axes.set_ylabel("second action")
    for (label, action), marker, colour in zip(slice_.marks.items(), "*oX", ("#FFFFFF", "#E69F00", "#D55E00"), strict=False):
        height = np.interp(action[0], slice_.axes[0], slice_.scores) if len(slice_.axes) == 1 else action[1]
        axes.plot(action[0], height, marker, color=colour, markeredgecolor="black", markersize=13, label=label, clip_on=False)

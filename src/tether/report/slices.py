"""The landscape of a bonus around one recorded action, or over the choices: is it one that an actor can follow?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tether.errors import TetherError
from tether.report.figures import COLOURS, name_panel, save_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEVELS = 12
IN_A_ROW = 3
MARKERS, MARK_COLOURS = "*oX", ("#FFFFFF", "#E69F00", "#D55E00")


@dataclass(frozen=True)
class Slice:
    """The bonus over the first two action dimensions (or the only one); the others stay as recorded.

    Of discrete actions: over all choices, at a few observations.
    """

    axes: list[np.ndarray]  # one or two: the values of each dimension; or the choices and the observations, by number
    bonus: np.ndarray  # (second, first), or (first,); or (observations, choices)
    marks: dict[str, np.ndarray]  # by what they are: the action to mark; or of each observation, the number of the choice
    discrete: bool = False


def draw_slices(slices: dict[str, Slice], path: Path | str, title: str, names: Sequence[str] = ()) -> None:
    """Write a panel for each bonus as a PNG. `names` are those of the actions, or of the choices, where they are known."""
    save_figure(slices_figure(slices, title, names), path)


def slices_figure(slices: dict[str, Slice], title: str, names: Sequence[str] = ()) -> Figure:
    from matplotlib.figure import Figure

    if not slices:
        raise TetherError("cannot draw bonuses: none was given")
    columns = min(IN_A_ROW, len(slices))
    rows = -(-len(slices) // columns)
    with style():
        figure = Figure(figsize=(1.0 + 4.2 * columns, 1.2 + 3.9 * rows), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes, (bonus, slice_) in zip(panels, slices.items(), strict=False):
            (_draw_choices if slice_.discrete else _draw)(figure, axes, slice_, names)
            name_panel(axes, bonus)
        for axes in panels[len(slices) :]:
            axes.set_visible(False)
        figure.suptitle(title)
        entries = {label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
        figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=3)
    return figure


def _draw(figure: Figure, axes: Axes, slice_: Slice, names: Sequence[str]) -> None:
    axes.grid(False)
    first, second = [*names, "first action", "second action"][:2] if len(names) != 1 else [names[0], ""]
    axes.set_xlabel(first)
    if len(slice_.axes) == 1:
        axes.plot(slice_.axes[0], slice_.bonus, color=COLOURS[0])
        axes.set_ylabel("bonus")
    else:
        # From zero up: what looks dark in every panel is what the data is to be.
        top = max(float(slice_.bonus.max()), 1e-9)
        shades = axes.pcolormesh(*slice_.axes, slice_.bonus, cmap="viridis", vmin=0.0, vmax=top, shading="gouraud")
        if slice_.bonus.min() < slice_.bonus.max():
            axes.contour(*slice_.axes, slice_.bonus, levels=LEVELS, colors="white", linewidths=0.6, alpha=0.6)
        figure.colorbar(shades, ax=axes, label="bonus")
        axes.set_ylabel(second)
    for (label, action), marker, colour in zip(slice_.marks.items(), MARKERS, MARK_COLOURS, strict=False):
        height = np.interp(action[0], slice_.axes[0], slice_.bonus) if len(slice_.axes) == 1 else action[1]
        axes.plot(action[0], height, marker, color=colour, markeredgecolor="black", markersize=13, label=label, clip_on=False)


def _draw_choices(figure: Figure, axes: Axes, slice_: Slice, names: Sequence[str]) -> None:
    choices, observations = slice_.axes
    axes.grid(False)
    shades = axes.pcolormesh(choices, observations, slice_.bonus, cmap="viridis", vmin=0.0, shading="nearest")
    figure.colorbar(shades, ax=axes, label="bonus")
    axes.locator_params(axis="x", integer=True)
    if len(names) == len(choices):
        axes.set_xticks(choices, names, rotation=30 if sum(map(len, names)) > 30 else 0)
    axes.set_yticks([])
    axes.set_xlabel("choice")
    axes.set_ylabel("observation")
    # Side by side, as all of them may mark the same choice.
    shift = 0.25 if len(slice_.marks) > 1 else 0.0
    places = np.linspace(-shift, shift, len(slice_.marks))
    for (label, chosen), place, marker, colour in zip(slice_.marks.items(), places, MARKERS, MARK_COLOURS, strict=False):
        axes.plot(chosen + place, observations, marker, color=colour, markeredgecolor="black", markersize=8, label=label)

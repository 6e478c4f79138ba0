"""Heatmaps of the gridworld of `tether theory`: what the data holds, and what each method makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tether.report.figures import GREY, save_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

WALL, ENDS = "#", ("G", "X")  # as the layout spells them
METHODS = ("optimum", "plain", "naive", "bootstrapped")


def draw_gridworld(found: dict[str, Any], path: Path | str) -> None:
    save_figure(gridworld_figure(found), path)


def gridworld_figure(found: dict[str, Any]) -> Figure:
    """Visits and smallest bonus of each cell; then value, greedy moves and the way they lead, for the optimum and each method."""
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    visits, bonus = np.sum(found["visits"], axis=-1), np.min(found["bonus"], axis=-1)
    with style():
        figure = Figure(figsize=(8.0, 7.8), layout="constrained")
        panels = figure.subplots(3, 2)
        counted = _draw_cells(panels[0, 0], found, np.maximum(visits, 0.5), "Blues", norm=LogNorm(0.5, max(visits.max(), 1)))
        known = _draw_cells(panels[0, 1], found, bonus, "Oranges", norm=LogNorm(bonus.min(), bonus.max()))
        for axes, values, form in ((panels[0, 0], visits, "{:.0f}"), (panels[0, 1], bonus, "{:.2g}")):
            for (row, column), value in zip(_cells(found), values, strict=True):
                axes.text(column + 0.05, row + 0.12, form.format(value), ha="center", va="center", fontsize=9)
        panels[0, 0].set_title(f"visits of {found['transitions']} transitions")
        panels[0, 1].set_title("smallest bonus of the state")
        largest = max(np.max(np.abs(found[method]["value"])) for method in METHODS)
        for axes, method in zip(panels[1:].ravel(), METHODS, strict=True):
            shown = _draw_cells(axes, found, np.asarray(found[method]["value"]), "RdYlBu", vmin=-largest, vmax=largest)
            _draw_moves(axes, found, found[method]["policy"])
            axes.set_title(f"{method}: worth {found[method]['worth']:.1f} at S")
        figure.colorbar(counted, ax=panels[0, 0], shrink=0.8)
        figure.colorbar(known, ax=panels[0, 1], shrink=0.8)
        figure.colorbar(shown, ax=panels[1:], shrink=0.6, label="value expected")
    return figure


def _cells(found: dict[str, Any]) -> list[tuple[int, int]]:
    return [(row, column) for row, line in enumerate(found["layout"]) for column, sign in enumerate(line) if sign != WALL]


def _draw_cells(axes: Axes, found: dict[str, Any], values: np.ndarray, colours: str, **scale: Any) -> AxesImage:
    from matplotlib.colors import ListedColormap

    layout = found["layout"]
    picture = np.full((len(layout), len(layout[0])), np.nan)
    for (row, column), value in zip(_cells(found), values, strict=True):
        picture[row, column] = value
    walls = np.where(np.isnan(picture), 1.0, np.nan)
    axes.imshow(walls, cmap=ListedColormap([GREY]))
    axes.set_xticks(np.arange(-0.5, len(layout[0])), [])
    axes.set_yticks(np.arange(-0.5, len(layout)), [])
    axes.tick_params(length=0)
    axes.grid(color="white", linewidth=1.0, alpha=1.0)
    for row, line in enumerate(layout):
        for column, sign in enumerate(line):
            if sign.isalpha():
                axes.text(column - 0.46, row - 0.3, sign, fontsize=9, fontweight="bold", ha="left", va="center")
    for spine in axes.spines.values():
        spine.set_visible(False)
    return axes.imshow(picture, cmap=colours, alpha=0.7, **scale)  # paler, so that what is written on it can be read


def _draw_moves(axes: Axes, found: dict[str, Any], policy: list[int]) -> None:
    """An arrow in each cell that can be left, and the way from S if no move slips."""
    layout, cells = found["layout"], _cells(found)
    for (row, column), action in zip(cells, policy, strict=True):
        if layout[row][column] not in ENDS:
            down, right = found["moves"][action]
            axes.annotate(
                "",
                (column + 0.32 * right, row + 0.32 * down),
                (column - 0.32 * right, row - 0.32 * down),
                arrowprops={"arrowstyle": "->", "color": "black", "linewidth": 1.3},
            )
    way = _way(found, policy)
    axes.plot([column for _, column in way], [row for row, _ in way], color="black", linewidth=5.0, alpha=0.25)


def _way(found: dict[str, Any], policy: list[int]) -> list[tuple[int, int]]:
    """The cells from S to where the moves end or begin to repeat."""
    layout, cells = found["layout"], _cells(found)
    way = [next(cell for cell in cells if layout[cell[0]][cell[1]] == "S")]
    while layout[way[-1][0]][way[-1][1]] not in ENDS:
        down, right = found["moves"][policy[cells.index(way[-1])]]
        after = (way[-1][0] + down, way[-1][1] + right)
        if after in way or after not in cells:
            break
        way.append(after)
    return way

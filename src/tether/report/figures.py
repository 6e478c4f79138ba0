"""What every figure of Tether shares: size, colours, and how it is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tether.storage import replacing

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette: distinct for every common form of colour blindness. Its yellow is left out, too pale on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
GREY = "#6E6E6E"

STYLE: dict[Any, Any] = {  # matplotlib types its keys as one literal of all their names
    "font.size": 12,
    "axes.titlesize": 13,
    "legend.fontsize": 11,
    "lines.linewidth": 2.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
}


@contextmanager
def style() -> Iterator[None]:
    """Sizes that stay legible when a page shows the figure at half its width."""
    import matplotlib

    with matplotlib.rc_context(STYLE):
        yield


def save_figure(figure: Figure, path: Path | str) -> None:
    """Write a PNG, whole or not at all."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with style(), replacing(path) as temporary:
        FigureCanvasAgg(figure).print_figure(temporary, format="png", dpi=150)


def legend_above(figure: Figure, handles: Sequence[Artist]) -> None:
    """A legend over all panels, in up to three columns, as many as fit: names of runs may be long."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    renderer = FigureCanvasAgg(figure).get_renderer()
    for number in range(min(3, len(handles)), 0, -1):
        legend = figure.legend(handles=handles, loc="outside upper center", ncols=number)
        if number == 1 or legend.get_window_extent(renderer).width <= figure.bbox.width:
            return
        legend.remove()


def name_panel(axes: Axes, bonus: str) -> None:
    """`rnd:steps=5000` as a title, each setting on a line of its own: on one they would run into the next panel."""
    axes.set_title(bonus.replace(":", "\n"))


def label_steps(axes: Axes) -> None:
    """Mark an axis of steps as 0, 10k, 20k, 1M."""
    from matplotlib.ticker import FuncFormatter

    axes.set_xlabel("gradient steps")
    axes.set_xlim(left=0.0)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda step, _: spell_steps(step)))


def spell_steps(step: float) -> str:
    """500, 10k, 2.5M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if step >= size:
            return f"{step / size:g}{letter}"
    return f"{step:g}"

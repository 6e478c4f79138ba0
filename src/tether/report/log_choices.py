"""The part of the page about a log that is about choices: how often each was taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tether.data.dataset import Dataset
from tether.report.figures import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_SHOWN = 24  # in the figure
MOST_NAMED = 5  # in a remark


def choice_shares(dataset: Dataset) -> np.ndarray:
    """(A,) the share of rows that each choice has."""
    return np.asarray(np.mean(dataset.transitions.action, axis=0, dtype=np.float64))


def choice_remarks(dataset: Dataset, names: tuple[str, ...], unexplained: float) -> list[str]:
    remarks = []
    never = [name for name, share in zip(names, choice_shares(dataset), strict=True) if share == 0]
    if never:
        more = f" and {len(never) - MOST_NAMED} more" if len(never) > MOST_NAMED else ""
        remarks.append(f"{', '.join(never[:MOST_NAMED])}{more}: never chosen, so the log does not show what it leads to")
    if unexplained < 0.01:
        remarks.append("the choice is all but determined by the observations, so the log shows nothing else that could be done")
    return remarks


def choice_lines(dataset: Dataset, names: tuple[str, ...]) -> list[list[str]]:
    lines = [["choice", "number", "rows", "share"]]
    for number, (name, share) in enumerate(zip(names, choice_shares(dataset), strict=True)):
        lines.append([name, str(number), f"{round(share * dataset.size):,}", f"{share:.1%}"])
    return lines


def draw_choices(axes: Axes, dataset: Dataset, names: tuple[str, ...]) -> None:
    """A bar for each, the first at the top; of very many, those taken most."""
    shares = choice_shares(dataset)
    shown = np.sort(np.argsort(-shares, kind="stable")[:MOST_SHOWN])
    bars = axes.barh([names[number] for number in shown], shares[shown], color=COLOURS[0], alpha=0.8)
    axes.bar_label(bars, labels=[f"{share:.1%}" for share in shares[shown]], padding=4)
    axes.invert_yaxis()
    axes.set_xlim(0.0, 1.2 * shares.max())  # room for the labels
    axes.set_xlabel("share of rows")
    hidden = len(names) - len(shown)
    axes.set_title("what was done" + (f" ({hidden} choices taken less often not shown)" if hidden else ""))
    axes.grid(visible=False, axis="y")

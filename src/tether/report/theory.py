"""What `tether theory` found, as a table and two figures. All is drawn from what is in `theory.json`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tether.report.figures import COLOURS, GREY, save_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

METHOD_COLOURS = {"plain": COLOURS[1], "naive": COLOURS[3], "bootstrapped": COLOURS[0]}
METHODS = tuple(METHOD_COLOURS)
EXTRAPOLATIONS = {
    "uniform": "anything possible",
    "highest": "the most possible",
    "zero": "nothing",
    "once": "anything possible, counted as seen once",
}
FLOOR = 1e-17  # an error of exactly zero has no place on a logarithmic axis


def statement_lines(statements: list[dict[str, Any]]) -> list[list[str]]:
    """For a table: statement, MDPs tried, largest error."""
    return [
        ["statement", "MDPs", "largest error", "tolerance", "holds"],
        *(
            [
                found["statement"],
                f"{found['mdps']:,}",
                f"{found['largest_error']:.1e}",
                f"{found['tolerance']:.0e}",
                "yes" if found["holds"] else "NO",
            ]
            for found in statements
        ),
    ]


def offline_lines(found: dict[str, Any]) -> list[list[str]]:
    """For a table: what each method loses at the middle size, at the middle weight and at the best one for it in hindsight."""
    weights, middle = found["sizes"]["bonus_weights"], found["sizes"]["middle_weight"]
    row_of = found["sizes"]["episodes"].index(found["sizes"]["middle_episodes"])
    lines = [["unseen pairs; weight", *METHODS]]
    for name, label in EXTRAPOLATIONS.items():
        regret = {method: found["by_extrapolation"][name][row_of][method]["regret"] for method in METHODS}
        best = {method: int(np.argmin(regret[method]["mean"])) for method in METHODS[1:]}
        lines.append([f"{label}; {middle:g}", *(_plus_minus(regret[method], weights.index(middle)) for method in METHODS)])
        cells = [f"{_plus_minus(regret[method], index)} at {weights[index]:g}" for method, index in best.items()]
        lines.append([f"{label}; each its best", _plus_minus(regret["plain"], 0), *cells])
    return lines


def _plus_minus(summary: dict[str, list[float]], index: int) -> str:
    return f"{summary['mean'][index]:.2f} ± {summary['error'][index]:.2f}"


def draw_convergence(found: dict[str, Any], path: Path | str) -> None:
    save_figure(convergence_figure(found), path)


def draw_offline(found: dict[str, Any], path: Path | str) -> None:
    save_figure(offline_figure(found), path)


def convergence_figure(found: dict[str, Any]) -> Figure:
    """Above, the error of both forms over iterations; below, the distance of the regularised form from its limit."""
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(8.0, 8.4), layout="constrained")
        over_iterations, over_temperatures = figure.subplots(2, 1)
        _draw_iterations(over_iterations, found)
        _draw_temperatures(over_temperatures, found)
    return figure


def _draw_iterations(axes: Axes, found: dict[str, Any]) -> None:
    steps = np.arange(len(found["iterations"]["naive"]["median"]))
    _draw_spread(axes, steps, found["iterations"]["naive"], METHOD_COLOURS["naive"], "naive: error", linewidth=4.0)
    _draw_spread(axes, steps, found["iterations"]["bootstrapped"], METHOD_COLOURS["bootstrapped"], "bootstrapped: error")
    first = max(found["iterations"][name]["largest"][0] for name in ("naive", "bootstrapped"))
    axes.plot(steps, first * found["discount"] ** steps, color=GREY, linestyle="-.", label=r"$\gamma^k$ times the first")
    _draw_spread(axes, steps, found["iterations"]["difference"], COLOURS[2], "from one start: $|Q'_k - Q_k - b|$")
    axes.set_yscale("log")
    axes.set_ylim(1e-17, 10.0 * first)
    axes.set_xlim(0, len(steps) - 1)
    axes.set_xlabel("iteration $k$")
    axes.set_ylabel("largest error of $Q_k$")
    axes.set_title(f"both forms reach the optimum of $r - b$; median of {found['mdps']:,} MDPs, thin: largest")
    axes.legend(loc="upper right")


def _draw_temperatures(axes: Axes, found: dict[str, Any]) -> None:
    labels = {"shared": "several actions share the smallest bonus", "distinct": "one action has it"}
    for (name, label), colour in zip(labels.items(), (COLOURS[5], COLOURS[0]), strict=True):
        _draw_spread(axes, found["temperatures"], found["cold"][name], colour, label)
    axes.plot(found["temperatures"], found["bound"], color=GREY, linestyle="-.", label=r"$\tau\,\ln|A|\,\gamma/(1-\gamma)$")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(1e-17, 1e2)
    axes.set_xlim(found["temperatures"][-1], found["temperatures"][0])
    axes.set_xlabel(r"temperature $\tau$")
    axes.set_ylabel("largest difference of $Q$")
    axes.set_title("KL-regularised VI nears its limit, anti-exploration VI")
    axes.legend(loc="lower right")


def _draw_spread(axes: Axes, xs: Any, values: dict[str, list[float]], colour: str, label: str, linewidth: float = 2.0) -> None:
    """The median over MDPs, and thinly the largest."""
    axes.plot(xs, np.maximum(values["median"], FLOOR), color=colour, label=label, linewidth=linewidth)
    axes.plot(xs, np.maximum(values["largest"], FLOOR), color=colour, linewidth=1.0, alpha=0.7)


def offline_figure(found: dict[str, Any]) -> Figure:
    """What each method loses against the optimum and how much it overrates itself, over dataset size and over the weight."""
    from matplotlib.figure import Figure

    sizes, transitions = found["sizes"], found["transitions"]
    weight, size = sizes["bonus_weights"].index(sizes["middle_weight"]), sizes["episodes"].index(sizes["middle_episodes"])
    with style():
        figure = Figure(figsize=(8.0, 7.6), layout="constrained")
        panels = figure.subplots(2, 2, sharex="col", sharey="row")
        for row, what in enumerate(("regret", "overestimate")):
            _draw_methods(panels[row, 0], transitions, found["by_extrapolation"], what, np.s_[:, weight])
            _draw_methods(panels[row, 1], sizes["bonus_weights"], found["by_extrapolation"], what, np.s_[size, :])
        for axes in panels[0]:
            axes.axhline(found["behaviour_regret"]["mean"], color=GREY, linestyle="-.", label="the behaviour itself")
            axes.set_ylim(bottom=0.0)
        for axes in panels[1]:
            axes.axhline(0.0, color=GREY, linewidth=1.0)
            axes.set_yscale("symlog", linthresh=1.0)
            axes.set_yticks([-100, -10, -1, 0, 1, 10], ["-100", "-10", "-1", "0", "1", "10"])
        panels[0, 0].set_ylabel("value lost to the optimum")
        panels[1, 0].set_ylabel("value expected minus true")
        panels[1, 0].set_xlabel("transitions in the dataset")
        panels[1, 1].set_xlabel(r"bonus weight $\beta$")
        panels[0, 0].set_title(rf"$\beta$ = {sizes['middle_weight']:g}")
        panels[0, 1].set_title(f"{transitions[size]:,} transitions")
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=2)
    return figure


def _draw_methods(axes: Axes, xs: list[float], by_extrapolation: dict[str, Any], what: str, part: Any) -> None:
    """A line and a band of two standard errors for each method. `part` is taken from tables of size by weight."""

    def numbers(extrapolation: str, method: str, which: str) -> np.ndarray:
        return np.asarray([row[method][what][which] for row in by_extrapolation[extrapolation]])[part]

    for method, colour in METHOD_COLOURS.items():
        mean, error = (numbers("uniform", method, which) for which in ("mean", "error"))
        axes.plot(xs, mean, color=colour, marker="o", markersize=4, label=method)
        axes.fill_between(xs, mean - 2.0 * error, mean + 2.0 * error, color=colour, alpha=0.2, linewidth=0)
    label = "bootstrapped, unseen pairs counted as seen once"
    once = numbers("once", "bootstrapped", "mean")
    axes.plot(xs, once, color=METHOD_COLOURS["bootstrapped"], linestyle="--", linewidth=1.4, label=label)
    axes.set_xscale("log")

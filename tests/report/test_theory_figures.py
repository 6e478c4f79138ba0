"""The figures of the theory are the numbers of `theory.json`, and the page shows its table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes

from tether.report.gridworld import gridworld_figure
from tether.report.tables import markdown_lines
from tether.report.theory import convergence_figure, offline_figure, offline_lines, statement_lines

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def numbers() -> dict[str, Any]:
    return json.loads((ROOT / "results" / "theory" / "theory.json").read_text())


def line(axes: Axes, label: str) -> np.ndarray:
    return np.asarray(next(line for line in axes.lines if line.get_label() == label).get_xydata())


def test_the_table_says_what_was_tried_and_how_far_off_it_was():
    found = {"statement": "x = y", "mdps": 3000, "largest_error": 1.25e-13, "tolerance": 1e-9, "holds": True}
    assert statement_lines([found, found | {"holds": False}])[1:] == [
        ["x = y", "3,000", "1.2e-13", "1e-09", "yes"],
        ["x = y", "3,000", "1.2e-13", "1e-09", "NO"],
    ]


def test_methods_are_compared_at_one_weight_and_at_the_best_for_each():
    sizes = {"bonus_weights": [0.3, 1.0], "middle_weight": 0.3, "episodes": [1, 4], "middle_episodes": 4}
    regret = {"plain": [2.0, 2.0], "naive": [2.5, 3.0], "bootstrapped": [1.0, 0.5]}
    row = {method: {"regret": {"mean": mean, "error": [0.25, 0.125]}} for method, mean in regret.items()}
    found = {"sizes": sizes, "by_extrapolation": {name: [{}, row] for name in ("uniform", "highest", "zero", "once")}}
    assert offline_lines(found)[:3] == [
        ["unseen pairs; weight", "plain", "naive", "bootstrapped"],
        ["anything possible; 0.3", "2.00 ± 0.25", "2.50 ± 0.25", "1.00 ± 0.25"],
        ["anything possible; each its best", "2.00 ± 0.25", "2.50 ± 0.25 at 0.3", "0.50 ± 0.12 at 1"],
    ]


def test_the_page_shows_the_tables_of_the_committed_numbers(numbers: dict[str, Any]):
    page = (ROOT / "docs" / "theory.md").read_text()
    assert markdown_lines(statement_lines(numbers["statements"])) in page
    assert markdown_lines(offline_lines(numbers["offline"])) in page
    assert all(found["holds"] for found in numbers["statements"])
    assert min(found["mdps"] for found in numbers["statements"]) >= 1000


def test_convergence_is_drawn_as_measured(numbers: dict[str, Any]):
    found = numbers["convergence"]
    over_iterations, over_temperatures = convergence_figure(found).axes
    for name in ("naive", "bootstrapped"):
        np.testing.assert_allclose(line(over_iterations, f"{name}: error")[:, 1], found["iterations"][name]["median"])
    limit = line(over_iterations, r"$\gamma^k$ times the first")
    assert limit[10, 1] == pytest.approx(limit[0, 1] * 0.9**10)
    shared = line(over_temperatures, "several actions share the smallest bonus")
    np.testing.assert_allclose(shared, np.transpose([found["temperatures"], found["cold"]["shared"]["median"]]))


def test_offline_learning_is_drawn_over_size_and_over_weight(numbers: dict[str, Any]):
    found = numbers["offline"]
    over_size, over_weight, below_size, _ = offline_figure(found).axes
    rows = found["by_extrapolation"]["uniform"]
    weight, size = found["sizes"]["bonus_weights"].index(0.3), found["transitions"].index(320)
    for method in ("plain", "naive", "bootstrapped"):
        regret = [row[method]["regret"]["mean"][weight] for row in rows]
        np.testing.assert_allclose(line(over_size, method), np.transpose([found["transitions"], regret]))
        np.testing.assert_allclose(line(over_weight, method)[:, 1], rows[size][method]["regret"]["mean"])
        over = [row[method]["overestimate"]["mean"][weight] for row in rows]
        np.testing.assert_allclose(line(below_size, method)[:, 1], over)


def test_the_gridworld_is_drawn_cell_by_cell(numbers: dict[str, Any]):
    found = numbers["gridworld"]
    visits, bonus, *values = gridworld_figure(found).axes[:6]
    picture = np.asarray(visits.images[1].get_array())
    assert picture.shape == (5, 7)
    assert picture[4, 6] == np.sum(found["visits"][-1])  # the goal is the last state
    assert np.asarray(bonus.images[1].get_array())[4, 6] == np.min(found["bonus"][-1])
    for axes, method in zip(values, ("optimum", "plain", "naive", "bootstrapped"), strict=True):
        shown = np.ma.getdata(axes.images[1].get_array())
        np.testing.assert_allclose(shown[~np.isnan(shown)], found[method]["value"])
        assert np.isnan(shown[2, 1])  # a wall
        assert f"{found[method]['worth']:.1f}" in axes.get_title()


def test_the_way_is_drawn_until_it_ends_or_repeats():
    # S . G: going right reaches G; with the middle cell turned back, the way ends there.
    facts = {"layout": ["S.G"], "moves": [[-1, 0], [0, 1], [1, 0], [0, -1]], "transitions": 3}
    facts |= {"visits": [[0, 1, 0, 0]] * 3, "bonus": [[2.0, 1.0, 2.0, 2.0]] * 2 + [[0.5] * 4]}
    there, back = [1, 1, 0], [1, 3, 0]
    found = facts | {
        method: {"value": [0.5, 0.5, 2.0], "policy": policy, "worth": 0.5}
        for method, policy in (("optimum", there), ("plain", back), ("naive", back), ("bootstrapped", there))
    }
    ways = [np.asarray(axes.lines[0].get_xydata()).tolist() for axes in gridworld_figure(found).axes[2:6]]
    whole, cut = [[0, 0], [1, 0], [2, 0]], [[0, 0], [1, 0]]
    assert ways == [whole, cut, cut, whole]

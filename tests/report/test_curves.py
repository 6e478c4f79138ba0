"""The lines of the learning curves are the numbers of the run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg

from tether.errors import TetherError
from tether.report.curves import curves_figure, draw_curves
from tether.runs.reading import Run

MakeRun = Callable[..., Run]


def lines(axes: Axes) -> list[list[list[float]]]:
    return [np.asarray(line.get_xydata()).tolist() for line in axes.lines]


def test_scores_bonuses_and_values_are_drawn_as_measured(make_run: MakeRun):
    scores, values, bonuses = curves_figure([make_run(env_id=None)]).axes
    assert scores.get_ylabel() == "return"
    assert lines(scores) == [[[1000, 200], [2000, 600]]]
    band = np.asarray(scores.collections[0].get_paths()[0].vertices)
    assert {(1000, 100), (1000, 300), (2000, 400), (2000, 800)} <= {tuple(corner) for corner in band.tolist()}
    assert bonuses.get_ylabel() == "bonus"
    assert lines(bonuses) == [[[1000, 0.4], [2000, 0.2]], [[1000, 0.2], [2000, 0.1]]]
    assert values.get_ylabel() == "Q-value"
    curve, limit = values.lines
    assert np.asarray(curve.get_xydata()).tolist() == [[1000, 10], [2000, 20]]
    np.testing.assert_allclose(np.asarray(limit.get_ydata(), float), 100.0)  # 1 / (1 - 0.99)
    assert values.texts[0].get_text().endswith("= 0.99")  # runs of two discounts have two limits


def test_the_datas_own_return_is_a_line(make_run: MakeRun):
    dataset = {"name": "log", "sha256": "0", "env_id": None, "score": {"mean": 250.0, "std": 1.0}}
    scores = curves_figure([make_run(result={"score_unit": "return", "dataset": dataset})]).axes[0]
    np.testing.assert_allclose(np.asarray(scores.lines[0].get_ydata(), float), 250.0)
    assert scores.texts[0].get_text() == "the data's own"


def test_scores_are_normalised_only_if_every_run_can_be(make_run: MakeRun):
    evaluations = [{"step": 5, "evaluation": {"online": {"returns": [3234.3, -20.272305]}}}]
    known, unknown = make_run(evaluations=evaluations), make_run("b", evaluations=evaluations, env_id=None)
    scores = curves_figure([known]).axes[0]
    assert scores.get_ylabel() == "normalised score"
    np.testing.assert_allclose(lines(scores), [[[5, 50]]])
    both = curves_figure([known, unknown]).axes[0]
    assert both.get_ylabel() == "return"
    np.testing.assert_allclose(lines(both), [[[5, 1607.0138475]]] * 2)


def test_the_scores_are_of_the_policy_that_is_asked_for(make_run: MakeRun):
    """Returns of 500 twice, then of 600 and 700; the run's own policy had means of 200 and 600."""
    assert lines(curves_figure([make_run(env_id=None)], policy="target").axes[0]) == [[[1000, 500], [2000, 650]]]
    with pytest.raises(TetherError, match=r"has no policy targte; did you mean target\?"):
        curves_figure([make_run("b")], policy="targte")


def test_runs_are_told_apart_by_colour_and_named_in_the_legend(make_run: MakeRun):
    figure = curves_figure([make_run("a"), make_run("b")], labels=["with", "without"])
    first, second = figure.axes[0].lines
    assert first.get_color() != second.get_color()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["with", "without", "actor bonus", "critic bonus"]
    assert [line.get_color() for line in figure.axes[2].lines] == [first.get_color(), second.get_color()] * 2


def test_long_names_take_more_lines_of_the_legend_and_stay_in_the_picture(make_run: MakeRun):
    runs = [make_run("a"), make_run("b"), make_run("c")]
    for labels, columns in ((["a", "b", "c"], 3), (["halfcheetah-medium-expert/tethered-density/longer"] * 3, 2)):
        figure = curves_figure(runs, labels)
        (legend,) = figure.legends
        renderer = FigureCanvasAgg(figure).get_renderer()
        assert legend.get_window_extent(renderer).width <= figure.bbox.width
        assert legend._ncols == columns


def test_a_run_without_critic_or_bonus_has_one_panel(make_run: MakeRun):
    figure = curves_figure([make_run(training=[{"step": 1000, "actor/loss": 0.3}])])
    assert len(figure.axes) == 1
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["hopper-s0"]


def test_a_bonus_of_zero_is_not_drawn(make_run: MakeRun):
    training = [{"step": step, "critic/q": 1.0, "critic/bonus": 0.0, "actor/bonus": 0.0} for step in (1, 2)]
    assert [axes.get_ylabel() for axes in curves_figure([make_run(training=training)]).axes] == ["normalised score", "Q-value"]


@pytest.mark.parametrize(("values", "scale"), [([10.0, 90.0], "linear"), ([10.0, 1e9], "symlog"), ([-1e9, 10.0], "symlog")])
def test_a_diverged_critic_does_not_flatten_the_others(make_run: MakeRun, values: list[float], scale: str):
    axes = curves_figure([make_run(training=[{"step": step, "critic/q": value} for step, value in enumerate(values)])]).axes[1]
    assert axes.get_yscale() == scale
    low, high = axes.get_ylim()
    assert low <= min(values)
    assert high >= max(values)


def test_a_bonus_that_falls_far_is_drawn_on_a_logarithmic_axis(make_run: MakeRun):
    training = [{"step": step, "actor/bonus": bonus} for step, bonus in ((1, 1.0), (2, 0.01))]
    assert curves_figure([make_run(training=training)]).axes[1].get_yscale() == "log"
    assert curves_figure([make_run("b")]).axes[2].get_yscale() == "linear"


@pytest.mark.parametrize("kind", ["whole", "empty", "nan"])
def test_the_file_is_a_picture_and_nothing_else_is_left(make_run: MakeRun, tmp_path: Path, kind: str):
    bad = [{"step": 1, "critic/q": float("nan"), "actor/bonus": float("inf")}]
    run = {
        "whole": lambda: make_run(),
        "empty": lambda: make_run(training=[], evaluations=[], config={}, finished=False),
        "nan": lambda: make_run(training=bad),
    }[kind]()
    draw_curves([run], tmp_path / "out" / "curves.png")
    assert (tmp_path / "out" / "curves.png").read_bytes().startswith(b"\x89PNG\r\n")
    assert [entry.name for entry in (tmp_path / "out").iterdir()] == ["curves.png"]


def test_no_runs_is_an_error(tmp_path: Path):
    with pytest.raises(TetherError, match="there are no runs to draw"):
        draw_curves([], tmp_path / "curves.png")
    assert list(tmp_path.iterdir()) == []

"""The landscape of a bonus: a map for two action dimensions, a line for one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tether.errors import TetherError
from tether.report.slices import Slice, draw_slices, slices_figure

AXIS = np.linspace(-1.0, 1.0, 5)
MARKS = {"recorded action": np.array([0.5, -0.5, 0.1]), "behaviour cloning": np.array([0.0, 0.0, 0.0])}
MAP = Slice([AXIS, AXIS], np.add.outer(AXIS**2, AXIS**2), MARKS)
LINE = Slice([AXIS], AXIS**2, {"recorded action": np.array([0.5])})


def test_a_panel_for_each_bonus_with_its_marks_where_the_actions_are():
    figure = slices_figure({"one": MAP, "two:steps=5:bits=9": LINE}, "title")
    first, second = (axes for axes in figure.axes if axes.get_title())
    assert [axes.get_title() for axes in (first, second)] == ["one", "two\nsteps=5\nbits=9"]
    marks = {line.get_label(): line.get_xydata()[0].tolist() for line in first.lines}
    assert marks == {"recorded action": [0.5, -0.5], "behaviour cloning": [0.0, 0.0]}
    assert second.lines[1].get_xydata()[0].tolist() == [0.5, 0.25]  # on the line
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["recorded action", "behaviour cloning"]


def test_a_flat_bonus_can_be_drawn(tmp_path: Path):
    draw_slices({"flat": Slice([AXIS, AXIS], np.full((5, 5), 2.0), MARKS)}, tmp_path / "slices.png", "flat")
    assert (tmp_path / "slices.png").read_bytes().startswith(b"\x89PNG")


def test_nothing_to_draw_is_said():
    with pytest.raises(TetherError, match="none was given"):
        slices_figure({}, "")


def test_choices_are_a_row_for_each_observation_with_the_marks_side_by_side():
    marks = {"recorded action": np.array([0, 1]), "behaviour cloning": np.array([0, 0])}
    choices = Slice([np.arange(3), np.arange(2)], np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 1.0]]), marks, discrete=True)
    axes = slices_figure({"one": choices}, "title").axes[0]
    np.testing.assert_array_equal(axes.collections[0].get_array(), choices.bonus)
    recorded, cloned = axes.lines
    np.testing.assert_allclose(recorded.get_xydata(), [[-0.25, 0.0], [0.75, 1.0]])
    np.testing.assert_allclose(cloned.get_xydata(), [[0.25, 0.0], [0.25, 1.0]])


def test_axes_have_the_names_of_the_columns():
    (first, *_), (line, *_) = (
        slices_figure({"one": one}, "", names).axes for one, names in ((MAP, ["a [N]", "b"]), (LINE, ["a"]))
    )
    assert (first.get_xlabel(), first.get_ylabel(), line.get_xlabel()) == ("a [N]", "b", "a")
    choices = Slice([np.arange(2), np.arange(2)], np.eye(2), {"recorded action": np.array([0, 1])}, discrete=True)
    axes = slices_figure({"one": choices}, "", ["shut", "open"]).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["shut", "open"]

"""The histograms of a bonus hold every pair, over common bins."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.patches import StepPatch

from tether.errors import TetherError
from tether.report.histograms import draw_bonus_histograms, histogram_figure


def outlines(scores: dict[str, np.ndarray]) -> dict[str, StepPatch]:
    axes = histogram_figure(scores, "title").axes[0]
    return {str(patch.get_label()): patch for patch in axes.patches if isinstance(patch, StepPatch) and not patch.get_fill()}


def test_shares_of_each_kind_add_up_to_one_over_common_bins():
    drawn = outlines({"data": np.array([0.0, 0.0, 0.0, 8.0]), "uniform": np.array([8.0, 8.0])})
    assert list(drawn) == ["data", "uniform"]
    data, uniform = drawn["data"].get_data(), drawn["uniform"].get_data()
    np.testing.assert_array_equal(data.edges, uniform.edges)
    assert (data.values[0], data.values[-1], data.values.sum()) == (0.75, 0.25, 1.0)
    assert (uniform.values[-1], uniform.values.sum()) == (1.0, 1.0)


def test_far_outliers_are_counted_in_the_last_bin_and_do_not_stretch_the_axis():
    scores = np.append(np.linspace(1.0, 2.0, 9999), 1e9)
    data = outlines({"data": scores})["data"].get_data()
    assert data.edges[-1] < 2.1
    np.testing.assert_allclose(data.values.sum(), 1.0)


@pytest.mark.parametrize(
    ("data", "uniform", "scale"),
    [
        (np.array([0.01, 0.02, 0.03]), np.array([1.0, 2.0, 3.0]), "log"),
        (np.array([0.5, 1.0, 1.5]), np.array([1.0, 2.0, 3.0]), "linear"),
        (np.zeros(3), np.array([1.0, 2.0, 3.0]), "linear"),  # zero has no logarithm
        (np.zeros(3), np.zeros(3), "linear"),
    ],
)
def test_the_axis_is_logarithmic_where_kinds_are_far_apart(data: np.ndarray, uniform: np.ndarray, scale: str):
    axes = histogram_figure({"data": data, "uniform": uniform}, "CVAE, hopper").axes[0]
    assert axes.get_xscale() == scale
    assert axes.get_title() == "CVAE, hopper"


def test_the_file_is_a_picture(tmp_path: Path):
    generator = np.random.default_rng(0)
    kinds = {kind: generator.chisquare(3, 100) for kind in ("data", "shuffled", "uniform", "noise 0.1", "noise 0.5")}
    draw_bonus_histograms(kinds, tmp_path / "bonus.png", "CVAE")
    assert (tmp_path / "bonus.png").read_bytes().startswith(b"\x89PNG\r\n")


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ({}, "no values were given"),
        ({"data": np.ones(2), "uniform": np.array([])}, "the bonus of uniform: no values"),
        ({"data": np.array([1.0, np.nan])}, "the bonus of data: not all are finite"),
    ],
)
def test_scores_that_cannot_be_drawn_are_an_error(tmp_path: Path, scores: dict[str, np.ndarray], message: str):
    with pytest.raises(TetherError, match=message):
        draw_bonus_histograms(scores, tmp_path / "bonus.png", "CVAE")
    assert list(tmp_path.iterdir()) == []

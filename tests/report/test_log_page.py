"""The page about a log: its numbers are worked by hand, its remarks appear only where there is reason to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tether.data import Dataset
from tether.data.tables.episodes import RowFindings
from tether.data.tables.importing import ColumnFacts, Imported
from tether.report.log_choices import choice_lines
from tether.report.log_page import action_coverage, action_histogram, find_remarks, log_figure, write_log_page
from tether.types import Batch, Spec, discrete_spec


def log(action: np.ndarray, observation: np.ndarray | None = None) -> Dataset:
    """Two episodes of equal length, actions between -1 and 1."""
    rows = len(action)
    observation = np.random.default_rng(0).normal(size=(rows, 2)) if observation is None else observation
    columns = (observation, action, np.ones(rows), observation, np.zeros(rows))
    ends = np.array([rows // 2, rows])
    return Dataset(
        transitions=Batch(*(column.astype(np.float32) for column in columns)),
        truncated=np.isin(np.arange(rows), ends - 1),
        episode_ends=ends,
        episode_returns=np.array([1.0, 2.0]),
        spec=Spec(observation.shape[1], (-1.0,) * action.shape[1], (1.0,) * action.shape[1]),
        name="log",
        env_id=None,
        sha256="0" * 64,
    )


def imported(*columns: ColumnFacts, **found) -> Imported:
    attributes = {"provenance": {"parents": [{"name": "log.csv", "sha256": "abc"}]}}
    empty = Batch(*(np.zeros(0),) * 5)
    return Imported(
        empty,
        np.zeros(0),
        Spec(1, (-1.0,), (1.0,)),
        attributes,
        list(columns),
        RowFindings(rows_read=10, **found),
        ["rows are in order"],
    )


def fact(name: str, role: str = "observation", low: float = -1.0, high: float = 1.0, std: float = 1.0, unit: str | None = None):
    return ColumnFacts(name, role, "double", unit, low, 0.0, high, std)


ACTION = fact("act", "action", unit="N")


def test_the_histogram_counts_by_twentieths_of_the_range():
    shares = action_histogram(log(np.array([[-1.0], [-0.95], [0.0], [1.0]])))
    assert shares.shape == (1, 20)
    np.testing.assert_allclose(shares[0, [0, 10, 19]], [0.5, 0.25, 0.25])


def test_what_the_observations_determine_is_explained():
    observation = np.random.default_rng(1).uniform(-1, 1, (2000, 1))
    linear, bent = 0.5 * observation, np.sign(observation) * np.sqrt(np.abs(observation)) * np.where(observation > 0, 1, -1)
    noise = np.random.default_rng(2).uniform(-1, 1, (2000, 1))
    found = action_coverage(log(np.hstack([linear, bent, noise]), observation))
    assert found[0]["unexplained"] == pytest.approx(0.0, abs=1e-6)
    assert found[1]["unexplained"] < 0.01  # no line fits |x|, its neighbours do
    assert found[2]["unexplained"] == pytest.approx(1.0, abs=0.1)
    assert [entry["range_seen"] for entry in found] == [0.5, pytest.approx(0.5, abs=0.05), 1.0]


def test_nothing_is_remarked_where_nothing_is_wrong():
    dataset = log(np.random.default_rng(0).uniform(-1, 1, (100, 1)))
    assert find_remarks(imported(fact("x"), ACTION), dataset, action_coverage(dataset)) == []


def test_rewards_that_scaling_would_turn_round_are_told():
    """Two episodes that end, of 30 and 70 steps, each of which costs 1 and the last one 2: to [0, 1], 1 a step and then 0."""
    dataset = log(np.random.default_rng(0).uniform(-1, 1, (100, 1)))
    reward, ends = -np.ones(100, np.float32), np.array([30, 100])
    reward[ends - 1] = -2.0
    terminated = (reward == -2.0).astype(np.float32)
    dataset = replace(dataset, transitions=dataset.transitions._replace(reward=reward, terminated=terminated), episode_ends=ends)
    assert find_remarks(imported(fact("x"), ACTION), dataset, action_coverage(dataset)) == []  # nothing shifts rewards here
    dataset = replace(dataset, env_id="Hopper-v5")  # on the paper's tasks its map does
    (remark,) = find_remarks(imported(fact("x"), ACTION), dataset, action_coverage(dataset))
    assert remark.startswith("mapping the rewards of log to [0, 1] turns the order of episodes round (rank correlation -1.00)")
    choices = replace(dataset, transitions=dataset.transitions._replace(reward=np.ones(100, np.float32)))
    assert find_remarks(imported(fact("x"), ACTION), choices, action_coverage(choices)) == []


def test_every_finding_has_its_remark():
    dataset = log(np.zeros((10, 1)))
    dataset = replace(dataset, notes=replace(dataset.notes, action_entries_clipped=3))
    found = imported(
        fact("x", std=1.0),
        fact("rpm", std=5000.0),
        fact("act", "action", 0.0, 0.0, 0.0),
        incomplete_dropped=1,
        duplicates_dropped=2,
        repeats=4,
        reordered=5,
        median_step=0.05,
        gaps=6,
        longest_gap=3.0,
        longest_gap_at="log.csv, row 7",
        after_end=8,
        lone=9,
    )
    remarks = "\n".join(find_remarks(found, dataset, action_coverage(dataset)))
    for text in (
        "1 incomplete rows dropped",
        "2 rows repeat another of their time",
        "4 rows equal the one before",
        "5 rows were not in the order of their time",
        "6 gaps in time (the longest 3, before log.csv, row 7; a usual step is 0.05); bridged as one step",
        "8 rows come after a terminated row",
        "9 episodes of a single row",
        "3 action entries lie outside the bounds",
        "action act is always 0",
        "differ by a factor of 5,000",
        "act: all but determined by the observations",
    ):
        assert text in remarks


def test_the_page_has_its_numbers_and_its_figure(tmp_path: Path):
    dataset = log(np.random.default_rng(0).uniform(-1, 1, (100, 1)))
    page, figure = tmp_path / "log.report.md", tmp_path / "log.report.png"
    write_log_page(imported(fact("x"), ACTION), dataset, page, figure)
    text = page.read_text()
    for expected in (
        "100 transitions in 2 episodes, from 10 rows of 1 file.",
        "log.report.png",
        "Nothing stood out",
        "rows are in order",
        "act [N]",
        "log.csv",
    ):
        assert expected in text
    assert figure.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("actions", "observations"), [(1, 1), (6, 3), (30, 3)])
def test_the_figure_shows_few_actions_and_many(actions: int, observations: int):
    random = np.random.default_rng(0)
    dataset = log(random.uniform(-1, 1, (50, actions)), random.normal(size=(50, observations)))
    panels = log_figure(dataset, [f"act_{index}" for index in range(actions)]).axes
    done = next(axes for axes in panels if axes.get_title().startswith("what was done"))
    assert ("6 more actions not shown" in done.get_title()) == (actions == 30)
    assert len(done.images) == (actions == 30)


def choices_log(numbers: np.ndarray, observation: np.ndarray | None = None) -> Dataset:
    return replace(log(np.eye(3)[numbers], observation), spec=discrete_spec(2, 3))


def test_choices_are_counted_and_those_never_taken_are_told():
    dataset = choices_log(np.array([0, 2, 2, 2] * 25))
    assert choice_lines(dataset, ("shut", "half", "open")) == [
        ["choice", "number", "rows", "share"],
        ["shut", "0", "25", "25.0%"],
        ["half", "1", "0", "0.0%"],
        ["open", "2", "75", "75.0%"],
    ]
    about = replace(imported(ACTION), choices=("shut", "half", "open"))
    remarks = find_remarks(about, dataset, action_coverage(dataset))
    assert remarks == ["half: never chosen, so the log does not show what it leads to"]


def test_a_choice_that_follows_from_the_observation_is_told():
    numbers = np.array([0, 1, 2, 1] * 25)
    dataset = choices_log(numbers, np.stack([numbers == 0, numbers == 1], axis=1))
    about = replace(imported(ACTION), choices=("shut", "half", "open"))
    (remark,) = find_remarks(about, dataset, action_coverage(dataset))
    assert remark.startswith("the choice is all but determined")


def test_the_page_of_choices_has_a_bar_and_a_line_for_each(tmp_path: Path):
    dataset = choices_log(np.array([0, 2, 2, 2] * 25))
    figure = log_figure(dataset, ["valve"], ("shut", "half", "open"))
    actions = figure.axes[2]
    assert [text.get_text() for text in actions.get_yticklabels()] == ["shut", "half", "open"]
    assert [round(bar.get_width(), 2) for bar in actions.patches] == [0.25, 0.0, 0.75]
    about = replace(imported(ACTION), choices=("shut", "half", "open"))
    write_log_page(about, dataset, tmp_path / "page.md", tmp_path / "page.png")
    page = (tmp_path / "page.md").read_text()
    assert "range seen" not in page
    assert all(word in page for word in ("shut", "half", "open", "75.0%"))

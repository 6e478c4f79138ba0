"""The picture of methods on tasks shows the numbers of the statistics, and nothing in the place of what is not known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tether import cli
from tether.report.intervals import intervals_figure
from tether.report.statistics import Scores

# Two seeds on two tasks: means 15 and 45 for ours, 1 and 2 for theirs; over both 30 and 1.5.
OURS, THEIRS = np.array([[10.0, 40.0], [20.0, 50.0]]), np.array([[0.0, 2.0], [2.0, 2.0]])
SCORES = Scores(("hopper", "walker"), {"theirs": THEIRS, "ours": OURS})


def panels():
    figure = intervals_figure(SCORES, {"walker": 33.0}, "normalised score")
    return figure, [axis for axis in figure.axes if axis.get_visible()]


def lines_of(axis) -> list[tuple[list[float], list[float]]]:
    return [(list(map(float, line.get_xdata())), list(map(float, line.get_ydata()))) for line in axis.lines]


def test_a_panel_for_all_tasks_comes_first_then_each_with_the_best_method_on_top():
    figure, shown = panels()
    assert [axis.get_title() for axis in shown] == ["interquartile mean of 2", "hopper", "walker"]
    assert [label.get_text() for label in shown[0].get_yticklabels()] == ["theirs", "ours"]  # from the bottom up
    assert "normalised score" in figure.get_supxlabel()


def test_means_seeds_and_the_data_s_own_score_are_where_they_belong():
    _, (over_all, hopper, walker) = panels()
    interval, seeds, mean = lines_of(hopper)[3:]
    assert interval == ([10.0, 20.0], [1.0, 1.0])  # of two seeds, from the worst to the best
    assert seeds == ([10.0, 20.0], [1.0, 1.0])
    assert mean == ([15.0], [1.0])
    assert len(lines_of(hopper)) == 6  # its data's score is not known
    assert lines_of(walker)[-1][0] == [33.0, 33.0]
    assert lines_of(over_all)[4] == ([], [])  # single runs say nothing over several tasks
    assert lines_of(over_all)[5] == ([30.0], [1.0])


def test_one_task_has_one_panel():
    alone = Scores(("pen",), {name: values[:, :1] for name, values in SCORES.by_method.items()})
    assert [axis.get_title() for axis in intervals_figure(alone, {}, "return").axes] == ["pen"]


def test_the_command_draws_what_it_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    runs = Path(__file__).parents[2] / "results" / "proof" / "pen-expert"
    folders = [str(runs / "bc-none" / "cloning"), str(runs / "td3-bc-none" / "td3-bc")]
    assert cli.main(["report", *folders, "--intervals", str(tmp_path / "pen.png")]) == 0
    assert capsys.readouterr().out.endswith("pen.png: bc-none, td3-bc-none on pen-expert\n")
    assert (tmp_path / "pen.png").read_bytes().startswith(b"\x89PNG")
    assert cli.main(["report", *folders, "--csv", "--intervals", str(tmp_path / "pen.png")]) == 2
    assert "each the whole answer" in capsys.readouterr().err

"""Statistics over tasks and seeds, on scores whose answers are worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tether import cli
from tether.errors import TetherError
from tether.report import statistics
from tether.report.gathered import group_runs
from tether.report.statistics import (
    Scores,
    collect_scores,
    improvements,
    interquartile_means,
    middle_half,
    performance_profiles,
    profile_lines,
    statistics_lines,
    task_lines,
    task_means,
)
from tether.runs.reading import Run


@pytest.fixture(autouse=True)
def fewer_resamples(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(statistics, "RESAMPLES", 100)


def make(make_run: Callable[..., Run], agent: str, task: str, seed: int, last: float, unit: str = "normalised") -> Run:
    config = {"agent": {"name": agent}, "bonus": {"name": "none"}, "seed": seed, "evaluation": {"policy": "online"}}
    score = {"last": {"mean": last, "std": 1.0}, "last_ten": {"mean": last / 10, "std": 1.0}}
    result = {"dataset": {"name": task, "env_id": None}, "score": score, "score_by_policy": {"online": score}, "score_unit": unit}
    return make_run(name=f"{agent}/{task}/s{seed}", config=config, result=result)


def test_an_interval_is_the_same_whoever_else_is_compared():
    """The resamples of one method must not depend on how many came before it."""
    random = np.random.default_rng(0)
    one, two, three = (random.normal(size=(5, 4)) for _ in range(3))
    few, many = Scores(tuple("abcd"), {"two": two, "one": one}), Scores(tuple("abcd"), {"three": three, "one": one, "two": two})
    for statistic in (interquartile_means, task_means):
        assert {name: statistic(many)[name] for name in ("one", "two")} == statistic(few)
    assert improvements(many)["one", "two"] == improvements(few)["one", "two"]
    thresholds = np.array([-1.0, 0.0, 1.0])
    found = [performance_profiles(scores, thresholds)[1]["one"] for scores in (few, many)]
    np.testing.assert_array_equal(*found)


# Scores


def test_scores_are_seeds_by_tasks_and_what_is_not_used_is_said(make_run: Callable[..., Run]):
    runs = [make(make_run, "bc", "hopper", seed, 10.0 + seed) for seed in (0, 1, 2)]
    runs += [make(make_run, "bc", "walker", seed, 20.0 + seed) for seed in (0, 1)]
    runs += [make(make_run, "td3", task, 5, value) for task, value in (("hopper", 1.0), ("walker", 2.0), ("pen", 3.0))]
    scores = collect_scores(group_runs(runs))
    assert scores.tasks == ("hopper", "walker")
    np.testing.assert_array_equal(scores.by_method["bc-none"], [[10.0, 20.0], [11.0, 21.0]])
    np.testing.assert_array_equal(scores.by_method["td3-none"], [[1.0, 2.0]])
    assert scores.left_out == [
        "pen: not every method has a run on it",
        "bc-none: seeds beyond 2 a task, 1 in all; some tasks have no more",
    ]
    assert collect_scores(group_runs(runs), "last_ten").by_method["td3-none"].tolist() == [[0.1, 0.2]]


def test_the_lowest_of_the_last_five_evaluations_is_by_their_means(make_run: Callable[..., Run]):
    """Means by evaluation: 0, 5, 4, 2, 3, 6. The first is the sixth from the end; the lowest single episode is another's."""
    returns = [[0.0, 0.0], [5.0, 5.0], [0.0, 8.0], [2.0, 2.0], [3.0, 3.0], [6.0, 6.0]]
    evaluations = [{"step": step, "evaluation": {"online": {"returns": mine}}} for step, mine in enumerate(returns)]
    run = replace(make(make_run, "bc", "hopper", 0, 6.0), evaluations=evaluations)
    assert collect_scores(group_runs([run]), "lowest_of_five").by_method["bc-none"].tolist() == [[2.0]]
    short = replace(run, evaluations=evaluations[:2])
    assert collect_scores(group_runs([short]), "lowest_of_five").by_method["bc-none"].tolist() == [[0.0]]
    with pytest.raises(TetherError, match=r"was not evaluated, so it has no score$"):
        collect_scores(group_runs([replace(run, evaluations=[])]), "lowest_of_five")


def test_what_cannot_be_compared_is_refused(make_run: Callable[..., Run]):
    hopper, walker = (make(make_run, "bc", task, 0, 1.0, "return") for task in ("hopper", "walker"))
    with pytest.raises(TetherError, match=r"^returns of different tasks have no common mean; .* need normalised scores$"):
        collect_scores(group_runs([hopper, walker]))
    assert collect_scores(group_runs([hopper])).tasks == ("hopper",)  # of one task, returns do
    with pytest.raises(TetherError, match=r"^no task has a run of each of bc-none, td3-none; there is nothing to compare$"):
        collect_scores(group_runs([hopper, make(make_run, "td3", "pen", 0, 1.0)]))
    with pytest.raises(TetherError, match=r"^there is no score 'first'; there is: last, last_ten, best, lowest_of_five$"):
        collect_scores(group_runs([hopper]), "first")
    twin = make_run(name="bc/hopper/s7", config=hopper.config, result=hopper.result)
    with pytest.raises(TetherError, match=r"another run of bc-none on hopper has seed 0 too; name folders that hold one setting"):
        collect_scores(group_runs([hopper, twin]))


def test_settings_of_one_method_are_compared_by_their_folders(make_run: Callable[..., Run]):
    runs = []
    for task in ("hopper", "walker"):
        for variant, last in (("plain", 1.0), ("scaled", 2.0)):
            plain = make(make_run, "bc", task, 0, last)
            runs.append(make_run(name=f"{task}/bc-none/{variant}/s0", config=plain.config, result=plain.result))
        runs.append(
            make_run(name=f"{task}/td3-none/s0", config=(td3 := make(make_run, "td3", task, 0, 3.0)).config, result=td3.result)
        )
    scores = collect_scores(group_runs(runs))
    assert {name: values.tolist() for name, values in scores.by_method.items()} == {
        "plain": [[1.0, 1.0]],
        "scaled": [[2.0, 2.0]],
        "td3-none": [[3.0, 3.0]],
    }


# Numbers


def test_the_interquartile_mean_is_of_the_middle_half():
    pytest.importorskip("rliable")
    # 1 to 8 over two tasks: the middle half is 3, 4, 5, 6, whose mean is 4.5. Eight equal scores leave no doubt.
    scores = Scores(("a", "b"), {"x": np.array([[1.0, 5], [2, 6], [3, 7], [4, 8]]), "y": np.full((4, 2), 7.0)})
    found = interquartile_means(scores)
    assert found["x"].value == 4.5
    assert 1 <= found["x"].low < 4.5 < found["x"].high <= 8
    assert (found["y"].value, found["y"].low, found["y"].high) == (7.0, 7.0, 7.0)
    assert interquartile_means(scores) == found  # the same runs, the same interval


def test_the_probability_of_improvement_counts_pairs_of_runs_task_by_task():
    pytest.importorskip("rliable")
    # Task a: of (2, 4) against (1, 3), three of four pairs are won: 2 > 1, 4 > 1, 4 > 3. Task b: none of four. (3/4 + 0) / 2.
    scores = Scores(("a", "b"), {"x": np.array([[2.0, 0], [4, 0]]), "y": np.array([[1.0, 9], [3, 9]])})
    found = improvements(scores)
    assert found["x", "y"].value == pytest.approx(0.375)
    assert found["y", "x"].value == pytest.approx(0.625)
    assert improvements(Scores(("a",), {"x": np.zeros((2, 1))})) == {}


def test_tables_have_the_best_method_first():
    pytest.importorskip("rliable")
    methods, pairs = statistics_lines(Scores(("a",), {"x": np.full((3, 1), 1.0), "y": np.full((3, 1), 2.0)}))
    assert methods[1:] == [["y", "1 x 3", "2.0 [2.0, 2.0]", "2.0"], ["x", "1 x 3", "1.0 [1.0, 1.0]", "1.0"]]
    assert pairs[1:] == [["y than x", "1.00 [1.00, 1.00]"]]


def test_one_seed_has_no_interval():
    pytest.importorskip("rliable")
    scores = Scores(("a", "b"), {"x": np.array([[1.0, 4.0]]), "y": np.array([[2.0, 6.0], [2.0, 8.0]])})
    methods, pairs = statistics_lines(scores)
    assert methods[2][2] == "2.5 [one seed: not known]"
    assert [line[1] for line in pairs[1:]] == ["1.00"]
    # The middle half of 1, 2, 4, 9 is 2 and 4. Of 6 and 8 resampled, the mean is 6, 7 or 8.
    assert middle_half(np.array([[9.0], [1.0], [4.0], [2.0]])).tolist() == [3.0]
    assert task_lines(scores) == [["task", "x", "y"], ["a", "1.0", "2.0 [2.0, 2.0]"], ["b", "4.0", "7.0 [6.0, 8.0]"]]


def test_profiles_count_the_runs_above_a_threshold():
    pytest.importorskip("rliable")
    # Of 10, 20, 30, 40 a half is above 20, and none above 40. Eight resampled seeds of one value have no doubt.
    scores = Scores(("a", "b"), {"x": np.array([[10.0, 30], [20, 40]]), "y": np.full((2, 2), 25.0), "z": np.array([[0.0, 5.0]])})
    thresholds, profiles = performance_profiles(scores, np.array([0.0, 20.0, 40.0]))
    assert thresholds.tolist() == [0.0, 20.0, 40.0]
    np.testing.assert_array_equal(profiles["x"].share, [1.0, 0.5, 0.0])
    assert 0.25 <= profiles["x"].low[1] <= 0.5 <= profiles["x"].high[1] <= 0.75
    np.testing.assert_array_equal([profiles["y"].low, profiles["y"].high], [[1.0, 1.0, 0.0]] * 2)
    lines = profile_lines(scores)
    assert [line[0] for line in lines] == ["runs above", "0", "10", "20", "30"]
    assert lines[3][2:] == ["1.00 [1.00, 1.00]", "0.00"]  # one seed has no interval


def test_the_command_prints_all_tables(make_run: Callable[..., Run], tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("rliable")
    for agent, value in (("bc", 3.0), ("td3", 5.0)):
        for seed in (0, 1):
            make(make_run, agent, "hopper", seed, value)
    assert cli.main(["report", str(tmp_path), "--statistics", "--markdown"]) == 0
    out = capsys.readouterr().out
    assert "| td3-none | 1 x 2 |            5.0 [5.0, 5.0] |  5.0 |" in out
    assert "| td3-none than bc-none |  1.00 [1.00, 1.00] |" in out
    assert "| 4          | 0.00 [0.00, 0.00] | 1.00 [1.00, 1.00] |" in out
    assert out.endswith("of settings 0, as far as is recorded here\n")


def test_the_command_says_of_which_evaluations_its_numbers_are(
    make_run: Callable[..., Run], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    make(make_run, "bc", "hopper", 0, 3.0)  # its evaluations have returns of 200 and 600
    assert cli.main(["report", str(tmp_path), "--markdown", "--since", "2000"]) == 0
    out = capsys.readouterr().out
    assert "600.0 ± 200.0 | 600.0 ± 200.0 | 600.0 ± 200.0 (step 2,000)" in out
    assert "\nof evaluations since step 2,000 alone\n" in out
    assert cli.main(["report", str(tmp_path), "--since", "2000", "--until", "1000"]) == 2
    assert "turn the two round" in capsys.readouterr().err


def test_without_the_package_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "rliable", None)
    with pytest.raises(TetherError, match=r"needs the package rliable; pip install 'tether-rl\[stats\]' brings it$"):
        interquartile_means(Scores(("a",), {"x": np.zeros((2, 1))}))

"""What Q-values promised beside what episodes were worth: means by hand, and what is drawn."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tether.cli import main
from tether.errors import TetherError
from tether.report.promises import find_promises, promise_lines, promises_figure


def evaluation(step: int, values: list[float], worth: list[float]) -> dict:
    online = {"returns": [1.0, 2.0], "lengths": [1, 2], "values": values, "discounted_returns": worth}
    return {"step": step, "evaluation": {"online": online, "target": {"returns": [1.0, 2.0]}}}


@pytest.fixture
def groups(make_run):
    first = [evaluation(1000, [10.0, 20.0], [8.0, 8.0]), evaluation(2000, [2000.0, 4000.0], [7.0, 9.0])]
    second = [evaluation(1000, [30.0, 30.0], [4.0, 6.0]), evaluation(2000, [5000.0, 5000.0], [10.0, 10.0])]
    runs = [make_run("dqn/s0", evaluations=first), make_run("dqn/s1", evaluations=second)]
    return {"dqn": runs, "bc": [make_run("bc/s0")]}


def test_means_of_each_run_and_methods_that_tell_nothing_left_out(groups):
    found = find_promises(groups)
    assert list(found) == ["dqn"]
    np.testing.assert_array_equal(found["dqn"].steps, [1000, 2000])
    np.testing.assert_array_equal(found["dqn"].values, [[15, 3000], [30, 5000]])
    np.testing.assert_array_equal(found["dqn"].worth, [[8, 8], [5, 10]])
    # Last: 3,000 and 5,000 are 4,000 ± 1,000; 8 and 10 are 9 ± 1.
    assert promise_lines(found)[1] == ["dqn", "4000.0 ± 1000.0", "9.0 ± 1.0"]


def test_over_visited_states_every_step_counts_as_much(make_run):
    """An episode of one step worth 3 and one of two steps worth 6 each: (3 + 2 x 6) / 3."""
    record = evaluation(1000, [1.0, 1.0], [3.0, 8.0])
    record["evaluation"]["online"]["visited_returns"] = [3.0, 6.0]
    found = find_promises({"dqn": [make_run("dqn/s0", evaluations=[record])]})
    np.testing.assert_array_equal(found["dqn"].visited, [[5.0]])
    assert promise_lines(found)[1][-1] == "5.0 ± 0.0"


def test_rewards_scaled_in_different_ways_do_not_compare(make_run):
    def run(name: str, sha256: str, **scale):
        data = {"name": "log", "env_id": None, "sha256": sha256, "reward_scale": {"low": 0.0, "high": 2.0, **scale}}
        return make_run(name, evaluations=[evaluation(1000, [1.0, 1.0], [1.0, 1.0])], result={"dataset": data})

    before = run("td3/s0", "a")  # as an earlier version wrote it
    same = run("bc/s0", "a", keep_zero=False, unit=None)
    elsewhere = run("bc/s1", "b", keep_zero=True)
    assert list(find_promises({"td3": [before], "bc": [same], "other": [elsewhere]})) == ["td3", "bc", "other"]
    with pytest.raises(TetherError, match=r"td3/s0 and .*bc/s2 have rewards scaled in different ways"):
        find_promises({"td3": [before], "bc": [run("bc/s2", "a", keep_zero=True)]})


def test_the_figure_has_both_lines_and_the_most_possible(groups):
    figure = promises_figure(find_promises(groups), discount=0.99)
    (axes,) = figure.axes
    drawn = {line.get_linestyle(): line.get_ydata() for line in axes.lines}
    np.testing.assert_array_equal(drawn["-"], [22.5, 4000])
    np.testing.assert_array_equal(drawn["--"], [6.5, 9])
    np.testing.assert_allclose(drawn["-."], [100, 100])
    assert axes.get_yscale() == "symlog"  # beyond all reason, and still to be read


def test_small_values_are_not_drawn_beside_a_limit_far_above(make_run):
    run = make_run("dqn/s0", evaluations=[evaluation(1000, [2.0, -200.0], [1.0, 1.0])])
    (axes,) = promises_figure(find_promises({"dqn": [run]}), discount=0.99).axes
    assert {line.get_linestyle() for line in axes.lines} == {"-", "--"}
    assert axes.get_ylim()[1] < 10.0


def test_runs_that_tell_nothing_are_an_error(groups):
    with pytest.raises(TetherError, match="no run tells what its episodes were worth"):
        find_promises({"bc": groups["bc"]})
    with pytest.raises(TetherError, match="no run tells what its episodes were worth"):
        find_promises(groups, policy="target")


def test_a_method_without_values_still_tells_what_its_episodes_were_worth(groups, make_run):
    told = evaluation(1000, [], [3.0, 5.0])
    del told["evaluation"]["online"]["values"]
    found = find_promises(groups | {"bc": [make_run("bc/s1", evaluations=[told])]})
    assert promise_lines(found)[2] == ["bc", "", "4.0 ± 0.0"]
    _, axes = promises_figure(found, discount=0.99).axes
    assert "-" not in {line.get_linestyle() for line in axes.lines}


def test_the_command_draws_and_tells(groups, tmp_path, capsys):
    assert main(["report", str(tmp_path), "--values", str(tmp_path / "values.png")]) == 0
    assert (tmp_path / "values.png").read_bytes().startswith(b"\x89PNG")
    assert "4000.0 ± 1000.0" in capsys.readouterr().out


def test_values_of_different_discounts_are_not_set_side_by_side(groups, make_run, tmp_path, capsys):
    config = json.loads((tmp_path / "dqn" / "s0" / "config.json").read_text())
    config["agent"]["discount"] = 0.997
    make_run("far/s0", evaluations=[evaluation(1000, [1.0, 1.0], [1.0, 1.0])], config=config)
    assert main(["report", str(tmp_path), "--values", str(tmp_path / "values.png")]) == 2
    assert "discounts of 0.99 and 0.997, so their values do not compare" in capsys.readouterr().err

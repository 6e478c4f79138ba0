"""Datasets from arrays: what is made of them, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tether
from tether.data.info import describe
from tether.data.provenance import imported_columns
from tether.errors import TetherError

# Two episodes: three rows, the last of which terminates, and two rows that are cut.
GIVEN: dict[str, Any] = {
    "observations": [[0.0, 1.0], [1.0, 1.0], [2.0, 1.0], [5.0, 2.0], [6.0, 2.0]],
    "actions": [0.5, -0.5, 0.25, 0.0, 1.0],
    "rewards": [1.0, 2.0, 3.0, 4.0, 5.0],
    "terminated": [False, False, True, False, False],
    "episode_ends": [3, 5],
}


def make(**changed: Any) -> tether.Dataset:
    return tether.dataset(**GIVEN | changed)


def test_arrays_are_a_dataset():
    made = make()
    # The last row has no successor and is dropped; its reward still counts for the return.
    np.testing.assert_array_equal(made.transitions.observation, [[0, 1], [1, 1], [2, 1], [5, 2]])
    np.testing.assert_array_equal(made.transitions.next_observation, [[1, 1], [2, 1], [2, 1], [6, 2]])
    np.testing.assert_array_equal(made.transitions.action, [[0.5], [-0.5], [0.25], [0.0]])
    np.testing.assert_array_equal(made.transitions.terminated, [0, 0, 1, 0])
    assert (made.episode_ends.tolist(), made.episode_returns.tolist()) == ([3, 4], [6.0, 9.0])
    assert (made.spec, made.name, made.env_id) == (tether.Spec(2, (-1.0,), (1.0,)), "arrays", None)
    assert describe(made)["provenance"]["operation"] == "arrays"


def test_ends_may_be_flags_and_successors_may_be_given():
    flags = make(episode_ends=np.array([0, 0, 1, 0, 1]))
    assert flags.sha256 == make().sha256 != make(rewards=np.ones(5)).sha256
    whole = make(next_observations=np.array(GIVEN["observations"]) + 1.0)
    assert (whole.size, whole.transitions.next_observation[-1].tolist()) == (5, [7.0, 3.0])


def test_bounds_choices_and_the_environment():
    assert make(action_low=-2, action_high=[3]).spec == tether.Spec(2, (-2.0,), (3.0,))
    made = make(actions=np.array([0, 2, 1, 0, 2]), choices=3)
    assert (made.spec.discrete, made.spec.action_size) == (True, 3)
    np.testing.assert_array_equal(made.transitions.action[:2], [[1, 0, 0], [0, 0, 1]])
    assert make(env_id="Pendulum-v1").spec.action_high == (2.0,)


@pytest.mark.parametrize("largest", [np.inf, np.finfo(np.float32).max, 1e300])
def test_infinite_bounds_are_none(largest: float):
    made = make(action_low=-largest, action_high=largest)
    assert (made.spec.action_low, made.spec.action_high, made.notes.action_bounds) == ((-1.0,), (1.0,), "assumed")


def test_bounds_of_another_length_are_refused():
    for bounds in ((-1, [1, 2]), ("low", "high")):
        with pytest.raises(TetherError, match=r"action_low is .* each takes 1 numbers, or one for all"):
            make(action_low=bounds[0], action_high=bounds[1])


def test_a_dataframe_names_its_columns_and_a_file_keeps_them(tmp_path: Path):
    made = make(observations=pd.DataFrame(GIVEN["observations"], columns=["heat", "speed"]))
    tether.save_dataset(made, tmp_path / "made.hdf5")
    for dataset in (made, tether.load_dataset(tmp_path / "made.hdf5")):
        assert imported_columns(dataset.provenance) == {"observation": ["heat", "speed"]}
    policy = tether.train(tether.BC(hidden_sizes=(4, 4), batch_size=4), made, steps=10, epoch_steps=10)
    np.testing.assert_array_equal(policy({"speed": 2.0, "heat": 1.0}), policy([1.0, 2.0]))


def test_the_caller_s_arrays_are_left_alone():
    rewards = np.ones(5, np.float32)
    made = make(rewards=rewards)
    rewards[:] = 7.0
    assert made.transitions.reward.tolist() == [1.0] * 4


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rewards": [1.0]}, "rewards has 1 rows, observations has 5"),
        ({"terminated": [0, 1]}, "terminated has 2 rows, observations has 5"),
        ({"terminated": [0, 1, 2, 0, 0]}, "terminated has other values than 0 and 1, such as 2"),
        ({"rewards": [1, 2, np.nan, 4, np.inf]}, "rewards[2] is nan, expected finite numbers (2 are not)"),
        ({"observations": "hot"}, "observations is not made of numbers: could not convert string to float"),
        ({"observations": np.zeros((5, 2, 2))}, "observations has shape (5, 2, 2), expected (rows, numbers)"),
        ({"observations": np.zeros((0, 2))}, "observations has no rows"),
        ({"next_observations": np.zeros((5, 3))}, "next_observations has shape (5, 3), observations (5, 2)"),
        ({"actions": [0, 1, 0, 1, 0]}, "actions are whole numbers (int64); give choices=NUMBER if they are choices, or floats"),
        ({"actions": [0, 1, 0, 3, 0], "choices": 3}, "arrays: actions is 3 in row 3, expected a whole number from 0 to 2"),
        (
            {"choices": 3, "actions": np.zeros((5, 2))},
            "choices is 3 and actions has shape (5, 2); expected one whole number a row",
        ),
        ({"action_low": -1}, "give both action_low and action_high, or neither"),
        ({"action_low": 1, "action_high": 1}, "action_low is 1, action_high 1; each must be below the other"),
        (
            {"episode_ends": [3]},
            "episode_ends is [3]; it takes a flag for each of the 5 rows, or ascending numbers one past the last",
        ),
        ({"episode_ends": [5, 3]}, "episode_ends is [5 3]; it takes a flag for each of the 5 rows"),
        ({"env_id": "evil:Env-v0"}, "env_id is 'evil:Env-v0', expected the id of an environment such as Hopper-v4"),
    ],
)
def test_what_does_not_fit_is_one_message(changed: dict[str, Any], message: str):
    with pytest.raises(TetherError) as raised:
        make(**changed)
    assert str(raised.value).startswith(message)


def test_a_dataset_says_what_it_is():
    assert repr(make(env_id="Pendulum-v1", name="log")) == (
        "Dataset log: 4 transitions in 2 episodes of Pendulum-v1\n"
        "  observations: 2 numbers; actions: 1 numbers in [-2, 2]\n"
        "  return 7.5 ± 1.5; 1 episodes terminated, 1 were cut"
    )
    assert "actions: one of 3 choices" in repr(make(actions=np.array([0, 2, 1, 0, 2]), choices=3))

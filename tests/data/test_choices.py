"""Discrete actions in a file: declared, of a known environment, or refused; and images with their shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from tether.cli import main
from tether.data.files.d4rl import read_d4rl
from tether.data.rewards import RewardScale, normalise_rewards
from tether.errors import TetherError
from tether.types import Spec, discrete_spec, spec_from_json, spec_to_json


def with_attributes(path: Path, **attributes: Any) -> Path:
    with h5py.File(path, "a") as file:
        file.attrs.update(attributes)
    return path


CHOICES = np.array([2, 0, 0, 1])


@pytest.mark.parametrize("actions", [CHOICES, CHOICES[:, None], CHOICES.astype(np.uint8), CHOICES.astype(np.float64)])
def test_declared_choices_become_one_hot_rows(write_hdf5, actions):
    dataset = read_d4rl(with_attributes(write_hdf5(actions=actions), num_actions=4))
    expected = [[0, 0, 1, 0], [1, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]]
    np.testing.assert_array_equal(dataset.transitions.action, expected)
    assert dataset.transitions.action.dtype == np.float32
    assert dataset.spec == discrete_spec(2, 4)
    assert (dataset.notes.action_entries_clipped, dataset.notes.action_bounds) == (0, "environment")


def test_yes_and_no_are_two_choices(write_hdf5):
    dataset = read_d4rl(with_attributes(write_hdf5(actions=np.array([True, False, False, True])), num_actions=2))
    np.testing.assert_array_equal(dataset.transitions.action, np.eye(2)[[1, 0, 0, 1]])


def test_a_column_of_nothing_is_refused_as_before(write_hdf5):
    for actions in (h5py.Empty("i8"), np.array(3), np.zeros((0,), np.int64)):
        with pytest.raises(TetherError, match=r"log\.hdf5: actions has "):
            read_d4rl(write_hdf5(actions=actions))


def test_the_environment_says_how_many_there_are(write_hdf5):
    dataset = read_d4rl(write_hdf5(actions=np.array([0, 1, 1, 0]), env_id="CartPole-v1"))
    assert dataset.spec == discrete_spec(2, 2)


def test_choices_stored_as_floats_are_choices_where_the_environment_has_them(write_hdf5):
    actions = np.array([[0.0], [1.0], [1.0], [0.0]])
    dataset = read_d4rl(write_hdf5(actions=actions, env_id="CartPole-v1"))
    assert dataset.spec == discrete_spec(2, 2)
    np.testing.assert_array_equal(dataset.transitions.action, np.eye(2)[[0, 1, 1, 0]])
    with pytest.raises(TetherError, match=r"actions is 0\.5 in row 0, expected a whole number from 0 to 1"):
        read_d4rl(write_hdf5("half.hdf5", actions=actions + 0.5, env_id="CartPole-v1"))


def test_whole_numbers_of_a_continuous_environment_are_continuous(write_hdf5):
    dataset = read_d4rl(write_hdf5(actions=np.array([[0], [1], [-3], [3]]), env_id="InvertedPendulum-v5"))
    assert dataset.spec == Spec(2, (-3.0,), (3.0,))
    np.testing.assert_array_equal(dataset.transitions.action[:, 0], [0, 1, -3, 3])


@pytest.mark.parametrize("env_id", [None, "Unheard-Of-v0"])
@pytest.mark.parametrize("actions", [CHOICES, CHOICES[:, None]])
def test_whole_numbers_that_nothing_explains_are_refused(write_hdf5, actions, env_id):
    with pytest.raises(TetherError) as raised:
        read_d4rl(write_hdf5(actions=actions, env_id=env_id))
    assert str(raised.value) == (
        "log.hdf5: actions are whole numbers (int64), and nothing says how many there are to choose from; set the file's "
        "attribute num_actions, or its env_id, or store them as floats if they are continuous"
    )


@pytest.mark.parametrize(
    ("actions", "number", "message"),
    [
        ([0, 1, 3, 0], 3, "actions is 3 in row 2, expected a whole number from 0 to 2"),
        ([0, -1, 0, 0], 3, "actions is -1 in row 1, expected a whole number from 0 to 2"),
        ([0.0, 0.5, 0.0, 0.0], 3, "actions is 0.5 in row 1, expected a whole number from 0 to 2"),
        ([0.0, np.nan, 0.0, 0.0], 3, "actions has 1 NaN or Inf values, the first in row 1"),
        ([[0, 1]] * 4, 3, "actions has shape (4, 2) of int64, expected one whole number a row for a choice of 3 (num_actions)"),
        ([0, 1, 1, 0], 0, "attribute num_actions is 0, expected a whole number from 1 to 10,000"),
        ([0, 1, 1, 0], 2.5, "attribute num_actions is 2.5, expected a whole number from 1 to 10,000"),
        ([0, 1, 1, 0], "two", "attribute num_actions is 'two', expected a whole number from 1 to 10,000"),
    ],
)
def test_choices_that_cannot_be(write_hdf5, actions, number, message):
    with pytest.raises(TetherError) as raised:
        read_d4rl(with_attributes(write_hdf5(actions=np.array(actions)), num_actions=number))
    assert str(raised.value) == f"log.hdf5: {message}"


def test_images_are_flat_and_keep_their_shape(write_hdf5):
    observations = np.arange(4 * 12).reshape(4, 12) % 2
    path = write_hdf5(observations=observations, next_observations=observations, actions=CHOICES)
    dataset = read_d4rl(with_attributes(path, num_actions=3, observation_shape=[2, 3, 2]))
    assert dataset.spec == discrete_spec(12, 3, (2, 3, 2))
    assert dataset.transitions.observation.shape == (4, 12)


@pytest.mark.parametrize("shape", [[2, 3, 3], [12], [12, 1, 1, 1], [-2, -3, 2], [2.5, 3.0, 2.0]])
def test_an_image_shape_that_does_not_fit_is_refused(write_hdf5, shape):
    observations = np.zeros((4, 12))
    path = write_hdf5(observations=observations, next_observations=observations, actions=CHOICES)
    with pytest.raises(TetherError, match=r"attribute observation_shape is \(.*\), expected height, width and channels"):
        read_d4rl(with_attributes(path, num_actions=3, observation_shape=shape))


def test_info_speaks_of_choices(write_hdf5, capsys):
    path = with_attributes(write_hdf5(actions=CHOICES, rewards=np.ones(4)), num_actions=4)
    assert main(["data", "info", str(path)]) == 0
    said = capsys.readouterr().out
    assert "one of 4 choices" in said
    assert "nothing to learn" not in said  # a reward for every step is worth living for


# Specs in files


def test_a_spec_of_continuous_vectors_is_written_as_before_and_old_ones_are_read():
    old = {"observation_size": 3, "action_low": [-1.0], "action_high": [1.0]}
    assert spec_to_json(Spec(3, (-1.0,), (1.0,))) == old
    assert spec_from_json(old) == Spec(3, (-1.0,), (1.0,))


def test_a_spec_of_choices_survives_json():
    spec = discrete_spec(12, 3, (2, 3, 2))
    assert spec_from_json(spec_to_json(spec)) == spec
    assert hash(spec_from_json(spec_to_json(spec))) == hash(spec)


# Rewards


def test_rewards_of_choices_keep_their_zero(write_hdf5):
    path = with_attributes(write_hdf5(actions=CHOICES, rewards=np.array([-100.0, 0.0, 50.0, 25.0])), num_actions=3)
    scaled, scale = normalise_rewards(read_d4rl(path))
    np.testing.assert_allclose(scaled.transitions.reward, [-1.0, 0.0, 0.5, 0.25])
    assert scale == RewardScale(-100.0, 50.0, keep_zero=True)
    np.testing.assert_allclose(normalise_rewards(read_d4rl(path), "range")[0].transitions.reward, [0, 2 / 3, 1, 5 / 6], rtol=1e-6)


def test_a_constant_reward_is_one_where_zero_is_kept_and_nothing_where_it_is_not():
    assert RewardScale(1.0, 1.0, keep_zero=True).apply(np.ones(2)).tolist() == [1.0, 1.0]
    assert RewardScale(-2.0, -2.0, keep_zero=True).apply(np.full(2, -2.0)).tolist() == [-1.0, -1.0]
    assert RewardScale(0.0, 0.0, keep_zero=True).is_constant


def test_rewards_by_the_range_of_returns_and_as_they_are(write_hdf5):
    dataset = read_d4rl(write_hdf5())
    returns = dataset.episode_returns
    scaled, scale = normalise_rewards(dataset, "returns")
    assert scale.unit == pytest.approx((returns.max() - returns.min()) / 1_000.0)
    reward = np.asarray(dataset.transitions.reward, np.float64)
    np.testing.assert_allclose(scaled.transitions.reward, reward / scale.unit, rtol=1e-5)
    np.testing.assert_array_equal(normalise_rewards(dataset, "none")[0].transitions.reward, dataset.transitions.reward)
    with pytest.raises(TetherError, match=r"^reward_scaling is 'rnage'; it takes auto or range or divide or returns or none$"):
        normalise_rewards(dataset, "rnage")
    assert RewardScale(1.0, 1.0).is_constant

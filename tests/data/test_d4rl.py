"""D4RL files of every kind become the right transitions."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.data.files.d4rl import read_d4rl


def test_recorded_successors_are_used_as_they_are(write_hdf5):
    dataset = read_d4rl(write_hdf5())
    np.testing.assert_array_equal(dataset.transitions.next_observation, [[0, 1], [0, 2], [1, 1], [1, 2]])
    np.testing.assert_array_equal(dataset.transitions.terminated, [0, 1, 0, 0])
    np.testing.assert_array_equal(dataset.truncated, [False, False, False, True])
    np.testing.assert_array_equal(dataset.episode_ends, [2, 4])
    np.testing.assert_array_equal(dataset.episode_returns, [3.0, 7.0])
    assert (dataset.notes.rows_read, dataset.notes.rows_dropped, dataset.notes.successors) == (4, 0, "recorded")


def test_every_column_is_float32(write_hdf5):
    dataset = read_d4rl(write_hdf5(observations=np.arange(8.0).reshape(4, 2), actions=np.zeros((4, 2), dtype=np.int64)))
    assert [column.dtype for column in dataset.transitions] == [np.dtype(np.float32)] * 5


def test_shifted_successors_drop_the_end_of_a_timed_out_episode(write_hdf5):
    dataset = read_d4rl(write_hdf5(next_observations=None))
    np.testing.assert_array_equal(dataset.transitions.observation, [[0, 0], [0, 1], [1, 0]])
    # Row 1 terminated: nothing bootstraps from its successor, and its own observation stands in.
    np.testing.assert_array_equal(dataset.transitions.next_observation, [[0, 1], [0, 1], [1, 1]])
    np.testing.assert_array_equal(dataset.transitions.terminated, [0, 1, 0])
    np.testing.assert_array_equal(dataset.truncated, [False, False, True])
    np.testing.assert_array_equal(dataset.episode_ends, [2, 3])
    np.testing.assert_array_equal(dataset.episode_returns, [3.0, 7.0])  # the dropped row's reward of 4 included
    assert (dataset.notes.rows_read, dataset.notes.rows_dropped, dataset.notes.successors) == (4, 1, "shifted")


def test_unfinished_last_episode_is_kept_with_recorded_successors(write_hdf5):
    dataset = read_d4rl(write_hdf5(timeouts=[False] * 4))
    assert dataset.size == 4
    np.testing.assert_array_equal(dataset.truncated, [False, False, False, True])


def test_unfinished_last_episode_loses_its_last_row_with_shifted_successors(write_hdf5):
    dataset = read_d4rl(write_hdf5(timeouts=[False] * 4, next_observations=None))
    np.testing.assert_array_equal(dataset.transitions.observation, [[0, 0], [0, 1], [1, 0]])


def test_an_episode_of_which_no_row_is_left_is_no_episode(write_hdf5):
    dataset = read_d4rl(write_hdf5(next_observations=None, timeouts=[False, False, True, True]))
    # Rows 2 and 3 are episodes of one step each that do not terminate.
    np.testing.assert_array_equal(dataset.episode_ends, [2])
    np.testing.assert_array_equal(dataset.episode_returns, [3.0])


def test_terminal_and_timeout_at_once_is_terminated(write_hdf5):
    dataset = read_d4rl(write_hdf5(next_observations=None, timeouts=[False, True, False, True]))
    np.testing.assert_array_equal(dataset.transitions.terminated, [0, 1, 0])
    np.testing.assert_array_equal(dataset.truncated, [False, False, True])


def test_without_timeouts_an_episode_ends_where_the_next_row_does_not_continue_it(write_hdf5):
    dataset = read_d4rl(write_hdf5(timeouts=None, terminals=[False] * 4))
    # next_observations[1] is (0, 2), but observations[2] is (1, 0).
    np.testing.assert_array_equal(dataset.episode_ends, [2, 4])
    np.testing.assert_array_equal(dataset.truncated, [False, True, False, True])
    assert dataset.notes.episode_ends == "inferred"


def test_without_timeouts_and_successors_a_known_task_ends_at_its_horizon(write_hdf5):
    rows = 250  # pen has 100 steps: a terminal at row 29, cuts at rows 129 and 229, and an unfinished end
    terminals = np.arange(rows) == 29
    observations = np.arange(rows * 45, dtype=np.float32).reshape(rows, 45)
    columns = {"observations": observations, "actions": np.zeros((rows, 24)), "rewards": np.ones(rows), "terminals": terminals}
    dataset = read_d4rl(write_hdf5("pen-cloned-v0.hdf5", next_observations=None, timeouts=None, **columns))
    assert dataset.env_id == "AdroitHandPen-v1"
    np.testing.assert_array_equal(dataset.episode_returns, [30, 100, 100, 20])
    np.testing.assert_array_equal(dataset.episode_ends, [30, 129, 228, 247])
    assert (dataset.notes.rows_dropped, dataset.notes.episode_ends) == (3, "inferred")


def test_without_timeouts_successors_and_task_only_terminals_end_episodes(write_hdf5):
    dataset = read_d4rl(write_hdf5(next_observations=None, timeouts=None))
    np.testing.assert_array_equal(dataset.episode_ends, [2, 3])


def test_columns_of_shape_n_by_1_and_float_flags(write_hdf5):
    path = write_hdf5(rewards=[[1.0], [2.0], [3.0], [4.0]], terminals=[[0.0], [1.0], [0.0], [0.0]], timeouts=[0.0, 0.0, 0.0, 1.0])
    dataset = read_d4rl(path)
    np.testing.assert_array_equal(dataset.transitions.reward, [1, 2, 3, 4])
    np.testing.assert_array_equal(dataset.transitions.terminated, [0, 1, 0, 0])


def test_name_and_hash_are_those_of_the_file(write_hdf5):
    path = write_hdf5("my-log.hdf5")
    dataset = read_d4rl(path)
    assert (dataset.name, dataset.sha256) == ("my-log", hashlib.sha256(path.read_bytes()).hexdigest())


@pytest.mark.parametrize(
    ("name", "attribute", "expected"),
    [
        ("log.hdf5", None, None),
        ("log.hdf5", "Hopper-v5", "Hopper-v5"),
        ("log.hdf5", np.bytes_(b"Hopper-v5"), "Hopper-v5"),
        ("log.hdf5", "Nowhere-v0", "Nowhere-v0"),  # kept, though Gymnasium has none
        ("hopper_medium_expert-v2.hdf5", None, "Hopper-v4"),
        ("hopper_medium-v2.hdf5", "Hopper-v5", "Hopper-v5"),
    ],
)
def test_environment_is_the_attribute_or_guessed_from_the_name(write_hdf5, name, attribute, expected):
    observations, actions = np.zeros((4, 11)), np.zeros((4, 3))
    path = write_hdf5(name, attribute, observations=observations, next_observations=observations, actions=actions)
    assert read_d4rl(path).env_id == expected


def test_environment_is_not_guessed_when_the_sizes_differ(write_hdf5):
    assert read_d4rl(write_hdf5("hopper_medium-v2.hdf5")).env_id is None


def test_actions_outside_the_bounds_of_the_task_are_clipped_and_counted(write_hdf5):
    actions = np.zeros((4, 3))
    actions[0] = [-1.5, 0.5, 1.25]
    observations = np.zeros((4, 11))
    path = write_hdf5("hopper.hdf5", observations=observations, next_observations=observations, actions=actions)
    dataset = read_d4rl(path)
    np.testing.assert_array_equal(dataset.transitions.action[0], [-1.0, 0.5, 1.0])
    assert (dataset.notes.action_entries_clipped, dataset.notes.action_bounds) == (2, "environment")


def test_bounds_of_an_environment_outside_the_table_come_from_gymnasium(write_hdf5):
    dataset = read_d4rl(write_hdf5(env_id="InvertedPendulum-v5"))
    assert (dataset.spec.action_low, dataset.spec.action_high) == ((-3.0,), (3.0,))


def test_bounds_of_an_unknown_environment_are_assumed(write_hdf5):
    dataset = read_d4rl(write_hdf5(env_id="Nowhere-v0"))
    assert (dataset.spec.action_low, dataset.spec.action_high, dataset.notes.action_bounds) == ((-1.0,), (1.0,), "assumed")


def test_recorded_bounds_that_are_infinite_are_none(write_hdf5):
    path = write_hdf5(env_id="Unknown-v0")
    for largest in (np.inf, np.finfo(np.float32).max):
        with h5py.File(path, "a") as file:
            file.attrs["action_low"], file.attrs["action_high"] = [-largest], [largest]
        dataset = read_d4rl(path)
        assert (dataset.spec.action_low, dataset.notes.action_bounds) == ((-1.0,), "assumed")


def test_bounds_of_an_unknown_environment_with_larger_actions_are_measured(write_hdf5):
    dataset = read_d4rl(write_hdf5(actions=[[-4.0, 5.0], [0.0, 5.0], [6.0, 5.0], [0.0, 5.0]]))
    # The range -4 to 6 is widened by 1 % of 10 on each side; a constant action gets a range of its own.
    np.testing.assert_allclose(dataset.spec.action_low, [-4.1, 4.999], rtol=1e-6)
    np.testing.assert_allclose(dataset.spec.action_high, [6.1, 5.001], rtol=1e-6)
    assert (dataset.notes.action_bounds, dataset.notes.action_entries_clipped) == ("measured", 0)


_ENDS = st.lists(st.sampled_from(["goes on", "terminal", "timeout", "both"]), min_size=1, max_size=40)


@settings(deadline=None, max_examples=60)
@given(ends=_ENDS)
def test_shifted_successors_never_cross_an_episode(ends):
    """Observations are (episode, step), so a successor must be (same episode, step + 1)."""
    terminals = np.array([end in ("terminal", "both") for end in ends])
    timeouts = np.array([end in ("timeout", "both") for end in ends])
    observations, episode, step = [], 0, 0
    for end in ends:
        observations.append((episode, step))
        episode, step = (episode, step + 1) if end == "goes on" else (episode + 1, 0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.hdf5"
        with h5py.File(path, "w") as file:
            file["observations"] = np.array(observations, dtype=np.float32)
            file["actions"] = np.zeros((len(ends), 1), dtype=np.float32)
            file["rewards"] = np.ones(len(ends), dtype=np.float32)
            file["terminals"] = terminals
            file["timeouts"] = timeouts
        lost = sum(end == "timeout" for end in ends) + (ends[-1] == "goes on")
        if lost == len(ends):
            return  # nothing to learn from; test_bad_files has the message
        dataset = read_d4rl(path)
    rows = dataset.transitions
    goes_on = rows.terminated == 0
    np.testing.assert_array_equal(rows.next_observation[goes_on], rows.observation[goes_on] + [0, 1])
    assert dataset.notes.rows_dropped == lost == len(ends) - dataset.size
    assert rows.terminated.sum() == terminals.sum()
    for start, end in zip(dataset.episode_starts, dataset.episode_ends, strict=True):
        assert len(set(rows.observation[start:end, 0])) == 1
        assert not rows.terminated[start : end - 1].any()
        assert dataset.truncated[end - 1] != rows.terminated[end - 1]


@pytest.mark.parametrize(
    ("name", "env_id", "kept", "episodes", "successors"),
    [
        ("hopper_medium", "Hopper-v4", 524, 2, "shifted"),
        ("hopper_random-v1", "Hopper-v4", 50, 2, "recorded"),
        ("hopper_medium_replay-v1", "Hopper-v4", 49, 2, "recorded"),
        ("hopper_medium-v2", "Hopper-v4", 911, 2, "recorded"),
        ("halfcheetah_medium-v2", "HalfCheetah-v4", 2000, 2, "recorded"),
        ("pen-human-v0", "AdroitHandPen-v1", 198, 2, "shifted"),
        ("pen-human-v1", "AdroitHandPen-v1", 398, 2, "shifted"),
        ("pen-cloned-v1", "AdroitHandPen-v1", 198, 2, "shifted"),
        ("pen-expert-v1", "AdroitHandPen-v1", 198, 2, "shifted"),
        ("door-human-v1", "AdroitHandDoor-v1", 598, 2, "shifted"),
        ("door-expert-v0", "AdroitHandDoor-v1", 398, 2, "shifted"),
    ],
)
def test_real_d4rl_files(shared_data, name, env_id, kept, episodes, successors):
    dataset = read_d4rl(shared_data / "d4rl_excerpts" / f"{name}.hdf5")
    assert (dataset.env_id, dataset.size, len(dataset.episode_ends)) == (env_id, kept, episodes)
    assert dataset.notes.successors == successors
    assert dataset.notes.rows_dropped == dataset.truncated.sum() * (successors == "shifted")
    inner = np.setdiff1d(np.arange(dataset.size), dataset.episode_ends - 1)
    np.testing.assert_array_equal(dataset.transitions.next_observation[inner], dataset.transitions.observation[inner + 1])


def test_missing_timeouts_of_a_real_file_are_inferred_as_they_were_recorded(shared_data, tmp_path):
    path = shared_data / "d4rl_excerpts" / "halfcheetah_medium-v2.hdf5"
    with h5py.File(path) as whole, h5py.File(tmp_path / path.name, "w") as part:
        for column in ("observations", "actions", "rewards", "terminals", "next_observations"):
            whole.copy(column, part)
    np.testing.assert_array_equal(read_d4rl(tmp_path / path.name).episode_ends, read_d4rl(path).episode_ends)


def test_human_demonstrations_leave_the_bounds(shared_data):
    dataset = read_d4rl(shared_data / "sets" / "door-human.hdf5")
    assert (dataset.notes.rows_read, dataset.notes.rows_dropped, len(dataset.episode_ends)) == (6729, 25, 25)
    assert round(dataset.notes.action_entries_clipped / (6729 * 28), 3) == 0.056
    assert np.abs(dataset.transitions.action).max() == 1.0

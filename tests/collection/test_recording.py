"""Recorded rows, worked by hand on an environment that only counts."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.spaces import Box

from tether.collection.recording import Recorder, Recording, joined, noisy, step_all, uniform
from tether.types import Batch, Spec


class Counting:
    """Observation: episode and step. Reward: the step. Even episodes terminate after 3 steps, odd ones time out after 2."""

    observation_space = Box(-np.inf, np.inf, (2,), dtype=np.float64)
    action_space = Box(-1.0, 1.0, (1,), dtype=np.float32)

    def __init__(self) -> None:
        self.episode = -1
        self.actions: list[np.ndarray] = []

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, dict]:
        self.episode, self.count = self.episode + 1, 0
        return self._observe(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.actions.append(action)
        self.count += 1
        even = self.episode % 2 == 0
        return self._observe(), float(self.count), even and self.count == 3, self.count == (3 if even else 2), {}

    def _observe(self) -> np.ndarray:
        return np.array([self.episode, self.count], dtype=np.float64)


@pytest.fixture
def seven_rows() -> Recording:
    """An episode that terminates, one that times out, and two rows of a third."""
    recorder = Recorder(Counting(), rows=7, seed=0)  # type: ignore[arg-type]
    for row in range(7):
        recorder.step(np.array([0.1 * row]))
    return recorder.finish()


def test_rows_are_recorded_in_order(seven_rows: Recording):
    transitions = seven_rows.transitions
    np.testing.assert_array_equal(transitions.observation, [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [2, 0], [2, 1]])
    np.testing.assert_array_equal(transitions.reward, [1, 2, 3, 1, 2, 1, 2])
    np.testing.assert_allclose(np.ravel(transitions.action), [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6], rtol=1e-6)
    assert all(column.dtype == np.float32 for column in transitions)


def test_the_successor_of_an_ended_episode_is_its_own_last_observation(seven_rows: Recording):
    np.testing.assert_array_equal(
        seven_rows.transitions.next_observation, [[0, 1], [0, 2], [0, 3], [1, 1], [1, 2], [2, 1], [2, 2]]
    )


def test_termination_time_limit_and_cut_are_kept_apart(seven_rows: Recording):
    # The first episode both terminates and runs into its limit, which counts as terminated; the last one is cut.
    np.testing.assert_array_equal(seven_rows.transitions.terminated, [0, 0, 1, 0, 0, 0, 0])
    np.testing.assert_array_equal(seven_rows.truncated, [False, False, False, False, True, False, True])


def test_returns_are_of_episodes(seven_rows: Recording):
    np.testing.assert_array_equal(seven_rows.episode_returns, [6.0, 3.0, 3.0])


def test_a_recording_that_ends_with_its_episode_is_not_cut():
    recorder = Recorder(Counting(), rows=3, seed=0)  # type: ignore[arg-type]
    for _ in range(3):
        recorder.step(np.zeros(1))
    assert not recorder.finish().truncated.any()


def test_the_environment_gets_the_action_that_is_recorded():
    environment = Counting()
    recorder = Recorder(environment, rows=1, seed=0)  # type: ignore[arg-type]
    recorder.step(np.array([0.1]))  # not a float32
    assert environment.actions[0] == recorder.finish().transitions.action[0]


def test_rows_of_a_recording_still_running():
    recorder = Recorder(Counting(), rows=5, seed=0)  # type: ignore[arg-type]
    for _ in range(2):
        recorder.step(np.zeros(1))
    rows = recorder.rows(first=1)
    np.testing.assert_array_equal(rows.observation, [[0, 1]])
    np.testing.assert_array_equal(recorder.observation, [0, 2])


def test_what_was_taken_is_not_taken_again_and_the_episode_goes_on():
    recorder = Recorder(Counting(), rows=2, seed=0)  # type: ignore[arg-type]
    parts = []
    for _ in range(2):
        for _ in range(2):
            recorder.step(np.zeros(1))
        parts.append(recorder.taken())
    np.testing.assert_array_equal(parts[0].transitions.observation, [[0, 0], [0, 1]])
    np.testing.assert_array_equal(parts[1].transitions.observation, [[0, 2], [1, 0]])
    np.testing.assert_array_equal(parts[1].transitions.terminated, [1, 0])


def test_several_are_stepped_together_each_with_its_own_action():
    recorders = [Recorder(Counting(), rows=2, seed=0) for _ in range(2)]  # type: ignore[arg-type]
    for _ in range(2):
        step_all(recorders, lambda observations: observations[:, 1:] / 10 + np.array([[0.0], [0.5]]))
    first, second = (recorder.taken().transitions.action for recorder in recorders)
    np.testing.assert_allclose(np.ravel(first), [0.0, 0.1], rtol=1e-6)
    np.testing.assert_allclose(np.ravel(second), [0.5, 0.6], rtol=1e-6)


def test_an_episode_has_the_seed_of_its_number():
    given: list[int | None] = []

    class Seeded(Counting):
        def reset(self, seed: int | None = None) -> tuple[np.ndarray, dict]:
            given.append(seed)
            return super().reset(seed)

    recorder = Recorder(Seeded(), rows=6, seed=70, seeds=lambda episode: 70 + episode)  # type: ignore[arg-type]
    for _ in range(6):
        recorder.step(np.zeros(1))
    assert given == [70, 71, 72]  # after three steps, and two more


def test_joined_keeps_order_and_flags(seven_rows: Recording):
    both = joined([seven_rows, Recording(Batch(*(column[:3] for column in seven_rows.transitions)), np.zeros(3, dtype=bool))])
    assert both.size == 10
    np.testing.assert_array_equal(both.transitions.reward[-4:], [2, 1, 2, 3])
    np.testing.assert_array_equal(both.episode_returns, [6.0, 3.0, 3.0, 6.0])


def test_noise_is_in_half_action_ranges_and_stays_within_the_bounds():
    low, high = (-1.0, -10.0), (1.0, 10.0)
    zeros = lambda observations: np.zeros((len(observations), 2))  # noqa: E731
    actions = noisy(zeros, np.random.default_rng(0), 0.1, Spec(1, low, high))(np.zeros((2000, 1)))
    np.testing.assert_allclose(actions.std(axis=0), [0.1, 1.0], rtol=0.05)
    actions = noisy(zeros, np.random.default_rng(0), 5.0, Spec(1, low, high))(np.zeros((200, 1)))
    np.testing.assert_array_equal([actions.min(axis=0), actions.max(axis=0)], [low, high])


def test_no_noise_is_the_policy_itself():
    choose = noisy(lambda observations: observations / 2, np.random.default_rng(0), 0.0, Spec(1, (-1.0,), (1.0,)))
    np.testing.assert_array_equal(choose(np.array([[0.5], [0.8]])), [[0.25], [0.4]])


def test_uniform_actions_fill_the_bounds():
    choose = uniform(np.random.default_rng(0), Spec(1, (-2.0,), (6.0,)))
    actions = choose(np.zeros((4000, 1)))
    assert actions.min() >= -2.0
    assert actions.max() <= 6.0
    np.testing.assert_allclose(np.quantile(actions, [0.25, 0.5, 0.75]), [0.0, 2.0, 4.0], atol=0.2)  # quartiles of [-2, 6]

"""Episodes in lockstep give the returns that each would have given alone."""

from __future__ import annotations

from collections.abc import Iterator

import gymnasium
import numpy as np
import pytest

from tether.environments.making import make_environment
from tether.errors import TetherError
from tether.evaluation import rollout
from tether.evaluation.rollout import Evaluator, evaluate
from tether.types import Spec


class Countdown(gymnasium.Env):
    """Reset with seed s, it counts down from s + 1 and terminates at 0. The reward is the action, as it arrives."""

    observation_space = gymnasium.spaces.Box(0.0, np.inf, (1,), np.float64)
    action_space = gymnasium.spaces.Box(-2.0, 2.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.left = 1 + (seed or 0)
        return np.array([self.left], dtype=np.float64), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        assert self.left > 0, "stepped after its end"
        self.left -= 1
        return np.array([self.left], dtype=np.float64), float(action[0]), self.left == 0, False, {}


SPEC = Spec(1, (-2.0,), (2.0,))


@pytest.fixture
def countdown() -> Iterator[str]:
    gymnasium.register("tests/Countdown-v0", Countdown, max_episode_steps=4)
    yield "tests/Countdown-v0"
    del gymnasium.registry["tests/Countdown-v0"]


def test_each_episode_stops_at_its_own_end(countdown):
    results = evaluate(lambda observations: np.ones((len(observations), 1)), SPEC, countdown, episodes=6, seed=0)
    # Episode i would last i + 1 steps; the time limit cuts the last two at 4.
    np.testing.assert_array_equal(results.lengths, [1, 2, 3, 4, 4, 4])
    np.testing.assert_array_equal(results.returns, [1, 2, 3, 4, 4, 4])


def test_a_reward_that_is_no_number_ends_it(countdown, monkeypatch):
    whole = Countdown.step

    def step(self: Countdown, action: np.ndarray):
        observation, reward, *ended = whole(self, action)
        return observation, np.nan if self.left == 2 else reward, *ended

    monkeypatch.setattr(Countdown, "step", step)
    with pytest.raises(TetherError, match=r"^tests/Countdown-v0 gave a reward of nan at step 0 of the episode from seed 2$"):
        evaluate(lambda observations: np.ones((len(observations), 1)), SPEC, countdown, episodes=3, seed=0)


def test_an_episode_without_end_and_without_a_limit_is_stopped(monkeypatch):
    monkeypatch.setattr(rollout, "MOST_STEPS", 10)
    act = lambda observations: np.ones((len(observations), 1))  # noqa: E731
    results = evaluate(act, SPEC, Countdown(), episodes=1, seed=9)  # counts down from 10, which is not too long
    assert results.lengths.tolist() == [10]
    with pytest.raises(
        TetherError, match=r"^an episode of Countdown has no end after 10 steps, .* register it with max_episode_s"
    ):
        evaluate(act, SPEC, Countdown(), episodes=1, seed=10)
    limited = gymnasium.wrappers.TimeLimit(Countdown(), 12)  # the limit that somebody chose counts, however long
    assert evaluate(act, SPEC, limited, episodes=1, seed=20).lengths.tolist() == [12]


def test_the_policy_sees_a_batch_of_fixed_size_once_per_step(countdown):
    seen = []

    def act(observations: np.ndarray) -> np.ndarray:
        seen.append(observations.copy())
        return np.zeros((len(observations), 1))

    evaluate(act, SPEC, countdown, episodes=3)
    assert all(batch.dtype == np.float32 for batch in seen)
    # Finished episodes keep their last observation, 0.
    np.testing.assert_array_equal(np.stack(seen)[:, :, 0], [[1, 2, 3], [0, 1, 2], [0, 0, 1]])


def test_the_action_of_a_row_goes_to_its_own_episode(countdown):
    results = evaluate(lambda observations: 0.25 * np.arange(len(observations))[:, None], SPEC, countdown, episodes=3)
    np.testing.assert_allclose(results.returns, [0.0 * 1, 0.25 * 2, 0.5 * 3])


def test_actions_are_clipped_to_the_bounds(countdown):
    results = evaluate(lambda observations: np.full((len(observations), 1), 9.0), SPEC, countdown, episodes=1)
    assert results.returns.tolist() == [2.0]


def test_episode_i_has_seed_plus_i(countdown):
    results = evaluate(lambda observations: np.ones((len(observations), 1)), SPEC, countdown, episodes=2, seed=1)
    np.testing.assert_array_equal(results.lengths, [2, 3])


def test_actions_of_finished_episodes_do_not_matter(countdown):
    def act(observations: np.ndarray) -> np.ndarray:
        return np.where(observations == 0.0, np.nan, 1.0)

    np.testing.assert_array_equal(evaluate(act, SPEC, countdown, episodes=3).returns, [1, 2, 3])


def test_a_policy_that_gives_nan_is_stopped(countdown):
    with pytest.raises(TetherError, match="NaN or Inf action at step 0 of an episode of tests/Countdown-v0"):
        evaluate(lambda observations: np.full((len(observations), 1), np.nan), SPEC, countdown, episodes=2)


def test_no_episodes(countdown):
    with pytest.raises(TetherError, match="episodes is 0, expected at least 1"):
        Evaluator(countdown, SPEC, episodes=0)


@pytest.mark.parametrize(("env_id", "sizes"), [("Hopper-v4", (11, 3)), ("AdroitHandPen-v1", (45, 24))])
def test_kept_environments_repeat_their_episodes_and_match_fresh_ones(env_id, sizes):
    observation_size, action_size = sizes
    spec = Spec(observation_size, (-1.0,) * action_size, (1.0,) * action_size)
    weights = np.random.default_rng(0).normal(0.0, 0.3, size=(observation_size, action_size)).astype(np.float32)

    def act(observations: np.ndarray) -> np.ndarray:
        return np.tanh((observations[:, :, None] * weights).sum(axis=1))  # rounds the same whatever the batch

    evaluator = Evaluator(env_id, spec, episodes=3, seed=5)
    first, again = evaluator(act), evaluator(act)
    evaluator.close()
    np.testing.assert_array_equal(first.returns, again.returns)
    assert len(set(first.returns)) == 3
    for row in range(3):
        alone = evaluate(act, spec, env_id, episodes=1, seed=5 + row)
        np.testing.assert_array_equal((alone.returns[0], alone.lengths[0]), (first.returns[row], first.lengths[row]))


def test_returns_are_those_of_a_plain_gymnasium_loop():
    environment = make_environment("Hopper-v4")
    environment.reset(seed=7)
    total, done = 0.0, False
    while not done:
        _, reward, terminated, truncated, _ = environment.step(np.zeros(3, dtype=np.float32))
        total += reward
        done = terminated or truncated
    environment.close()
    results = evaluate(lambda o: np.zeros((len(o), 3), dtype=np.float32), Spec(11, (-1.0,) * 3, (1.0,) * 3), "Hopper-v4", 1, 7)
    np.testing.assert_allclose(results.returns, [total])

"""Real environments of choices and images: what Tether sees of them, and that an episode is its seed's and its policy's alone."""

from __future__ import annotations

import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.wrappers import FlattenObservation, TransformAction, TransformObservation

from tether.environments.making import make_environment, wrap_environment
from tether.environments.vectors import environment_spec
from tether.errors import TetherError
from tether.evaluation.rollout import EpisodeResults, discounted_returns, visited_returns
from tether.types import Spec, discrete_spec

SPECS = {
    "CartPole-v1": discrete_spec(4, 2),
    "LunarLander-v3": discrete_spec(8, 4),
    "FrozenLake-v1": discrete_spec(16, 4),
    "MinAtar/Breakout-v1": discrete_spec(400, 3, (10, 10, 4)),
    "MinAtar/Freeway-v1": discrete_spec(700, 3, (10, 10, 7)),
}


@pytest.mark.parametrize("env_id", SPECS)
def test_spaces_and_steps(env_id: str):
    environment = make_environment(env_id, SPECS[env_id])
    try:
        assert environment_spec(environment) == SPECS[env_id]
        observation, _ = environment.reset(seed=0)
        assert (observation.shape, observation.dtype) == ((SPECS[env_id].observation_size,), np.float32)
        for choice in np.eye(SPECS[env_id].action_size, dtype=np.float32):
            observation, *_ = environment.step(choice)
        assert observation.shape == (SPECS[env_id].observation_size,)
    finally:
        environment.close()


def test_a_row_is_the_choice_whose_entry_is_one():
    ours, theirs = make_environment("CartPole-v1"), gymnasium.make("CartPole-v1")
    for choice in (0, 1):
        ours.reset(seed=3)
        theirs.reset(seed=3)
        np.testing.assert_array_equal(ours.step(np.eye(2, dtype=np.float32)[choice])[0], theirs.step(choice)[0])
    ours.close()
    theirs.close()


def test_an_image_is_flat_in_the_order_of_its_axes():
    environment = make_environment("MinAtar/Breakout-v1")
    flat, _ = environment.reset(seed=0)
    image = environment.unwrapped.game.state()
    np.testing.assert_array_equal(flat.reshape(10, 10, 4), image)
    assert image[9, 4, 0]  # the paddle, in the middle of the last row
    environment.close()


def test_a_state_that_is_a_number_is_a_row():
    environment = make_environment("FrozenLake-v1")
    observation, _ = environment.reset(seed=0)
    np.testing.assert_array_equal(observation, np.eye(16)[0])
    environment.close()


class Camera(gymnasium.Env):
    """Images of 20 by 20, which count up from 0, and three choices."""

    observation_space = Box(0.0, 2000.0, (20, 20, 3), np.float32)
    action_space = Discrete(3)

    def reset(self, *, seed=None, options=None):
        return np.arange(1200, dtype=np.float32).reshape(20, 20, 3), {}


def test_a_wrapper_that_makes_choices_of_numbers_makes_them_discrete():
    forces = (-2.0, -1.0, 1.0, 2.0)
    chosen = TransformAction(gymnasium.make("Pendulum-v1"), lambda choice: np.array([forces[choice]], np.float32), Discrete(4))
    ours = wrap_environment(chosen, "Pendulum-v1")
    assert environment_spec(ours) == discrete_spec(3, 4)
    plain = gymnasium.make("Pendulum-v1")
    for environment in (ours, plain):
        environment.reset(seed=1)
    theirs = plain.step(np.array([1.0], np.float32))[0]  # the third choice
    np.testing.assert_array_equal(ours.step(np.eye(4, dtype=np.float32)[2])[0], theirs)
    ours.close()
    plain.close()


def test_a_wrapper_that_makes_numbers_of_choices_makes_them_continuous():
    pushed = TransformAction(gymnasium.make("CartPole-v1"), lambda push: int(push[0] > 0), Box(-1.0, 1.0, (1,), np.float32))
    environment = wrap_environment(pushed, "CartPole-v1")
    assert environment_spec(environment) == Spec(4, (-1.0,), (1.0,))
    again = TransformAction(wrap_environment(gymnasium.make("CartPole-v1"), "CartPole-v1"), np.abs, Box(-1.0, 1.0, (2,)))
    assert environment_spec(again) == Spec(4, (-1.0, -1.0), (1.0, 1.0))  # our rows, with another meaning
    environment.close()


def test_an_image_that_a_wrapper_has_made_smaller_has_the_small_shape():
    small = TransformObservation(Camera(), lambda image: image[::2, ::2], Box(0.0, 2000.0, (10, 10, 3), np.float32))
    environment = wrap_environment(small, "Camera")
    assert environment_spec(environment) == discrete_spec(300, 3, (10, 10, 3))
    observation, _ = environment.reset()
    np.testing.assert_array_equal(observation[:6], [0, 1, 2, 6, 7, 8])  # every other pixel of three colours


def test_an_image_that_a_wrapper_has_made_a_vector_is_none():
    flat = FlattenObservation(Camera())
    assert environment_spec(wrap_environment(flat, "Camera")) == discrete_spec(1200, 3)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "LunarLander-v3", "MinAtar/Breakout-v1", "MinAtar/Freeway-v1"])
def test_an_episode_does_not_depend_on_those_before(env_id: str):
    """A resumed run evaluates in new environments, an unbroken one in old ones. MinAtar's own reset keeps the last action."""
    one, other = np.eye(SPECS[env_id].action_size)[:2]
    fresh, used = make_environment(env_id), make_environment(env_id)
    for seed in range(50):  # enough for a chance of 0.1 to repeat the last action to show
        fresh.close()
        fresh = make_environment(env_id)
        if seed:
            used.step(other)
        for environment in (fresh, used):
            environment.reset(seed=seed)
        for _ in range(3):
            np.testing.assert_array_equal(fresh.step(one)[0], used.step(one)[0])
    for environment in (fresh, used):
        environment.close()


def test_freeway_ends_by_a_time_limit_and_not_by_termination():
    environment = make_environment("MinAtar/Freeway-v1")
    environment.reset(seed=0)
    steps, ended = 0, False
    while not ended:
        _, _, terminated, truncated, _ = environment.step(np.eye(3)[0])
        steps, ended = steps + 1, terminated or truncated
    environment.close()
    assert (steps, terminated, truncated) == (2500, False, True)


def test_what_does_not_fit_is_said():
    with pytest.raises(TetherError, match="environment CartPole-v1 has discrete actions, the dataset has continuous ones"):
        make_environment("CartPole-v1", Spec(4, (-1.0,) * 2, (1.0,) * 2))
    with pytest.raises(TetherError, match="environment CartPole-v1 has actions of 2 choices, the dataset has 3"):
        make_environment("CartPole-v1", discrete_spec(4, 3))
    with pytest.raises(TetherError, match="environment CartPole-v1 has observations of 4 numbers, the dataset has 5"):
        make_environment("CartPole-v1", discrete_spec(5, 2))


def test_minatar_without_its_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "minatar.gym", None)  # makes the import fail, as when it is not installed
    with pytest.raises(TetherError, match=r"environment MinAtar/Breakout-v1 needs MinAtar: pip install 'tether-rl\[discrete\]'"):
        make_environment("MinAtar/Breakout-v1")


def test_lunar_lander_without_box2d(monkeypatch):
    for module in [name for name in sys.modules if name.startswith(("Box2D", "gymnasium.envs.box2d"))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "Box2D", None)
    with pytest.raises(TetherError, match=r"environment LunarLander-v3 cannot be made: .*\[discrete\]' brings it"):
        make_environment("LunarLander-v3")


def test_discounted_returns_by_hand():
    rewards = (np.array([1.0, 2.0, 4.0]), np.array([8.0]))
    # (1 + 0.5 * 2 + 0.25 * 4) and 8 halved by the scale; then each step less one, which a longer episode pays more often.
    np.testing.assert_allclose(discounted_returns(rewards, lambda steps: steps / 2, 0.5), [1.5, 4.0])
    np.testing.assert_allclose(discounted_returns(rewards, lambda steps: steps - 1, 0.5), [0 + 0.5 + 0.75, 7.0])


def test_returns_from_every_visited_state_by_hand():
    """From the end: 4, 2 + 4/2, 1 + 4/2 in an episode that ended by itself. One that was cut goes on with its mean of 7/3.

    For ever, that is worth 14/3 at a discount of a half: 4 + 7/3, 2 + 19/6, 1 + 31/12.
    """
    rewards = (np.array([1.0, 2.0, 4.0]),) * 2
    results = EpisodeResults(np.array([7.0, 7.0]), np.array([3, 3]), None, rewards, np.array([False, True]))
    cut = (19 / 3 + 31 / 6 + 43 / 12) / 3
    np.testing.assert_allclose(visited_returns(results, lambda steps: steps, 0.5), [(4 + 4 + 3) / 3, cut])
    np.testing.assert_allclose(visited_returns(results, lambda steps: steps / 2, 0.5), [11 / 6, cut / 2])

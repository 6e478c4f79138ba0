"""Environments are made with D4RL's horizons, and what does not fit is said."""

from __future__ import annotations

import sys

import gymnasium
import mujoco
import pytest

from tether.environments.making import action_limits, make_environment, time_limit, wrap_environment
from tether.errors import TetherError
from tether.types import Spec, discrete_spec

HOPPER = Spec(11, (-1.0,) * 3, (1.0,) * 3)


def test_old_version_is_made_in_silence(recwarn, capfd):
    environment = make_environment("HalfCheetah-v4")
    environment.close()
    assert not recwarn.list
    assert capfd.readouterr().err == ""
    assert mujoco.get_mju_user_warning() is None  # warnings of simulation still reach the user


def test_pen_is_cut_at_d4rls_horizon():
    environment = make_environment("AdroitHandPen-v1")
    environment.reset(seed=0)
    steps, truncated = 0, False
    while not truncated:
        *_, truncated, _ = environment.step(environment.action_space.low * 0)
        steps += 1
    environment.close()
    assert steps == 100


@pytest.mark.parametrize(
    ("own", "effective"),
    [(200, 100), (None, 100), (60, 60)],  # D4RL's pen has 100
)
def test_an_environment_given_gets_the_horizon_of_its_task_unless_it_is_shorter(own, effective):
    make_environment("AdroitHandPen-v1").close()  # registers it
    bare = gymnasium.make("AdroitHandPen-v1").unwrapped  # its spec names 200 steps still
    given = bare if own is None else gymnasium.wrappers.TimeLimit(bare, own)
    environment = wrap_environment(given, "AdroitHandPen-v1")
    environment.reset(seed=0)
    steps, truncated = 0, False
    while not truncated:
        *_, truncated, _ = environment.step(environment.action_space.low * 0)
        steps += 1
    environment.close()
    assert (steps, time_limit(environment)) == (effective, effective)


def test_a_given_game_of_minatar_gets_the_limit_that_made_ones_have():
    make_environment("MinAtar/Breakout-v1").close()  # registers it
    bare = gymnasium.make("MinAtar/Breakout-v1")
    assert time_limit(bare) is None
    environment = wrap_environment(bare, "MinAtar/Breakout-v1")
    assert time_limit(environment) == 2500
    environment.close()


def test_an_environment_outside_the_table_keeps_its_horizon():
    environment = make_environment("Reacher-v5")
    assert environment.spec.max_episode_steps == 50
    environment.close()


def test_an_environment_of_ones_own_keeps_its_horizon_whatever_its_id_begins_with():
    gymnasium.register("door-v0", "gymnasium.envs.classic_control:PendulumEnv", max_episode_steps=500)  # Adroit's door has 200
    try:
        environment = make_environment("door-v0", Spec(3, (-2.0,), (2.0,)))
    finally:
        del gymnasium.registry["door-v0"]
    assert environment.spec.max_episode_steps == 500
    environment.close()


def test_action_limits():
    environment = make_environment("InvertedPendulum-v5")
    low, high = action_limits(environment)
    environment.close()
    assert (low.tolist(), high.tolist()) == ([-3.0], [3.0])


def test_unknown_environment_offers_the_nearest():
    with pytest.raises(TetherError, match=r"^no environment 'Hoper-v4' in Gymnasium; did you mean Hopper-v4"):
        make_environment("Hoper-v4")


def test_unknown_environment_with_nothing_near_offers_the_known_tasks():
    with pytest.raises(TetherError, match=r"there is: AdroitHandDoor-v1, .*Walker2d-v4"):
        make_environment("????")


def test_a_module_in_an_id_is_imported_and_one_that_is_not_there_is_one_message():
    """Only the user gives such an id: files may not (`is_plain_env_id`)."""
    make_environment("this:Hopper-v4").close()
    assert sys.modules.pop("this")
    with pytest.raises(TetherError, match=r"^no environment 'nowhere:Hopper-v4': No module named 'nowhere'; nowhere must be"):
        make_environment("nowhere:Hopper-v4")


def test_environment_that_cannot_be_made():
    with pytest.raises(TetherError, match=r"^environment Hopper-v3 cannot be made: .*mujoco"):
        make_environment("Hopper-v3")


def test_adroit_without_its_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium_robotics", None)  # makes the import fail, as when it is not installed
    with pytest.raises(TetherError, match=r"pip install 'tether-rl\[adroit\]'"):
        make_environment("AdroitHandPen-v1")


def test_sizes_that_do_not_fit():
    with pytest.raises(TetherError, match="environment Walker2d-v4 has observations of 17 numbers, the dataset has 11"):
        make_environment("Walker2d-v4", HOPPER)
    with pytest.raises(TetherError, match="environment Hopper-v4 has actions of 3 numbers, the dataset has 2"):
        make_environment("Hopper-v4", Spec(11, (-1.0,) * 2, (1.0,) * 2))


def test_observations_of_several_parts_are_joined_also_where_actions_are_choices():
    environment = make_environment("Blackjack-v1", discrete_spec(32 + 11 + 2, 2))
    observation, _ = environment.reset(seed=0)
    assert observation.shape == (45,)
    assert observation.sum() == 3.0  # one of each part
    environment.close()

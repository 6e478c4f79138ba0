"""Fitted Q evaluation on problems whose values are a line of algebra."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import ROWS, SPEC, as_dataset, constant_reward, transitions, uniform_actions

from tether.data.dataset import Dataset
from tether.optimisation import copy_of
from tether.selection import fqe
from tether.selection.fqe import FittedQ, bootstrap, evaluate_policy, with_beginnings
from tether.training.loop import agent_epoch, learn
from tether.training.sources import Rows

SMALL = FittedQ(steps=400, members=2, batch_size=64, hidden_sizes=(16, 16), learning_rate=3e-3, discount=0.5)


def left(observation: np.ndarray) -> np.ndarray:
    return np.tile(np.float32([-0.5, 2.0]), (len(observation), 1))


def right(observation: np.ndarray) -> np.ndarray:
    return np.tile(np.float32([0.5, 2.0]), (len(observation), 1))


def pays_for_right() -> Dataset:
    """Nothing ends, and a step pays 10 times the action's first number, whatever the observation."""
    action = uniform_actions()
    return as_dataset(transitions(action, 10.0 * action[:, 0], terminated=0.0))


def test_values_of_two_policies_on_one_log():
    # Q(s, a) = 10 a_1 + 0.5 V, with V = 10 pi_1 / (1 - 0.5): 10 of always right (a_1 = 0.5), -10 of always left.
    log = pays_for_right()
    seen = np.asarray(log.transitions.observation)[:50]
    for acts, value in ((right, 10.0), (left, -10.0)):
        found = evaluate_policy(SMALL, log, acts)
        np.testing.assert_allclose(found.value(seen, acts(seen)).mean(axis=1), value, atol=1.5)
        # One step to the other side, then the policy: -5 + 0.5 * 10 = 0, and 5 - 0.5 * 10 = 0.
        other = left if acts is right else right
        np.testing.assert_allclose(found.value(seen, other(seen)).mean(axis=1), 0.0, atol=1.5)
        assert found.history[-1]["fqe/cut_off"] < 0.3


def test_a_constant_reward_is_r_over_one_minus_discount_and_r_where_every_step_ends():
    seen = np.zeros((3, 2), np.float32)
    for terminated, value in ((0.0, 14.0), (1.0, 7.0)):  # 7 / (1 - 0.5)
        found = evaluate_policy(SMALL, as_dataset(constant_reward(7.0, terminated)), right)
        np.testing.assert_allclose(found.value(seen, right(seen)), value, rtol=0.1)


def test_the_log_s_own_value_is_that_of_its_next_actions():
    # Actions of an episode are all left or all right, so that 20 a_1 / (1 - 0.5) is what is earned from anywhere on. Rows at the
    # end of an episode, whose next action is not recorded, have a reward that would show: they are not learnt from.
    side = np.where(np.arange(ROWS) // (ROWS // 8) % 2 == 0, -0.5, 0.5)
    reward = 20.0 * side
    reward[ROWS // 8 - 1 :: ROWS // 8] = 500.0
    log = as_dataset(transitions(np.stack([side, np.full(ROWS, 2.0)], axis=1), reward, terminated=0.0))
    found = evaluate_policy(SMALL, log, None)
    seen = np.zeros((1, 2), np.float32)
    for acts, value in ((right, 20.0), (left, -20.0)):
        np.testing.assert_allclose(found.value(seen, acts(seen)), value, atol=3.0)


def test_members_see_whole_episodes_as_often_as_each_was_drawn():
    log = as_dataset(constant_reward())
    drawn = bootstrap(log, members=3, seed=0)
    by_episode = drawn.reshape(8, ROWS // 8, 3)
    np.testing.assert_array_equal(by_episode, np.broadcast_to(by_episode[:, :1], by_episode.shape))
    np.testing.assert_array_equal(by_episode[:, 0].sum(axis=0), 8)  # eight episodes are drawn, some twice
    assert len({tuple(column) for column in by_episode[:, 0].T}) == 3
    one = replace(log, episode_ends=np.array([ROWS]), episode_returns=np.zeros(1))
    np.testing.assert_array_equal(bootstrap(one, 2, 0), 1.0)


def test_beginnings_are_a_fifth_of_the_rows():
    # One episode of 512 rows: 20 first ones, and 492 others that are to be four fifths of 615.
    log = replace(as_dataset(constant_reward()), episode_ends=np.array([ROWS]), episode_returns=np.zeros(1))
    numbers = with_beginnings(log)
    np.testing.assert_array_equal(np.unique(numbers), np.arange(ROWS))
    assert len(numbers) == 615
    assert np.sum(numbers < 20) == 123
    # Eight of 64 rows have 160 first ones, more than a fifth already.
    np.testing.assert_array_equal(with_beginnings(as_dataset(constant_reward())), np.arange(ROWS))


def test_targets_stay_within_what_rewards_can_add_up_to():
    # Rewards of 1 and 3, discount 0.5: Q is between 1 and 6, however wild the next value.
    log = as_dataset(constant_reward(np.where(np.arange(ROWS) % 2 == 0, 1.0, 3.0)))
    found = evaluate_policy(SMALL, log, right)
    assert (float(found.state.low), float(found.state.high)) == (1.0, 6.0)
    with closing(Rows(fqe.rows_for(SMALL, log, right))) as rows:
        wild = copy_of(found.state)._replace(unit=jnp.float32(1e6))
        (epoch,) = learn(SMALL, wild, rows, jax.random.key(0), end=SMALL.steps, epoch_steps=SMALL.steps, compiled=agent_epoch)
    assert 1.0 <= epoch.metrics["fqe/value"] <= 6.0
    assert epoch.metrics["fqe/cut_off"] > 0.5


@pytest.mark.parametrize("size", [1, 5_000])
def test_any_number_of_rows_is_asked(size: int):
    observation = np.random.default_rng(0).normal(size=(size, SPEC.observation_size)).astype(np.float32)
    acted = fqe.actions_at(lambda rows: np.tanh(rows), observation)
    np.testing.assert_array_equal(acted, np.tanh(observation))

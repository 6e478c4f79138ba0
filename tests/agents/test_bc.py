"""Behaviour cloning: it recovers the policy that made the data, and nothing but the data steers it."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from problems import ROWS, as_dataset, bowl_state, constant_reward, linear_behaviour, linear_policy, small, train

from tether import BC
from tether.agents.bc import best_rows
from tether.policies import act
from tether.training.lesson import Lesson


def test_it_recovers_a_linear_policy():
    state, metrics = train(small(BC), linear_behaviour(), epochs=8)
    observation = jnp.array([[-0.9, -0.9], [-0.5, 0.5], [0.0, 0.0], [0.5, -0.5], [0.9, 0.9]])
    # (0.1 + 0.5 s_1, 2 - s_2)
    expected = [[-0.35, 2.9], [-0.15, 1.5], [0.1, 2.0], [0.35, 2.5], [0.55, 1.1]]
    np.testing.assert_allclose(linear_policy(np.asarray(observation)), expected, atol=1e-6)
    np.testing.assert_allclose(act(state.actor, observation), expected, atol=0.05)
    # The distance is summed over the two action dimensions, the loss averaged.
    np.testing.assert_allclose(metrics["actor/data_distance"], 2 * metrics["actor/loss"], rtol=1e-5)


def test_of_a_share_only_the_best_episodes_are_cloned():
    """Eight episodes; the first half of the rows does one thing, the other, whose episodes pay more, does the opposite."""
    rows = linear_behaviour()
    low, high = np.array([[-0.5, 1.0]]), np.array([[0.5, 3.0]])
    better = (np.arange(ROWS) >= ROWS // 2)[:, None]
    dataset = as_dataset(rows._replace(action=np.where(better, high, low).astype(np.float32)))
    dataset = replace(dataset, episode_returns=np.repeat([1.0, 2.0], 4))
    for share, expected in ((0.5, high), (1.0, (low + high) / 2)):
        lesson = Lesson(small(BC, best_share=share), dataset, None, seed=0, steps=2_000)
        *_, last = lesson.epochs(lesson.fresh(), 0, 1_000)
        action = act(last.state.target_actor, jnp.asarray(dataset.transitions.observation))
        np.testing.assert_allclose(np.mean(action, axis=0), expected[0], atol=0.1)


def test_of_a_share_as_many_rows_are_cloned_as_of_a_whole_log():
    """Of 6 rows drawn, the three of episodes with rank 0 and 0.1 count, of which the batch takes two; then there is one alone."""

    class Drawn(NamedTuple):
        action: jax.Array
        episode_rank: jax.Array

    drawn = Drawn(jnp.arange(6.0), jnp.array([0.5, 0.1, 0.2, 0.0, 0.1, 0.9]))
    batch, weight = best_rows(drawn, 0.2, 2)
    np.testing.assert_allclose(batch.action, [1.0, 3.0])
    np.testing.assert_allclose(weight, [1.0, 1.0])
    batch, weight = best_rows(drawn, 0.05, 2)
    assert batch.action[0] == 3.0
    np.testing.assert_allclose(weight, [2.0, 0.0])
    _, weight = best_rows(drawn._replace(episode_rank=jnp.ones(6)), 0.05, 2)
    np.testing.assert_allclose(weight, [0.0, 0.0])  # a step without any of them learns nothing
    assert BC(best_share=0.1).batch_shape == (1, 2_560)


def test_neither_rewards_nor_a_bonus_steer_it():
    rows = linear_behaviour()
    plain, _ = train(small(BC), rows)
    bent, metrics = train(small(BC), rows._replace(reward=constant_reward().reward), bowl_state(floor=3.0, steepness=9.0))
    jax.tree.map(np.testing.assert_array_equal, plain, bent)
    assert float(metrics["actor/bonus"]) > 3.0  # it is reported all the same

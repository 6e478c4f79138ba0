"""BEAR's distance, its dual step and its choice against numbers worked by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import bandit, bowl_state, constant_reward, penalty, small, train

from tether.agents.bcq import best_of_mixed
from tether.agents.bear import BEAR, FLOOR, mmd
from tether.policies import act

# Two for all tests, each compiled once. One never gets beyond its warm-up, the other has none; a distance is between 0 and 10.
COLD, WARM = small(BEAR, warm_up_steps=100_000, threshold=0.0), small(BEAR, warm_up_steps=0, threshold=10.0)


@pytest.mark.parametrize(
    ("kernel", "size"),
    [("laplacian", 3.0), ("gaussian", 5.0)],  # |1| + |2|, and 1 + 4
)
def test_mmd_of_two_points(kernel, size):
    one, other = jnp.array([[[0.0, 0.0]]]), jnp.array([[[1.0, 2.0]]])
    # k(x, x) = 1, so the square is 1 + 1 - 2 k(x, y).
    expected = np.sqrt(2.0 - 2.0 * np.exp(-size / (2.0 * 10.0)) + FLOOR)
    np.testing.assert_allclose(mmd(one, other, kernel, 10.0), [expected], rtol=1e-5)


def test_mmd_of_two_sets_is_over_all_pairs():
    one, other = jnp.array([0.0, 2.0])[:, None, None], jnp.array([0.0])[:, None, None]
    # Laplacian of width 1: k = exp(-|x - y| / 2). Within: (1 + 1 + 2 e) / 4, of the other 1, between (1 + e) / 2, e = exp(-1).
    e = np.exp(-1.0)
    np.testing.assert_allclose(mmd(one, other, "laplacian", 1.0), [np.sqrt((1 + e) / 2 + 1 - (1 + e) + FLOOR)], rtol=1e-5)
    np.testing.assert_allclose(mmd(one, one, "laplacian", 1.0), [np.sqrt(FLOOR)], rtol=1e-4)


def test_the_best_of_mixed_critics():
    # Two rows of two actions each. Mixes by 3/4 of the smaller: 0.75 * 1 + 0.25 * 5 = 2, 3; then 0.75 * 0 + 0.25 * 4 = 1, 0.
    values = jnp.array([[1.0, 3.0, 4.0, 0.0], [5.0, 3.0, 0.0, 0.0]])
    np.testing.assert_allclose(best_of_mixed(values, 0.75, 2), [3.0, 1.0])


def test_the_multiplier_rises_above_the_threshold_and_falls_below_it():
    for agent, sign in ((COLD, 1.0), (WARM, -1.0)):
        state, metrics = train(agent, constant_reward())
        assert np.sign(state.log_multiplier) == sign
        assert 0.0 < metrics["actor/mmd"] < 2.0


def test_rewards_move_the_actor_only_after_the_warm_up():
    better, worse = bandit(), bandit()._replace(reward=-bandit().reward)
    for agent, moved in ((COLD, False), (WARM, True)):
        actors = [jax.tree.leaves(train(agent, rows, bowl_state())[0].actor) for rows in (better, worse)]
        assert moved == any(not np.array_equal(*pair) for pair in zip(*actors, strict=True))


def test_it_takes_the_best_of_its_own_actions():
    agent = WARM
    state, _ = train(agent, bandit(), bowl_state(), epochs=12)
    action = act(agent.policies(state, penalty())["online"], jax.random.normal(jax.random.key(0), (64, 2)))
    np.testing.assert_allclose(np.mean(np.asarray(action), axis=0), [0.5, 1.0], atol=0.25)

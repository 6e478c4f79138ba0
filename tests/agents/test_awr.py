"""AWR's returns and weights against numbers worked by hand."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import ROWS, as_dataset, constant_reward, initial_state, rows_for, small, train

from tether import TD3
from tether.agents.awr import AWR, lambda_returns
from tether.data.transforms import concatenate
from tether.errors import TetherError
from tether.training.lesson import Lesson
from tether.training.loop import refreshes


class Ends(NamedTuple):
    reward: jax.Array
    terminated: jax.Array
    has_next_action: jax.Array


found_returns = jax.jit(lambda_returns, static_argnums=(2, 3))


def test_lambda_returns_by_hand():
    # Discount 0.5, lambda 0.5. Two episodes: rows 0, 1, 2 end by termination; rows 3, 4 are cut by a time limit.
    rows = Ends(
        reward=jnp.array([1.0, 2.0, 4.0, 1.0, 1.0]),
        terminated=jnp.array([0.0, 0.0, 1.0, 0.0, 0.0]),
        has_next_action=jnp.array([1.0, 1.0, 0.0, 1.0, 0.0]),
    )
    next_value = jnp.array([8.0, 4.0, 100.0, 2.0, 6.0])
    # R_2 = 4                                          nothing follows
    # R_1 = 2 + 0.5 (0.5 * 4 + 0.5 * 4) = 4
    # R_0 = 1 + 0.5 (0.5 * 8 + 0.5 * 4) = 4
    # R_4 = 1 + 0.5 * 6 = 4                            at a time limit V alone
    # R_3 = 1 + 0.5 (0.5 * 2 + 0.5 * 4) = 2.5
    found = found_returns(rows, next_value, 0.5, 0.5)
    np.testing.assert_allclose(found, [4.0, 4.0, 4.0, 2.5, 4.0])


def test_without_decay_they_are_the_recorded_returns_and_with_all_of_it_one_step():
    rows = rows_for(AWR(), constant_reward(reward=1.0, terminated=0.0))
    nothing = jnp.zeros(ROWS)
    whole = np.asarray(found_returns(rows, nothing, 0.5, 1.0))
    length = ROWS // 8
    np.testing.assert_allclose(whole[:length], 2.0 - 2.0 * 0.5 ** np.arange(length, 0, -1), rtol=1e-6)
    np.testing.assert_allclose(found_returns(rows, nothing + 3.0, 0.5, 0.0), 1.0 + 0.5 * 3.0)


def test_weights_are_of_the_advantage_in_deviations_and_have_a_limit():
    # V is 0 everywhere and every step ends, so the advantage is the reward: +-1 in equal parts, mean 0 and deviation 1.
    reward = np.where(np.arange(ROWS) % 2 == 0, 1.0, -1.0)
    rows = rows_for(AWR(), constant_reward(reward=reward, terminated=1.0))
    agent = small(AWR, inverse_temperature=2.0, most_weight=5.0, normalise_observations=False)
    state = initial_state(agent)
    state = jax.jit(agent.refresh)(state._replace(value=jax.tree.map(jnp.zeros_like, state.value)), rows)
    np.testing.assert_allclose(state.returns, reward)
    np.testing.assert_allclose(state.weights, np.where(reward > 0, 5.0, np.exp(-2.0)), rtol=1e-4)  # exp(2) = 7.4 is above 5


def test_each_row_gets_its_own_return():
    # Reward 1 where the first action is positive: V cannot tell (observations say nothing), so it is the mean, 1/2.
    rows = constant_reward(terminated=1.0)
    rows = rows._replace(reward=(rows.action[:, 0] > 0).astype(jnp.float32))
    state, metrics = train(small(AWR, hidden_sizes=(4, 4)), rows, epochs=4)
    np.testing.assert_array_equal(state.returns, rows.reward)
    np.testing.assert_allclose(metrics["critic/q"], float(jnp.mean(rows.reward)), atol=0.05)
    # And positive actions are cloned the more: exp(1) against exp(-1), so their share is 1 / (1 + exp(-2)) = 0.88.
    policy = AWR().policies(state, None)["online"]
    expected = 0.88 * 0.5 + 0.12 * -0.5  # the mean of each half of a uniform action
    np.testing.assert_allclose(np.mean(policy(rows.observation)[:, 0]), expected, atol=0.08)


def test_a_refresh_comes_at_its_steps_and_never_within_an_epoch():
    agent = AWR(refresh_every=1_000)
    assert [refreshes(agent, step, 500) for step in (0, 500, 1_000, 1_500)] == [True, False, True, False]
    assert refreshes(agent, 500, 500, new=True)
    assert not refreshes(TD3(), 500, 500, new=True)
    with pytest.raises(TetherError, match="no multiple of an epoch of 600 steps"):
        refreshes(agent, 600, 600)


def test_rows_that_do_not_fit_are_refused(monkeypatch):
    monkeypatch.setattr("tether.training.sources._too_large", lambda transitions: True)
    with pytest.raises(TetherError, match="AWR computes returns over the whole log at once, and 512 rows do not fit"):
        Lesson(AWR(), as_dataset(constant_reward()), None, seed=0, steps=10)


def test_what_goes_on_with_another_log_has_its_returns_from_the_first_step():
    agent, short = small(AWR, refresh_every=1_000), as_dataset(constant_reward())
    longer = concatenate([short, short])
    lesson = Lesson(agent, short, None, 0, 500)
    (epoch,) = lesson.epochs(lesson.fresh(), 0, 500)
    (epoch,) = Lesson(agent, longer, None, 0, 1_000, begins=500).epochs(epoch.state, 500, 500)
    assert epoch.state.returns.shape == (longer.size,) == (2 * short.size,)
    np.testing.assert_array_equal(*np.split(epoch.state.returns, 2))

"""The pieces of losses, against numbers worked by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tether.agents import actor_critic as losses


def test_bellman_target_ignores_next_value_at_termination():
    target = losses.bellman_target(
        reward=jnp.array([1.0, 1.0]), terminated=jnp.array([0.0, 1.0]), next_value=jnp.array([10.0, 10.0]), discount=0.5
    )
    np.testing.assert_allclose(target, [6.0, 1.0])


def test_bellman_target_has_no_gradient():
    ones = jnp.ones(3)
    slope = jax.grad(lambda value: jnp.sum(losses.bellman_target(value, ones, value, 0.9)))(ones)
    np.testing.assert_array_equal(slope, [0.0, 0.0, 0.0])


def test_squared_td_error_is_a_mean_over_rows_and_a_sum_over_critics():
    # First critic: (0 + 4) / 2 = 2. Second: (4 + 1) / 2 = 2.5.
    error = losses.squared_td_error(jnp.array([[1.0, 2.0], [3.0, 5.0]]), jnp.array([1.0, 4.0]))
    np.testing.assert_allclose(error, 4.5)


def test_smoothing_without_noise_is_a_clip_to_the_bounds():
    action = jnp.array([[-2.0, 1.0], [0.5, 9.0]])
    smoothed = losses.smoothed_action(action, jax.random.key(0), 0.0, 0.5, low=(-1.0, 0.0), high=(1.0, 4.0))
    np.testing.assert_allclose(smoothed, [[-1.0, 1.0], [0.5, 4.0]])


def test_smoothing_noise_is_in_half_action_ranges_and_new_in_every_entry():
    action = jnp.tile(jnp.array([[0.0, 50.0]]), (10_000, 1))
    smoothed = losses.smoothed_action(action, jax.random.key(0), 0.2, 10.0, low=(-1.0, 0.0), high=(1.0, 100.0))
    change = np.asarray(smoothed - action)
    # Half ranges are 1 and 50. The bounds lie five deviations off.
    np.testing.assert_allclose(change.std(axis=0), [0.2 * 1, 0.2 * 50], rtol=0.03)
    np.testing.assert_allclose(change.mean(axis=0) / [1, 50], [0.0, 0.0], atol=0.01)
    assert abs(np.corrcoef(change.T)[0, 1]) < 0.05
    assert len(np.unique(change[:, 0])) > 9_900


def test_smoothing_noise_is_clipped_in_half_action_ranges():
    action = jnp.tile(jnp.array([[0.0, 50.0]]), (100, 1))
    smoothed = losses.smoothed_action(action, jax.random.key(0), 1e6, 0.5, low=(-1.0, 0.0), high=(1.0, 100.0))
    # Such noise is always past its clip: 0.5 of a half range up or down.
    assert set(np.asarray(smoothed)[:, 0]) == {-0.5, 0.5}
    assert set(np.asarray(smoothed)[:, 1]) == {25.0, 75.0}


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ([-0.5, 2.0], [-5.0, 20.0]),  # both for ever
        ([0.2, 2.0], [0.2, 20.0]),  # an end at once is the least where every step pays
        ([-3.0, -1.0], [-30.0, -1.0]),  # and the most where every step costs
    ],
)
def test_what_a_state_can_be_worth(rewards, expected):
    np.testing.assert_allclose(losses.possible_worths(jnp.array(rewards), 0.9), expected, rtol=1e-5)


@pytest.mark.parametrize(("waits", "expected"), [(True, [0.0, 0.0]), (False, [3.0, 4.0])])
def test_an_actor_that_waits_has_a_gradient_of_zero_and_the_metrics_of_its_loss(waits, expected):
    def loss(actor, critics, batch, key):
        value = jnp.sum(actor["weight"] * critics)
        return value + batch, {"actor/loss": value}

    given = {"weight": jnp.array([1.0, 2.0])}, jnp.array([3.0, 4.0]), 5.0, jax.random.key(0)
    gradient, metrics = losses.gradient_unless(jnp.asarray(waits), loss, *given)
    np.testing.assert_array_equal(gradient["weight"], expected)
    np.testing.assert_allclose(metrics["actor/loss"], 1 * 3 + 2 * 4)

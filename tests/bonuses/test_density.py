"""The density bonus by hand: one observation, one action in [-1, 3]."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tether
from tether import Density
from tether.bonuses.density import Behaviour, leaning
from tether.networks import MLP

KEY = jax.random.key(0)
novelty = jax.jit(Density.novelty, static_argnums=0)


def constant(*outputs: float, discrete: bool = False, components: int = 1) -> Behaviour:
    bounds = ((0.0,) * len(outputs), (1.0,) * len(outputs)) if discrete else ((-1.0,), (3.0,))
    network = MLP((jnp.zeros((1, len(outputs))),), (jnp.array(outputs),), None, ("none",))
    return Behaviour(network, *bounds, discrete, components)


def test_it_is_half_the_squared_distance_in_standard_deviations():
    # The mean is the middle, 1; log 0.25 in half ranges of 2 is a standard deviation of 0.5.
    state, action = constant(0.0, math.log(0.25)), jnp.array([[1.0], [1.5], [3.0]])
    np.testing.assert_allclose(Density().novelty(state, jnp.zeros((3, 1)), action, KEY), [0.0, 0.5, 8.0], atol=1e-5)
    expected = -math.log(0.5) - 0.5 * math.log(2 * math.pi) - np.array([0.0, 0.5, 8.0])
    np.testing.assert_allclose(Density().log_probability(state, jnp.zeros((3, 1)), action), expected, rtol=1e-5)


def test_between_two_policies_a_mixture_sees_a_gap_where_one_gaussian_sees_the_middle():
    # Means at -0.5 and 2.5 (+-0.75 scaled to [-1, 3]), deviations 0.25, equal weights: the middle is 6 deviations off.
    raw = math.atanh(0.75)
    state = constant(-raw, raw, math.log(0.125), math.log(0.125), 0.0, 0.0, components=2)
    action = jnp.array([[-0.5], [2.5], [1.0], [2.75]])
    # At a mean the other component is 12 deviations away, which is nothing; in the middle both are alike: 18 - log 2.
    expected = [0.0, 0.0, 18.0 - math.log(2.0), 0.5]
    np.testing.assert_allclose(novelty(Density(components=2), state, jnp.zeros((4, 1)), action, KEY), expected, atol=1e-4)


def test_a_heavier_component_is_the_likeliest():
    # Weights 0.75 and 0.25 of the same width, far apart: the lighter mean is less likely by log 3.
    raw = math.atanh(0.75)
    state = constant(-raw, raw, math.log(0.125), math.log(0.125), math.log(3.0), 0.0, components=2)
    found = novelty(Density(components=2), state, jnp.zeros((2, 1)), jnp.array([[-0.5], [2.5]]), KEY)
    np.testing.assert_allclose(found, [0.0, math.log(3.0)], atol=1e-4)


def test_the_anchor_is_the_heaviest_gaussian_not_the_highest():
    # Weights 0.75 and 0.25; the lighter one is 50 times as narrow, so that its mean has the highest density of all.
    raw = math.atanh(0.75)
    state = constant(-raw, raw, math.log(0.25), math.log(0.005), math.log(3.0), 0.0, components=2)
    density, here = Density(components=2), jnp.zeros((1, 1))
    assert novelty(density, state, here, jnp.array([[2.5]]), KEY)[0] < 1e-6
    assert novelty(density, state, here, jnp.array([[-0.5]]), KEY)[0] > 2.0
    mean, std = density.anchor(state, here)
    np.testing.assert_allclose([mean[0, 0], std[0, 0]], [-0.5, 0.5], rtol=1e-5)


def test_no_gaussian_is_narrower_than_the_least():
    # The network says e^-9, the least is 0.1, half the range is 2: a standard deviation of 0.2.
    state = Behaviour(constant(0.0, -9.0).network, (-1.0,), (3.0,), False, 1, 0.1)
    np.testing.assert_allclose(Density().anchor(state, jnp.zeros((1, 1))).std, [[0.2]], rtol=1e-5)


def test_rows_of_better_episodes_count_more():
    # exp(0), exp(-2), exp(-4) over their mean.
    raw = np.exp([0.0, -2.0, -4.0])
    np.testing.assert_allclose(leaning(jnp.array([0.0, 0.5, 1.0]), 4.0), raw / raw.mean(), rtol=1e-5)


@pytest.mark.parametrize(("lean", "usual"), [(0.0, -0.5), (6.0, 0.5)])
def test_it_leans_to_what_the_better_episodes_did(lean: float, usual: float):
    """Two episodes in three do -0.5 and get nothing, one does 0.5 and gets 1 a step: most do the one, the best the other."""
    rows = 300
    best = np.arange(rows) // 10 % 3 == 0
    action = np.where(best, 0.5, -0.5)[:, None] + 0.05 * np.random.default_rng(0).normal(size=(rows, 1))
    log = tether.dataset(
        observations=np.zeros((rows, 1)),
        actions=action,
        rewards=best.astype(float),
        terminated=np.zeros(rows),
        episode_ends=list(range(10, rows + 1, 10)),
        next_observations=np.zeros((rows, 1)),
    )
    bonus = Density(
        components=2, lean_to_best=lean, hidden_sizes=(8,), steps=600, learning_rate=1e-2, batch_size=64, held_out_share=0.0
    )
    fitted = tether.fit(bonus, log, cache=False)
    np.testing.assert_allclose(fitted.penalty.anchor(jnp.zeros((1, 1))).mean, [[usual]], atol=0.05)


def test_of_choices_it_is_how_much_less_likely_the_choice_is_than_the_likeliest():
    state = constant(math.log(6.0), math.log(3.0), math.log(1.0), discrete=True)  # 0.6, 0.3, 0.1
    np.testing.assert_allclose(
        Density().novelty(state, jnp.zeros((3, 1)), jnp.eye(3), KEY), [0.0, math.log(2.0), math.log(6.0)], atol=1e-6
    )
    np.testing.assert_allclose(
        Density().log_probability(state, jnp.zeros((3, 1)), jnp.eye(3)), np.log([0.6, 0.3, 0.1]), rtol=1e-5
    )

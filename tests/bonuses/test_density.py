"""The density bonus by hand: one observation, one action in [-1, 3]."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from tether import Density
from tether.bonuses.density import Behaviour
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


def test_of_choices_it_is_how_much_less_likely_the_choice_is_than_the_likeliest():
    state = constant(math.log(6.0), math.log(3.0), math.log(1.0), discrete=True)  # 0.6, 0.3, 0.1
    np.testing.assert_allclose(
        Density().novelty(state, jnp.zeros((3, 1)), jnp.eye(3), KEY), [0.0, math.log(2.0), math.log(6.0)], atol=1e-6
    )
    np.testing.assert_allclose(
        Density().log_probability(state, jnp.zeros((3, 1)), jnp.eye(3)), np.log([0.6, 0.3, 0.1]), rtol=1e-5
    )

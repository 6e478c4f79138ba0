"""Gradient steps and averages, against numbers worked by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from tether.optimisation import adam_init, adam_step, copy_of, mix


def test_adam_goes_one_learning_rate_against_a_steady_gradient():
    # With a gradient that never changes, Adam's corrected moments are g and g^2: a step is learning_rate * g / |g|.
    weights = {"a": jnp.array([1.0, 1.0]), "b": jnp.array([5.0])}
    gradient = {"a": jnp.array([0.3, -20.0]), "b": jnp.array([1e-3])}
    optimiser = adam_init(weights, 0.1)
    for _ in range(3):
        weights, optimiser = adam_step(weights, gradient, optimiser, 0.1)
    np.testing.assert_allclose(weights["a"], [0.7, 1.3], rtol=1e-5)
    np.testing.assert_allclose(weights["b"], [4.7], rtol=1e-5)


def test_mix_takes_the_share_from_the_fast():
    mixed = mix({"w": jnp.array([4.0, 0.0])}, {"w": jnp.array([8.0, -4.0])}, 0.25)
    np.testing.assert_allclose(mixed["w"], [5.0, -1.0])  # 0.75 * 4 + 0.25 * 8; 0.25 * -4


def test_a_copy_has_the_values_and_none_of_the_buffers():
    tree = {"a": jnp.arange(3.0), "b": jnp.ones(())}
    copied = copy_of(tree)
    for given, fresh in zip(jax.tree.leaves(tree), jax.tree.leaves(copied), strict=True):
        np.testing.assert_array_equal(given, fresh)
        assert given.unsafe_buffer_pointer() != fresh.unsafe_buffer_pointer()

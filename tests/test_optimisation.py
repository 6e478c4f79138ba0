"""Gradient steps and averages, against numbers worked by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from tether.optimisation import ADAM, Optimiser, copy_of, mix


def test_adam_goes_one_learning_rate_against_a_steady_gradient():
    # With a gradient that never changes, Adam's corrected moments are g and g^2: a step is learning_rate * g / |g|.
    weights = {"a": jnp.array([1.0, 1.0]), "b": jnp.array([5.0])}
    gradient = {"a": jnp.array([0.3, -20.0]), "b": jnp.array([1e-3])}
    optimiser = ADAM.start(weights, 0.1)
    for _ in range(3):
        weights, optimiser = ADAM.step(weights, gradient, optimiser, 0.1)
    np.testing.assert_allclose(weights["a"], [0.7, 1.3], rtol=1e-5)
    np.testing.assert_allclose(weights["b"], [4.7], rtol=1e-5)


def steps(optimiser: Optimiser, count: int, length: int = 1) -> list[float]:
    """Where a weight of 1 is after each step down a steady gradient at a rate of 0.1, of `length` planned steps."""
    weights, gradient, found = {"w": jnp.array([[1.0]])}, {"w": jnp.array([[3.0]])}, []
    state = optimiser.start(weights, 0.1, length)
    for _ in range(count):
        weights, state = optimiser.step(weights, gradient, state, 0.1)
        found.append(float(weights["w"][0, 0]))
    return found


def test_a_schedule_falls_to_nothing_over_the_planned_length():
    # Of 4 steps: 1, 3/4, 1/2, 1/4 of the rate, then none. The cosine: (1 + cos(k pi / 4)) / 2 = 1, 0.8536, 0.5, 0.1464, 0.
    np.testing.assert_allclose(steps(Optimiser(schedule="linear"), 6, 4), [0.9, 0.825, 0.775, 0.75, 0.75, 0.75], rtol=1e-5)
    cosine = 1.0 - 0.1 * np.cumsum([1.0, 0.853553, 0.5, 0.146447, 0.0])
    np.testing.assert_allclose(steps(Optimiser(schedule="cosine"), 5, 4), cosine, rtol=1e-5)
    np.testing.assert_allclose(steps(ADAM, 3, 4), [0.9, 0.8, 0.7], rtol=1e-5)


def test_weight_decay_pulls_matrices_and_nothing_else():
    weights = {"matrix": jnp.array([[2.0]]), "bias": jnp.array([2.0])}
    gradient = {"matrix": jnp.array([[0.0]]), "bias": jnp.array([0.0])}
    optimiser = Optimiser(weight_decay=0.5)
    after, _ = optimiser.step(weights, gradient, optimiser.start(weights, 0.1), 0.1)
    np.testing.assert_allclose(after["matrix"], [[2.0 - 0.1 * 0.5 * 2.0]], rtol=1e-6)  # AdamW: rate * decay * weight
    np.testing.assert_array_equal(after["bias"], [2.0])


def test_a_gradient_is_clipped_by_the_norm_of_the_whole():
    # (3, 4) has norm 5 and becomes (0.6, 0.8); Adam's first moment after a step is a tenth of that.
    weights = {"a": jnp.array([0.0]), "b": jnp.array([0.0])}
    gradient = {"a": jnp.array([3.0]), "b": jnp.array([4.0])}
    optimiser = Optimiser(clip_norm=1.0)
    _, state = optimiser.step(weights, gradient, optimiser.start(weights, 0.1), 0.1)
    moments = next(leaf for leaf in jax.tree.leaves(state, is_leaf=lambda node: hasattr(node, "mu")) if hasattr(leaf, "mu"))
    np.testing.assert_allclose([moments.mu["a"][0], moments.mu["b"][0]], [0.06, 0.08], rtol=1e-5)


def test_mix_takes_the_share_from_the_fast():
    mixed = mix({"w": jnp.array([4.0, 0.0])}, {"w": jnp.array([8.0, -4.0])}, 0.25)
    np.testing.assert_allclose(mixed["w"], [5.0, -1.0])  # 0.75 * 4 + 0.25 * 8; 0.25 * -4


def test_a_copy_has_the_values_and_none_of_the_buffers():
    tree = {"a": jnp.arange(3.0), "b": jnp.ones(())}
    copied = copy_of(tree)
    for given, fresh in zip(jax.tree.leaves(tree), jax.tree.leaves(copied), strict=True):
        np.testing.assert_array_equal(given, fresh)
        assert given.unsafe_buffer_pointer() != fresh.unsafe_buffer_pointer()

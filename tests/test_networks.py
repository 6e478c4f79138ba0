"""Networks with weights set by hand."""

from __future__ import annotations

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from tether.networks import (
    MLP,
    Critics,
    Dropout,
    LayerNorm,
    Layers,
    Scaler,
    elu,
    make_critics,
    make_mlp,
    make_scaler,
    scale_to_bounds,
)
from tether.policies import Deterministic
from tether.policies.deterministic import make_deterministic
from tether.types import Spec

SPEC = Spec(observation_size=3, action_low=(-1.0, 0.0), action_high=(1.0, 4.0))


def test_layers_are_products_biases_and_activations_in_order():
    network = MLP(
        weights=(jnp.array([[1.0, 0.0], [0.0, -1.0]]), jnp.array([[2.0], [3.0]])),
        biases=(jnp.array([0.5, 0.0]), jnp.array([1.0])),
        norm=None,
        activations=("relu", "none"),
    )
    # (1, 2) -> (1 + 0.5, -2) -> relu (1.5, 0) -> 2 * 1.5 + 1 = 4;  (0, -1) -> (0.5, 1) -> 1 + 3 + 1 = 5.
    np.testing.assert_allclose(network(jnp.array([[1.0, 2.0], [0.0, -1.0]])), [[4.0], [5.0]])


@pytest.mark.parametrize(
    ("name", "at_minus_one", "at_two"),
    [("relu", 0.0, 2.0), ("tanh", -math.tanh(1), math.tanh(2)), ("elu", math.exp(-1) - 1, 2.0), ("none", -1.0, 2.0)],
)
def test_activations(name, at_minus_one, at_two):
    network = MLP((jnp.ones((1, 1)),), (jnp.zeros(1),), None, (name,))
    np.testing.assert_allclose(network(jnp.array([[-1.0], [2.0]])), [[at_minus_one], [at_two]], rtol=1e-6)


@pytest.mark.parametrize("x", [-1e4, -20.0, -1.0, -1e-4, 0.0, 1e-4, 1.0, 1e4])
def test_elu_and_its_slope_are_those_of_jax(x: float):
    (value, slope), (expected, expected_slope) = (jax.value_and_grad(function)(x) for function in (elu, jax.nn.elu))
    assert abs(float(value - expected)) <= 2e-7
    assert abs(float(slope - expected_slope)) <= 2e-7


def test_dropout_leaves_out_parts_of_hidden_layers_and_makes_up_for_them():
    """Two hidden layers of ones, 4 wide: a layer's number is 0 or 1 / 0.75, the next layer sums what is left of it."""
    wide, rows = 4, 3_000
    weights = (jnp.ones((1, wide)), jnp.eye(wide), jnp.ones((wide, 1)))
    network = MLP(weights, tuple(jnp.zeros(weight.shape[1]) for weight in weights), None, ("relu", "relu", "none"))
    seen = np.asarray(network(jnp.ones((rows, 1)), Dropout(0.25, jax.random.key(0))))
    np.testing.assert_allclose(np.asarray(network(jnp.ones((2, 1)))), wide)
    # Through both layers an entry survives with 0.75^2 and is then 1 / 0.75^2 = 16 / 9: sums are multiples of it, 4 in the mean.
    np.testing.assert_allclose(seen / (16 / 9), np.round(seen / (16 / 9)), atol=1e-5)
    assert abs(seen.mean() - wide) < 0.1
    survived = np.mean(seen) / (16 / 9) / wide
    assert abs(survived - 0.75**2) < 0.02  # were the layers' draws the same, it would be 0.75
    assert len(np.unique(np.round(seen, 3))) == wide + 1  # and rows differ


def test_layer_norm():
    norm = LayerNorm(scale=jnp.array([2.0, 3.0]), offset=jnp.array([10.0, 20.0]))
    # (1, 3): mean 2, variance 1 -> (-1, 1). (0, 10): mean 5, variance 25 -> (-1, 1).
    np.testing.assert_allclose(norm(jnp.array([[1.0, 3.0], [0.0, 10.0]])), [[8.0, 23.0], [8.0, 23.0]], rtol=1e-5)


def test_the_slopes_of_layer_norm():
    norm, x = LayerNorm(scale=jnp.array([2.0, 1.0, 1.0]), offset=jnp.zeros(3)), jnp.array([[0.0, 3.0, 6.0], [6.0, 3.0, 0.0]])
    back = jax.vjp(lambda norm, x: norm(x), norm, x)[1]
    slopes, along_x = back(jnp.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]))
    # (0, 3, 6): mean 3, variance 6 -> u = (-a, 0, a) with a = 3 / sqrt 6, the other row (a, 0, -a): the scale's slopes cancel.
    # Of x, with g = (2, 0, 0): g - 2/3 + u * 2a/3 = (4/3, -2/3, -2/3) + (-1, 0, 1) = (1/3, -2/3, 1/3), over sqrt 6.
    one = np.array([1.0, -2.0, 1.0]) / 3 / math.sqrt(6)
    np.testing.assert_allclose(along_x, [one, one], atol=1e-5)
    np.testing.assert_allclose(slopes.scale, [0.0, 0.0, 0.0], atol=1e-6)
    np.testing.assert_allclose(slopes.offset, [2.0, 0.0, 0.0], atol=1e-6)


def test_the_slopes_of_layer_norm_are_those_of_small_differences():
    key_x, key_scale, key_offset = jax.random.split(jax.random.key(0), 3)
    norm = LayerNorm(scale=jax.random.normal(key_scale, (5,)), offset=jax.random.normal(key_offset, (5,)))
    check_grads(lambda norm, x: norm(x), (norm, jax.random.normal(key_x, (4, 5))), order=1, modes=["rev"], rtol=1e-2)


def test_layer_norm_stands_between_the_first_product_and_its_activation():
    identity, zeros = jnp.eye(2), jnp.zeros(2)
    network = MLP((identity, 5.0 * identity), (zeros, zeros), LayerNorm(jnp.ones(2), zeros), ("relu", "none"))
    # (1, 3) -> normed (-1, 1) -> relu (0, 1) -> (0, 5). With the norm after the activation it would be (-5, 5).
    np.testing.assert_allclose(network(jnp.array([[1.0, 3.0]])), [[0.0, 5.0]], rtol=1e-5)


def test_norms_after_every_hidden_activation():
    twice = 2.0 * jnp.eye(2)
    network = MLP(
        (twice, twice), (jnp.zeros(2), jnp.zeros(2)), None, ("relu", "none"), None, (LayerNorm(jnp.ones(2), jnp.zeros(2)),)
    )
    # (-1, 3) -> (-2, 6) -> relu (0, 6) -> normed (-1, 1) -> (-2, 2).
    np.testing.assert_allclose(network(jnp.array([[-1.0, 3.0]])), [[-2.0, 2.0]], rtol=1e-4)
    made = make_mlp(jax.random.key(0), 4, Layers((8, 6), norm="every"), 2)
    assert [norm.scale.shape for norm in made.norms] == [(8,), (6,)]
    assert made.norm is None


def test_a_start_as_rlkits_has_small_last_layers_and_equal_biases():
    hidden, last = make_mlp(jax.random.key(0), 4, Layers((100,), last_within=3e-3), 50).weights
    assert 0.09 < float(jnp.max(jnp.abs(hidden))) <= 0.1  # 1 / sqrt(100)
    assert 2.9e-3 < float(jnp.max(jnp.abs(last))) <= 3e-3
    first, second = make_mlp(jax.random.key(0), 4, Layers((100,), last_within=3e-3), 50).biases
    np.testing.assert_array_equal(first, np.full(100, 0.1, np.float32))
    assert 0.0 < float(jnp.max(jnp.abs(second))) <= 3e-3


def test_fresh_layers_fill_one_over_root_of_inputs_either_way():
    network = make_mlp(jax.random.key(0), 4, Layers((100,), ("tanh",)), 100)
    assert [weight.shape for weight in network.weights] == [(4, 100), (100, 100)]
    assert [bias.shape for bias in network.biases] == [(100,), (100,)]
    for bound, weight, bias in zip([1 / 2, 1 / 10], network.weights, network.biases, strict=True):
        for values in (np.asarray(weight), np.asarray(bias)):
            assert -bound <= values.min() < -0.9 * bound
            assert 0.9 * bound < values.max() <= bound
    assert abs(np.corrcoef(*network.biases)[0, 1]) < 0.3  # no layer repeats another's draw


def test_fresh_layer_norm_does_nothing_but_normalise():
    network = make_mlp(jax.random.key(0), 4, Layers((), norm="first"), 100)
    np.testing.assert_array_equal(network.norm.scale, np.ones(100))
    np.testing.assert_array_equal(network.norm.offset, np.zeros(100))


def test_a_scaler_inside_scales_the_observation_and_leaves_the_rest():
    scaler = Scaler(mean=jnp.array([1.0, -1.0]), std=jnp.array([2.0, 0.5]))
    network = MLP((jnp.eye(3),), (jnp.zeros(3),), None, ("none",), scaler)
    # ((3 - 1) / 2, (0 + 1) / 0.5, 7)
    np.testing.assert_allclose(network(jnp.array([[3.0, 0.0, 7.0]])), [[1.0, 2.0, 7.0]])
    slope = jax.grad(lambda network: jnp.sum(network(jnp.array([[3.0, 0.0, 7.0]]))))(network)
    np.testing.assert_array_equal(slope.scaler.mean, np.zeros(2))  # it does not learn
    np.testing.assert_array_equal(slope.scaler.std, np.zeros(2))
    assert np.asarray(slope.weights[0]).any()


@pytest.mark.parametrize("value", [0.0, 60.6, 300.15, 836.31, 101_325.0])
def test_a_constant_feature_is_only_centred(value: float):
    column = np.stack([np.full(100_000, value), np.tile([value - 1.0, value + 1.0], 50_000)], axis=1).astype(np.float32)
    scaler = jax.jit(make_scaler)(column)
    np.testing.assert_allclose(scaler.std, [1.0, 1.0], rtol=1e-3)
    np.testing.assert_allclose(scaler.mean, [value, value], rtol=1e-6)


def test_scale_to_bounds():
    unit = jnp.array([[-1.0, -1.0], [0.0, 0.0], [1.0, 1.0], [0.5, -0.5]])
    expected = [[-1.0, 0.0], [0.0, 2.0], [1.0, 4.0], [0.5, 1.0]]
    np.testing.assert_allclose(scale_to_bounds(unit, SPEC.action_low, SPEC.action_high), expected)


def test_an_actor_is_tanh_scaled_to_the_bounds():
    last = MLP((jnp.zeros((3, 2)),), (jnp.array([math.atanh(0.5), -100.0]),), None, ("tanh",))
    action = Deterministic(last, SPEC.action_low, SPEC.action_high)(jnp.ones((1, 3)))
    np.testing.assert_allclose(action, [[0.5, 0.0]], rtol=1e-6)  # half way up from the middle; the bottom


def test_a_fresh_actor_ends_in_tanh():
    actor = jax.eval_shape(lambda key: make_deterministic(key, SPEC, Layers((16, 16), ("tanh", "elu"))), jax.random.key(0))
    assert actor.network.activations == ("tanh", "elu", "tanh")
    assert (actor.low, actor.high) == (SPEC.action_low, SPEC.action_high)


def test_critics_give_a_row_each_and_the_first_is_row_zero():
    # Over (s, a) of sizes 1 and 2: Q_1 = s + 10 a_1 + 100 a_2, Q_2 = -s + 5.
    triples = ((1.0, 10.0, 100.0), 0.0), ((-1.0, 0.0, 0.0), 5.0)
    critics = Critics(tuple(MLP((jnp.array([w]).T,), (jnp.array([bias]),), None, ("none",)) for w, bias in triples))
    observation, action = jnp.array([[1.0], [2.0]]), jnp.array([[0.1, 0.01], [0.2, 0.02]])
    np.testing.assert_allclose(critics(observation, action), [[3.0, 6.0], [4.0, 3.0]])
    np.testing.assert_allclose(critics.first(observation, action), [3.0, 6.0])


def test_fresh_critics_differ_from_each_other():
    critics = make_critics(jax.random.key(0), SPEC, 2, Layers(()))
    values = critics(jnp.ones((4, 3)), jnp.ones((4, 2)))
    assert values.shape == (2, 4)
    assert abs(float(values[0, 0] - values[1, 0])) > 1e-3


def test_a_network_has_any_number_of_hidden_layers_and_the_last_activation_is_that_of_the_rest():
    for sizes, expected in (((4,), ("tanh",)), ((4, 5, 6), ("tanh", "elu", "elu"))):
        made = partial(make_mlp, inputs=2, layers=Layers(sizes, ("tanh", "elu")), outputs=3)
        assert jax.eval_shape(made, jax.random.key(0)).activations == (*expected, "none")
        assert jax.eval_shape(lambda key, made=made: made(key)(jnp.zeros((1, 2))), jax.random.key(0)).shape == (1, 3)

"""RND in both forms: embeddings set by hand, running moments worked by hand, and what learns and what does not."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import SPEC, small, two_blobs

from tether import RND, RNDFiLM
from tether.bonuses.rnd import RNDFitting, RNDNetworks, RunningMoments, freeze, merged
from tether.bonuses.rnd_film import BilinearMLP, FiLMMLP
from tether.networks import MLP, Scaler
from tether.types import Problem


def linear(*rows: list[float]) -> MLP:
    weight = jnp.array(rows)
    return MLP((weight,), (jnp.zeros(weight.shape[1]),), None, ("none",))


def unscaled(size: int) -> Scaler:
    return Scaler(jnp.zeros(size), jnp.ones(size))


def test_the_bonus_is_the_squared_distance_of_the_embeddings_over_its_std():
    networks = RNDNetworks(linear([1.0, 0.0], [0.0, 1.0]), linear([3.0, 0.0], [0.0, 2.0]), unscaled(1), unscaled(1))
    # (s, a) = (1, 2): predictor (1, 2), target (3, 4), squared distance 4 + 4; the errors so far had variance 16.
    fitting = RNDFitting(networks, (), RunningMoments(jnp.array(8.0), jnp.array(1.0), jnp.array(16.0)))
    pair = jnp.array([[1.0]]), jnp.array([[2.0]]), jax.random.key(0)
    np.testing.assert_allclose(RND().novelty(freeze(fitting, divide_by_std=True), *pair), [2.0])
    np.testing.assert_allclose(RND().novelty(freeze(fitting, divide_by_std=False), *pair), [8.0])


def test_before_any_error_is_seen_nothing_is_divided():
    fresh = RND(predictor_sizes=(4,), target_sizes=(4,)).init(jax.random.key(0), Problem(SPEC, two_blobs()))
    assert float(freeze(fresh, divide_by_std=True).scale) == 1.0


def test_moments_of_two_batches_are_those_of_all_their_values():
    none = RunningMoments(jnp.zeros(()), jnp.zeros(()), jnp.zeros(()))
    both = merged(merged(none, jnp.array([1.0, 3.0])), jnp.array([8.0]))
    # 1, 3, 8: mean 4, squared distances 9 + 1 + 16 = 26.
    np.testing.assert_allclose(both, (3.0, 4.0, 26.0 / 3.0), rtol=1e-6)


def test_a_bilinear_layer_is_a_weighted_sum_of_products_of_entries():
    # One unit: 1 s_1 a_1 + 2 s_1 a_2 + 3 s_2 a_1 + 4 s_2 a_2 + 10, then relu and a factor of 2.
    network = BilinearMLP(jnp.array([[[1.0], [2.0]], [[3.0], [4.0]]]), jnp.array([10.0]), linear([2.0]))
    observation, action = jnp.array([[1.0, 2.0], [1.0, 2.0]]), jnp.array([[5.0, 7.0], [-5.0, -7.0]])
    # 5 + 14 + 30 + 56 + 10 = 115; the second is -105 + 10, below zero.
    np.testing.assert_allclose(network(observation, action), [[230.0], [0.0]])


def test_film_scales_and_shifts_the_last_hidden_layer_by_the_observation():
    # Of the observation s: scale 2 s, shift 3 s. Of the action a: hidden 5 a. Out: relu(2 s * 5 a + 3 s).
    network = FiLMMLP(trunk=linear([5.0]), scale_and_shift=linear([2.0, 3.0]), head=linear([1.0]))
    observation, action = jnp.array([[1.0], [2.0], [1.0]]), jnp.array([[1.0], [1.0], [-1.0]])
    np.testing.assert_allclose(network(observation, action), [[13.0], [26.0], [0.0]])


@pytest.mark.parametrize("kind", [RND, RNDFiLM])
def test_only_the_predictor_learns(kind: type):
    bonus, rows = small(kind), two_blobs()
    before = bonus.init(jax.random.key(0), Problem(SPEC, rows))
    after, _ = jax.jit(bonus.update)(before, rows, jax.random.key(1))
    jax.tree.map(np.testing.assert_array_equal, before.networks.target, after.networks.target)
    for old, new in zip(jax.tree.leaves(before.networks.predictor), jax.tree.leaves(after.networks.predictor), strict=True):
        assert not np.array_equal(old, new)


def networks_of(bonus: RND | RNDFiLM) -> Any:
    return jax.eval_shape(lambda key: bonus.init(key, Problem(SPEC, two_blobs())), jax.random.key(0)).networks


def test_predictor_and_target_have_sizes_of_their_own():
    networks = networks_of(RND(predictor_sizes=(8,), target_sizes=(5, 6), embedding_size=3))
    assert [weight.shape for weight in networks.predictor.weights] == [(4, 8), (8, 3)]
    assert [weight.shape for weight in networks.target.weights] == [(4, 5), (5, 6), (6, 3)]
    networks = networks_of(RNDFiLM(predictor_sizes=(8, 7), target_sizes=(5, 6), embedding_size=3))
    assert networks.predictor.kernel.shape == (2, 2, 8)
    assert [weight.shape for weight in networks.predictor.rest.weights] == [(8, 7), (7, 3)]
    assert [weight.shape for weight in networks.target.trunk.weights] == [(2, 5), (5, 6)]
    assert networks.target.scale_and_shift.weights[0].shape == (2, 12)

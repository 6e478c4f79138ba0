"""Forward models: disagreement by hand, and what their loss leaves out."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from problems import SPEC, small, two_blobs

from tether import Forward
from tether.bonuses.forward import ForwardNetworks
from tether.networks import MLP, Scaler
from tether.types import Problem

UNSCALED = Scaler(jnp.zeros(1), jnp.ones(1))


def test_the_bonus_is_the_variance_between_the_models_summed_over_entries():
    # Of (s, a) = (1, 1) the two models predict (1, 1) and (3, 7): variances 1 and 9.
    weights = jnp.array([[[1.0, 1.0], [0.0, 0.0]], [[1.0, 3.0], [2.0, 4.0]]])
    networks = ForwardNetworks(MLP((weights,), (jnp.zeros((2, 2)),), None, ("none",)), UNSCALED, UNSCALED, UNSCALED)
    np.testing.assert_allclose(Forward().novelty(networks, jnp.ones((1, 1)), jnp.ones((1, 1)), jax.random.key(0)), [10.0])


def test_terminated_rows_teach_nothing():
    bonus, rows = small(Forward), two_blobs()
    fitting = bonus.init(jax.random.key(0), Problem(SPEC, rows))
    ended = rows._replace(terminated=jnp.ones_like(rows.terminated))
    after, metrics = jax.jit(bonus.update)(fitting, ended, jax.random.key(1))
    assert float(metrics["bonus/loss"]) == 0.0
    jax.tree.map(np.testing.assert_array_equal, fitting.networks, after.networks)


def test_the_models_start_apart():
    models = small(Forward).init(jax.random.key(0), Problem(SPEC, two_blobs())).networks.models
    first, second, third = models.weights[0]
    assert not np.array_equal(first, second)
    assert not np.array_equal(second, third)

"""ReBRAC's two penalties by hand: one observation, one action in [-1, 3], so that half the range is 2."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tether import ReBRAC
from tether.agents.rebrac import actor_loss, next_distance
from tether.networks import MLP, Critics
from tether.policies import Deterministic
from tether.types import Batch, batch_type

ACTOR = Deterministic(MLP((jnp.zeros((1, 1)),), (jnp.array([0.0]),), None, ("tanh",)), (-1.0,), (3.0,))  # always 1
COLUMN = jnp.array([[1.0], [7.0]])
BATCH = Batch(COLUMN, jnp.array([[1.0], [3.0]]), jnp.zeros(2), COLUMN, jnp.zeros(2))


def critic(slope: float, offset: float) -> MLP:
    """Q = slope s - 3 a + offset."""
    return MLP((jnp.array([[slope], [-3.0]]),), (jnp.array([offset]),), None, ("none",))


def no_penalty(observation: jax.Array, action: jax.Array, key: jax.Array) -> jax.Array:
    return jnp.zeros(observation.shape[0])


def test_the_actor_s_loss_by_hand():
    # At a = 1: Q_1 = s - 3 = (-2, 4), Q_2 = 10 - 3 = (7, 7): the least has mean 1 and mean size 3. Distances: 0 and (2 / 2)^2.
    critics = Critics((critic(1.0, 0.0), critic(0.0, 10.0)))
    loss, metrics = actor_loss(ReBRAC(cloning_weight_actor=0.2), no_penalty, ACTOR, critics, BATCH, jax.random.key(0))
    assert float(loss) == pytest.approx(0.2 * 0.5 - 1 / 3, rel=1e-5)
    assert float(metrics["actor/cloning"]) == pytest.approx(0.5)


def test_the_critic_pays_for_the_distance_to_the_next_recorded_action_where_there_is_one():
    columns = ("next_action", "has_next_action")
    rows = batch_type(columns)(*BATCH, jnp.array([[2.0], [0.0]]), jnp.array([1.0, 0.0]))
    cost, told = next_distance(
        ReBRAC(cloning_weight_critic=0.5), jnp.array([[2.0]]), rows, jnp.array([[3.0], [3.0]]), COLUMN, jax.random.key(0)
    )
    np.testing.assert_allclose(told["critic/cloning"], [0.25, 0.0])  # ((3 - 2) / 2)^2; the other row ends its episode
    np.testing.assert_allclose(cost, [0.125, 0.0])

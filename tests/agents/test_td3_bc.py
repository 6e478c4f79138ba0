"""TD3+BC's actor loss by hand: one observation, one action in [-1, 3], so that half the range is 2."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import initial_state

from tether import TD3BC
from tether.agents.td3_bc import actor_loss
from tether.networks import MLP, Critics
from tether.policies import Deterministic
from tether.training.divergence import check_finite
from tether.training.loop import Epoch
from tether.types import Batch

ACTOR = Deterministic(MLP((jnp.zeros((1, 1)),), (jnp.array([0.0]),), None, ("tanh",)), (-1.0,), (3.0,))  # always 1
CRITICS = Critics((MLP((jnp.array([[1.0], [-3.0]]),), (jnp.zeros(1),), None, ("none",)),))  # Q = s - 3 a
COLUMN = jnp.array([[1.0], [7.0]])
BATCH = Batch(COLUMN, jnp.array([[1.0], [3.0]]), jnp.zeros(2), COLUMN, jnp.zeros(2))


def penalty(observation: jax.Array, action: jax.Array, key: jax.Array) -> jax.Array:
    return observation[:, 0]


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        # Q = (-2, 4), mean 1, mean size 3; (1 - 1)^2 and ((1 - 3) / 2)^2 have mean 0.5: 0.5 - 2.5 / 3 * 1.
        (TD3BC(), 0.5 - 2.5 / 3),
        (TD3BC(alpha=6.0), 0.5 - 2.0),
        # The bonus is (1, 7), mean 4, in units of Q's mean size: 0.5 - 2.5 * (1 / 3 - 0.25 * 4).
        (TD3BC(bonus_weight_actor=0.25), 0.5 - 2.5 * (1 / 3 - 1.0)),
    ],
)
def test_the_loss_by_hand(agent: TD3BC, expected: float):
    loss, metrics = actor_loss(agent, penalty, ACTOR, CRITICS, BATCH, jax.random.key(0))
    assert float(loss) == pytest.approx(expected, rel=1e-5)
    assert float(metrics["actor/cloning"]) == pytest.approx(0.5)
    assert float(metrics["actor/data_distance"]) == pytest.approx(2.0)  # (0 + 4) / 2, unscaled


def test_the_size_of_q_has_no_slope():
    # The action moves by 2 with the bias (tanh' = 1 at 0, half range 2). Cloning: 2 times the mean of 2 (1 - a) / 4, at a = 1, 3.
    # Q: -2.5 / 3 * (-3) * 2 = 5. Were the divisor part of it, the slope would be another.
    slope = jax.grad(lambda actor: actor_loss(TD3BC(), penalty, actor, CRITICS, BATCH, jax.random.key(0))[0])(ACTOR)
    cloning = np.mean([2.0 * (1.0 - 1.0) / 4.0, 2.0 * (1.0 - 3.0) / 4.0]) * 2.0
    np.testing.assert_allclose(slope.network.biases[0], [cloning + 5.0], rtol=1e-5)
    assert math.isclose(cloning, -1.0)


def test_a_critic_of_zeros_divides_by_nothing():
    zero = jax.tree.map(jnp.zeros_like, CRITICS)
    loss, _ = actor_loss(TD3BC(), penalty, ACTOR, zero, BATCH, jax.random.key(0))
    assert float(loss) == pytest.approx(0.5)


def test_bounded_values_have_no_least_where_the_critics_pay_a_bonus():
    free, paying = (initial_state(TD3BC(bound_values=True, bonus_weight_critic=weight)).possible for weight in (0.0, 0.1))
    assert np.isfinite(free).all()
    np.testing.assert_array_equal(paying, [np.finfo(np.float32).min, free[1]])
    assert initial_state(TD3BC()).possible is None
    agent = TD3BC(bound_values=True, bonus_weight_critic=0.1)
    check_finite(Epoch(1_000, initial_state(agent), {"critic/q": 0.1}), agent, 1e5, "here")  # none of it is taken for divergence

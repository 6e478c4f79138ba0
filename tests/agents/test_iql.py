"""IQL by hand: the expectile, the weights of the actor, and the likelihood; and that it values no action but recorded ones."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import constant_reward, go_on, initial_state, small

from tether import IQL
from tether.agents.iql import expectile_loss
from tether.agents.weighted_cloning import Clone, advantage_weight, weighted_cloning_loss
from tether.networks import MLP
from tether.policies import Deterministic
from tether.types import Batch

MEAN = Deterministic(MLP((jnp.zeros((1, 1)),), (jnp.array([0.0]),), None, ("tanh",)), (-1.0,), (3.0,))  # always 1
COLUMN = jnp.array([[1.0], [7.0]])
BATCH = Batch(COLUMN, jnp.array([[1.0], [3.0]]), jnp.zeros(2), COLUMN, jnp.zeros(2))


def test_the_expectile_weighs_what_is_above_more():
    np.testing.assert_allclose(expectile_loss(jnp.array([2.0, -2.0, 0.0]), 0.7), [2.8, 1.2, 0.0], rtol=1e-6)


def test_the_minimum_is_the_expectile():
    """Of 0 and 1 in equal number, the 0.7-expectile m has 0.7 (1 - m) = 0.3 m, so m = 0.7."""
    values = np.linspace(0.0, 1.0, 1001)
    losses = [float(jnp.mean(expectile_loss(jnp.array([0.0, 1.0]) - value, 0.7))) for value in values[::10]]
    assert values[::10][int(np.argmin(losses))] == pytest.approx(0.7)


def test_an_advantage_weighs_by_its_exponential_up_to_a_hundred():
    found = advantage_weight(jnp.array([0.0, 0.5, -1.0, 50.0]), 3.0, 100.0)
    np.testing.assert_allclose(found, [1.0, math.exp(1.5), math.exp(-3.0), 100.0], rtol=1e-5)


def test_the_actor_s_loss_by_hand():
    # Log-std 0 in half ranges of 2: distances 0 and 1, log-probabilities -c and -0.5 - c with c = 0.5 log 2 pi.
    c = 0.5 * math.log(2 * math.pi)
    actor = Clone(MEAN, jnp.zeros(1))
    loss, _ = weighted_cloning_loss(
        actor, BATCH, jnp.array([2.0, 4.0]), jax.random.key(0), lambda seen, action, key: seen[:, 0], bonus_weight=0.5
    )
    assert float(loss) == pytest.approx((2.0 * c + 4.0 * (0.5 + c)) / 2 + 0.5 * 4.0, rel=1e-5)


def test_the_actor_learns_with_dropout_and_acts_without():
    """A hidden layer of one number, 1, and an output of atanh(0.5) times it: the mean is 0.5, or 0 where that is left out."""
    weights = (jnp.ones((1, 1)), jnp.full((1, 1), math.atanh(0.5)))
    network = MLP(weights, (jnp.zeros(1), jnp.zeros(1)), None, ("relu", "tanh"))
    actor = Clone(Deterministic(network, (-1.0,), (1.0,)), jnp.zeros(1))
    rows = 64
    batch = Batch(jnp.ones((rows, 1)), jnp.zeros((rows, 1)), jnp.zeros(rows), jnp.ones((rows, 1)), jnp.zeros(rows))

    def distance(dropout: float) -> float:
        given = (actor, batch, jnp.ones(rows), jax.random.key(0), lambda seen, action, key: jnp.zeros(rows))
        return float(weighted_cloning_loss(*given, dropout=dropout)[1]["actor/data_distance"])

    assert distance(0.0) == pytest.approx(0.25, rel=1e-5)
    doubled = math.tanh(2 * math.atanh(0.5)) ** 2  # with a rate of a half, what is left counts twice
    assert distance(0.5) / doubled * rows == pytest.approx(round(distance(0.5) / doubled * rows), rel=1e-4)
    assert 0.2 < distance(0.5) / doubled < 0.8
    np.testing.assert_allclose(np.asarray(actor.mean(batch.observation)), 0.5, rtol=1e-5)


def test_what_the_policy_would_do_next_is_never_valued():
    """Another actor, the same critics after an update: nothing but recorded actions is in their targets."""
    agent, rows = small(IQL), constant_reward()
    ends = []
    for shift in (0.0, 3.0):
        state = initial_state(agent)
        biases = (*state.actor.mean.network.biases[:-1], state.actor.mean.network.biases[-1] + shift)
        network = MLP(state.actor.mean.network.weights, biases, None, state.actor.mean.network.activations)
        state = state._replace(
            actor=Clone(Deterministic(network, state.actor.mean.low, state.actor.mean.high), state.actor.log_std)
        )
        ends.append(go_on(agent, state, rows)[0])
    jax.tree.map(np.testing.assert_array_equal, ends[0].critics, ends[1].critics)
    assert not np.array_equal(ends[0].actor.mean.network.biases[-1], ends[1].actor.mean.network.biases[-1])

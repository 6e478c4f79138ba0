"""SPOT's actor loss by hand, and the CVAE that its presets give it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from tether import SPOT
from tether.agents.spot import actor_loss, with_dropout
from tether.config import make_config
from tether.networks import MLP, Critics
from tether.policies import Deterministic
from tether.types import Batch, Problem, Spec

ACTOR = Deterministic(MLP((jnp.zeros((1, 1)),), (jnp.array([0.0]),), None, ("tanh",)), (-1.0,), (3.0,))  # always 1
CRITICS = Critics((MLP((jnp.array([[1.0], [-3.0]]),), (jnp.zeros(1),), None, ("none",)),))  # Q = s - 3 a
COLUMN = jnp.array([[1.0], [7.0]])
BATCH = Batch(COLUMN, jnp.array([[1.0], [3.0]]), jnp.zeros(2), COLUMN, jnp.zeros(2))


def test_the_loss_by_hand():
    # Q = (-2, 4), mean 1 and mean size 3; the bonus s has mean 4: 0.1 * 4 - 1 / 3.
    loss, _ = actor_loss(SPOT(), lambda observation, action, key: observation[:, 0], ACTOR, CRITICS, BATCH, jax.random.key(0))
    assert float(loss) == pytest.approx(0.4 - 1 / 3, rel=1e-5)


def test_an_actor_that_learns_leaves_out_parts_of_its_hidden_layers():
    # One hidden unit, 1 for every observation: the action is tanh(1 / 0.75) where it is kept, tanh(0) where it is not.
    network = MLP((jnp.zeros((1, 1)), jnp.ones((1, 1))), (jnp.ones(1), jnp.zeros(1)), None, ("relu", "tanh"))
    actor, rows = Deterministic(network, (-1.0,), (1.0,)), jnp.zeros((4000, 1))
    action = with_dropout(0.25, jax.random.key(0), actor, BATCH)(rows)
    left_out = jnp.abs(action) < 1e-6
    assert float(jnp.mean(left_out)) == pytest.approx(0.25, abs=0.03)
    assert jnp.allclose(jnp.where(left_out, jnp.tanh(1 / 0.75), action), jnp.tanh(1 / 0.75), atol=1e-6)
    assert jnp.allclose(actor(rows), jnp.tanh(1.0), atol=1e-6)  # what acts is whole


def test_the_target_actor_proposes_with_dropout_too():
    rows = Batch(jnp.ones((2, 8, 2)), jnp.zeros((2, 8, 1)), jnp.zeros((2, 8)), jnp.ones((2, 8, 2)), jnp.zeros((2, 8)))
    problem = Problem(Spec(2, (-1.0,), (1.0,)), jax.tree.map(lambda column: column[0], rows))

    def target(dropout: float) -> float:
        """Of the first update, which the actor's own step comes after."""
        agent = SPOT(batch_size=8, hidden_sizes=(8,), dropout=dropout)
        state = agent.init(jax.random.key(0), problem)
        metrics = agent.update(state, rows, jax.random.key(1), lambda observation, action, key: jnp.zeros(len(action)))[1]
        return float(metrics["critic/target"])

    assert target(0.0) == target(0.0) != target(0.5)


def test_its_cvae_is_the_paper_s_and_others_stay_as_they_are():
    bonus = make_config("some.hdf5", agent="spot").bonus
    assert (bonus.measure, bonus.reduction, bonus.latent_size, bonus.steps) == ("bound", "mean", 0, 100_000)
    assert bonus.batch_size == 256
    assert bonus.normalise_observations
    assert make_config("some.hdf5", agent="td3", preset="paper").bonus.measure == "reconstruction"
    assert make_config("some.hdf5", agent="spot", bonus="rnd").bonus.steps == 1_000

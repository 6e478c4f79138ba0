"""SPOT's actor loss by hand, and the CVAE that its presets give it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from tether import SPOT
from tether.agents.spot import actor_loss
from tether.config import make_config
from tether.networks import MLP, Critics
from tether.policies import Deterministic
from tether.types import Batch

ACTOR = Deterministic(MLP((jnp.zeros((1, 1)),), (jnp.array([0.0]),), None, ("tanh",)), (-1.0,), (3.0,))  # always 1
CRITICS = Critics((MLP((jnp.array([[1.0], [-3.0]]),), (jnp.zeros(1),), None, ("none",)),))  # Q = s - 3 a
COLUMN = jnp.array([[1.0], [7.0]])
BATCH = Batch(COLUMN, jnp.array([[1.0], [3.0]]), jnp.zeros(2), COLUMN, jnp.zeros(2))


def test_the_loss_by_hand():
    # Q = (-2, 4), mean 1 and mean size 3; the bonus s has mean 4: 0.1 * 4 - 1 / 3.
    loss, _ = actor_loss(SPOT(), lambda observation, action, key: observation[:, 0], ACTOR, CRITICS, BATCH, jax.random.key(0))
    assert float(loss) == pytest.approx(0.4 - 1 / 3, rel=1e-5)


def test_its_cvae_is_the_paper_s_and_others_stay_as_they_are():
    bonus = make_config("some.hdf5", agent="spot").bonus
    assert (bonus.measure, bonus.reduction, bonus.latent_size, bonus.steps) == ("bound", "mean", 0, 100_000)
    assert bonus.normalise_observations
    assert make_config("some.hdf5", agent="td3", preset="paper").bonus.measure == "reconstruction"
    assert make_config("some.hdf5", agent="spot", bonus="rnd").bonus.steps == 1_000

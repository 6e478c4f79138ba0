"""The classifier: its bonus by hand, and the odds it must come to where they are known."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import ROWS, SPEC, as_dataset, small, transitions, uniform_actions

from tether import Classifier
from tether.bonuses.classifier import ClassifierNetworks, contrast
from tether.networks import MLP, Scaler
from tether.training.fit import fit_bonus

UNSCALED = Scaler(jnp.zeros(1), jnp.ones(1))


def by_hand(weight: float) -> ClassifierNetworks:
    logit = MLP((jnp.array([[0.0], [weight]]),), (jnp.zeros(1),), None, ("none",))
    return ClassifierNetworks(logit, UNSCALED, UNSCALED, jnp.array([-1.0]), jnp.array([3.0]))


def test_the_bonus_is_minus_the_log_probability_of_being_recorded():
    # Log odds 0 and log 3: probabilities 1/2 and 3/4.
    scores = Classifier().novelty(by_hand(np.log(3.0)), jnp.zeros((2, 1)), jnp.array([[0.0], [1.0]]), jax.random.key(0))
    np.testing.assert_allclose(scores, [np.log(2.0), np.log(4.0 / 3.0)], rtol=1e-6)


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_the_contrast_is_uniform_actions_and_those_of_other_rows(share: float):
    action = jnp.arange(4000.0)[:, None] + 100.0  # outside the bounds, so that what is uniform can be told
    other = contrast(Classifier(uniform_share=share), by_hand(1.0), action, jax.random.key(0))[:, 0]
    uniform = other <= 3.0
    assert abs(float(uniform.mean()) - share) < 0.03
    assert (np.asarray(other[~uniform]) != np.asarray(action[~uniform, 0])).all()
    if share > 0.0:
        np.testing.assert_allclose(
            [other[uniform].min(), other[uniform].mean(), other[uniform].max()], [-1.0, 1.0, 3.0], atol=0.15
        )


def test_where_the_data_is_the_contrast_nothing_can_be_told():
    rows = transitions(uniform_actions(), 0.0, terminated=0.0)
    fitted = fit_bonus(small(Classifier, steps=300), as_dataset(rows))
    scores = fitted.novelty(np.asarray(rows.observation), np.asarray(rows.action))
    assert len(scores) == ROWS
    assert abs(scores.mean() - np.log(2.0)) < 0.1
    assert SPEC.action_size == 2


def test_the_contrast_of_choices_is_choices():
    networks = eqx.tree_at(lambda n: (n.low, n.high), by_hand(0.0), (jnp.zeros(3), jnp.ones(3)))
    networks = dataclasses.replace(networks, discrete=True)
    recorded = jnp.tile(jnp.eye(3)[2], (900, 1))
    other = np.asarray(contrast(Classifier(uniform_share=1.0), networks, recorded, jax.random.key(0)))
    assert (np.sort(other, axis=1) == [0.0, 0.0, 1.0]).all()
    np.testing.assert_allclose(other.mean(axis=0), [1 / 3] * 3, atol=0.05)  # every choice, the recorded one too

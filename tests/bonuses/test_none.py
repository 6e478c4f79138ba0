"""The bonus that is none."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from problems import as_dataset, two_blobs

from tether.bonuses import NoBonus
from tether.training.fit import fit_bonus


def test_it_is_zero_and_pulls_nowhere():
    action = jnp.array([[0.5, 1.0], [1e6, -1e6]])
    score, slope = jax.value_and_grad(lambda action: jnp.sum(NoBonus().novelty((), jnp.ones((2, 3)), action, jax.random.key(0))))(
        action
    )
    assert float(score) == 0.0
    np.testing.assert_array_equal(slope, np.zeros((2, 2)))


def test_there_is_nothing_to_fit_or_to_judge():
    fitted = fit_bonus(NoBonus(), as_dataset(two_blobs()))
    assert fitted.state == ()
    assert (fitted.report.steps, fitted.report.held_out_mean, fitted.report.auroc) == (0, None, {})
    assert not fitted.report.looks_short

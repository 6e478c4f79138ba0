"""BCQ by hand: the best of likely actions, by a mix that leans to the smaller critic."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from tether import BCQ
from tether.agents.bcq import BCQState, best_value
from tether.networks import MLP, Critics
from tether.types import Batch, Spec

COLUMN = jnp.array([[1.0], [2.0]])
BATCH = Batch(COLUMN, COLUMN, jnp.zeros(2), COLUMN, jnp.zeros(2))


class Generator:
    """Proposes -0.5 and 0.5 in turn."""

    spec = Spec(1, (-1.0,), (1.0,))

    def sample(self, observation: jax.Array, key: jax.Array) -> jax.Array:
        return jnp.where(jnp.arange(observation.shape[0]) % 2 == 0, -0.5, 0.5)[:, None]


def linear(slope: float, of_action: float) -> MLP:
    return MLP((jnp.array([[slope], [of_action]]),), (jnp.zeros(1),), None, ("none",))


def test_the_value_of_the_best_likely_action_by_hand():
    # Q_1 = s + 2 a, Q_2 = s - 2 a. At a = -0.5: s - 1 and s + 1; at 0.5 the same, turned: 0.75 (s - 1) + 0.25 (s + 1) = s - 0.5.
    # Moved up by 0.1 (all the perturbation may): a = -0.4 gives s -+ 0.8, mixed s - 0.4, which is best; a = 0.6 gives s - 0.6.
    up = MLP((jnp.zeros((2, 1)),), (jnp.array([100.0]),), None, ("tanh",))
    critics = Critics((linear(1.0, 2.0), linear(1.0, -2.0)))
    state = BCQState(up, up, critics, critics, None, None)
    value = best_value(BCQ(samples=2, most_perturbed=0.1), state, BATCH, jax.random.key(0), Generator())
    np.testing.assert_allclose(value, [0.6, 1.6], rtol=1e-5)
    bold = best_value(BCQ(samples=2, most_perturbed=0.0, least_share=0.0), state, BATCH, jax.random.key(0), Generator())
    np.testing.assert_allclose(bold, [2.0, 3.0], rtol=1e-5)

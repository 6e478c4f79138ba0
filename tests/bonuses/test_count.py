"""Counts: the hash by hand, and the bonus of what was seen often, once and never."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import SPEC, two_blobs

from tether import Count
from tether.bonuses.count import CountState, bucket
from tether.config import make_config
from tether.errors import TetherError
from tether.networks import Scaler
from tether.types import Batch, Problem, discrete_spec

UNSCALED = Scaler(jnp.zeros(1), jnp.ones(1))
# Two bits of (s, a): the first is set where s > 0, the second where s + a > 0.
STATE = CountState(jnp.array([[1.0, 1.0], [0.0, 1.0]]), jnp.array([0.0, 4.0, 1.0, 16.0]), UNSCALED, UNSCALED)
OBSERVATION, ACTION = jnp.array([[-1.0], [1.0], [-1.0], [1.0]]), jnp.array([[0.0], [-2.0], [2.0], [0.0]])


def test_each_bit_of_the_bucket_is_the_sign_of_a_projection():
    np.testing.assert_array_equal(bucket(STATE, OBSERVATION, ACTION), [0, 1, 2, 3])


def test_the_bonus_is_one_over_the_root_of_the_count():
    scores = Count(bits=2, unseen=3.0).novelty(STATE, OBSERVATION, ACTION, jax.random.key(0))
    np.testing.assert_allclose(scores, [3.0, 0.5, 1.0, 0.25])


def test_every_row_is_counted_once():
    rows = two_blobs()
    state = Count(bits=4).init(jax.random.key(0), Problem(SPEC, rows))
    assert state.counts.shape == (16,)
    assert float(state.counts.sum()) == len(rows.reward)


def test_each_discrete_action_is_counted_apart():
    """Observations of one sign share a bucket; of five actions each has its own, whatever the observation."""
    spec = discrete_spec(1, 5)
    observation = jnp.array([[-2.0], [2.0], [-2.0], [2.0], [-2.0], [2.0]])
    action = jnp.eye(5)[jnp.array([0, 4, 0, 4, 3, 3])]
    rows = Batch(observation, action, jnp.zeros(6), observation, jnp.zeros(6))
    state = Count(bits=1).init(jax.random.key(0), Problem(spec, rows))
    assert state.counts.shape == (2 ** (1 + 3),)  # three bits spell the numbers up to four
    every = jnp.tile(jnp.eye(5), (2, 1))
    asked = jnp.repeat(jnp.array([[-1.0], [9.0]]), 5, axis=0)
    number = state.counts[bucket(state, asked, every)].reshape(2, 5)
    np.testing.assert_array_equal(number, [[2, 0, 0, 1, 0], [0, 0, 0, 1, 2]])


def test_an_agent_that_follows_a_slope_refuses_it():
    with pytest.raises(
        TetherError,
        match=r"^TD3 requires a gradient in the action of its bonus, which Count does not offer; choose one of cvae, rnd, ",
    ):
        make_config("data", agent="td3", bonus="count")
    assert make_config("data", agent="bc", bonus="count").bonus == Count()

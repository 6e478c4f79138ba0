"""Exact counts: what was seen often, once and never, whatever the rows look like."""

from __future__ import annotations

from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tether import CountExact
from tether.bonuses.count_exact import CountExactState, count, hashes
from tether.types import Batch, Key, Problem, Spec, discrete_spec


def rows_of(observation: np.ndarray, action: np.ndarray) -> Batch:
    nothing = jnp.zeros(len(observation))
    return Batch(jnp.asarray(observation, jnp.float32), jnp.asarray(action, jnp.float32), nothing, nothing[:, None], nothing)


def counted(observation: np.ndarray, action: np.ndarray, spec: Spec, key: Key | None = None) -> CountExactState:
    return CountExact().init(jax.random.key(0) if key is None else key, Problem(spec, rows_of(observation, action)))


def test_the_bonus_is_one_over_the_root_of_the_count():
    # The pair (3, left) four times, (3, right) once, (4, left) never, (-0, left) twice.
    observation = np.array([[3.0], [3.0], [3.0], [3.0], [3.0], [0.0], [-0.0]])
    action = np.eye(2)[[0, 0, 0, 0, 1, 0, 0]]
    state = counted(observation, action, discrete_spec(1, 2))
    asked = jnp.array([[3.0], [3.0], [4.0], [-0.0]]), jnp.eye(2)[jnp.array([0, 1, 0, 0])]
    scores = CountExact(unseen=7.0).novelty(state, *asked, jax.random.key(0))
    np.testing.assert_allclose(scores, [0.5, 1.0, 7.0, 2**-0.5])


def test_compiled_minus_zero_is_zero_too():
    salts = counted(np.zeros((1, 1)), np.eye(2)[[0]], discrete_spec(1, 2)).salts
    pairs = [(jnp.array([[zero]]), jnp.eye(2)[:1]) for zero in (0.0, -0.0)]
    plain, minus = (jax.jit(hashes)(salts, *pair) for pair in pairs)
    np.testing.assert_array_equal(plain, minus)


@pytest.mark.parametrize("size", [1, 1000])
def test_counts_are_those_of_a_dictionary(size: int):
    random = np.random.default_rng(size)
    observation, action = random.integers(2, size=(size, 12)).astype(float), np.eye(3)[random.integers(3, size=size)]
    state = counted(observation, action, discrete_spec(12, 3))
    known = Counter(tuple(row) for row in np.concatenate([observation, action], axis=1).tolist())
    others = random.integers(2, size=(500, 12)).astype(float), np.eye(3)[random.integers(3, size=500)]
    for asked in ((observation, action), others):
        found = jax.jit(count)(state, *(jnp.asarray(column, jnp.float32) for column in asked))
        expected = [known[tuple(row)] for row in np.concatenate(asked, axis=1).tolist()]
        np.testing.assert_array_equal(found, expected)


def test_neighbouring_floats_are_different_rows():
    near = np.nextafter(np.float32(1.0), np.float32(2.0))
    state = counted(np.array([[1.0]]), np.eye(2)[[0]], discrete_spec(1, 2))
    found = count(state, jnp.array([[1.0], [near]]), jnp.eye(2)[jnp.array([0, 0])])
    np.testing.assert_array_equal(found, [1, 0])


def test_rows_whose_first_hashes_collide_are_told_apart_by_the_second():
    # By hand: three rows of equal first hash; the second decides.
    state = CountExactState(jnp.zeros((2, 2), jnp.uint32), jnp.full(3, 5, jnp.uint32), jnp.array([1, 1, 9], jnp.uint32))

    def found(first: int, second: int) -> int:
        fake = lambda salts, observation, action: (jnp.array([first], jnp.uint32), jnp.array([second], jnp.uint32))  # noqa: E731
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tether.bonuses.count_exact.hashes", fake)
            return int(count(state, jnp.zeros((1, 1)), jnp.zeros((1, 1)))[0])

    assert [found(5, 1), found(5, 9), found(5, 4), found(4, 1), found(6, 9)] == [2, 1, 0, 0, 0]


def test_a_hundred_thousand_boards_hardly_collide():
    boards = ((np.arange(100_000)[:, None] >> np.arange(17)[None, :]) & 1).astype(np.float32)
    action = np.ones((len(boards), 1), np.float32)
    state = counted(boards, action, discrete_spec(17, 1))
    assert (np.asarray(count(state, jnp.asarray(boards), jnp.asarray(action))) == 1).all()

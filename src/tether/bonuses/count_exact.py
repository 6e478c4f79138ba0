"""Exact counts: how often the data has this very pair. For observations that repeat, such as boards, grids and binary images.

    b(s, a) = 1 / sqrt(n),  n = rows of the data equal to (s, a)

A pair that the data never has scores `unseen`. In exact dynamic programming with rewards in [0, 1] nothing less than
1 / (1 - discount) keeps a policy from what it has never seen (docs/theory.md). The default is that of a discount of 0.99: with a
weight of 1 it puts every unseen action below every seen one.
Rows are found by a hash of 64 bits: among a million different pairs, two share one with a chance below 1e-7.
Scores have no gradient in the action.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tether.bonuses.base import VALUE, BonusTraits
from tether.settings import Amount, Seed, ShareBelowOne
from tether.types import Batch, Key, Metrics, Problem

MINUS_ZERO = np.uint32(0x80000000)  # its bits


class CountExactState(NamedTuple):
    """The hashes of all rows in ascending order; equal rows stand side by side."""

    salts: jax.Array  # (2, O + A) uint32
    first: jax.Array  # (N,) uint32
    second: jax.Array  # (N,) uint32, which orders rows of equal `first`


@dataclass(frozen=True)
class CountExact:
    """Every knob of the bonus."""

    traits: ClassVar[BonusTraits] = BonusTraits(frozenset({VALUE}), every_row=True, needs_repeats=True)
    steps: ClassVar[int] = 0  # `init` counts
    batch_shape: ClassVar[tuple[int, ...]] = (1,)

    unseen: Amount = 100.0  # of a pair that the data does not have; 1 / (1 - discount)
    held_out_share: ShareBelowOne = 0.0  # of the episodes, not counted, to judge it by; to an agent they are then unseen
    seed: Seed = 0  # of the hash

    def init(self, key: Key, problem: Problem) -> CountExactState:
        spec, rows = problem.spec, problem.rows
        salts = jax.random.bits(key, (2, spec.observation_size + spec.action_size), jnp.uint32)
        first, second = hashes(salts, rows.observation, rows.action)
        order = jnp.lexsort((second, first))
        return CountExactState(salts, first[order], second[order])

    def update(self, fitting: CountExactState, batch: Batch, key: Key) -> tuple[CountExactState, Metrics]:
        return fitting, {}

    def frozen(self, fitting: CountExactState) -> CountExactState:
        return fitting

    def novelty(self, state: CountExactState, observation: jax.Array, action: jax.Array, key: Key) -> jax.Array:
        number = count(state, observation, action).astype(jnp.float32)
        return jnp.where(number > 0, jax.lax.rsqrt(jnp.maximum(number, 1.0)), self.unseen)


def count(state: CountExactState, observation: jax.Array, action: jax.Array) -> jax.Array:
    """How many rows of the data equal each pair, `(B,)` int32."""
    first, second = hashes(state.salts, observation, action)
    size = state.first.shape[0]

    def rows_below(or_equal: bool) -> jax.Array:
        """By bisection: how many rows sort before the pair, or before and with it."""

        def halve(_: int, bounds: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            low, high = bounds
            middle = (low + high) // 2
            one, other = state.first[middle], state.second[middle]
            last = other <= second if or_equal else other < second
            below = ((one < first) | ((one == first) & last)) & (middle < high)
            return jnp.where(below, middle + 1, low), jnp.where(below, high, middle)

        whole = jnp.zeros(first.shape, jnp.int32), jnp.full(first.shape, size, jnp.int32)
        return jax.lax.fori_loop(0, size.bit_length(), halve, whole)[0]

    return rows_below(or_equal=True) - rows_below(or_equal=False)


def hashes(salts: jax.Array, observation: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Two hashes of 32 bits for each pair: the sums of its numbers, each scrambled with the salt of its place (Zobrist's)."""
    pair = jnp.concatenate([observation, action], axis=-1).astype(jnp.float32)
    bits = jax.lax.bitcast_convert_type(pair, jnp.uint32)
    bits = jnp.where(bits == MINUS_ZERO, jnp.uint32(0), bits)  # compiled, `pair + 0.0` would leave it as it is
    first, second = (jnp.sum(_scrambled(bits ^ salt[None, :]), axis=-1, dtype=jnp.uint32) for salt in salts)
    return first, second


def _scrambled(bits: jax.Array) -> jax.Array:
    """The finaliser of MurmurHash3: every bit of the input changes half of the output's."""
    bits = (bits ^ (bits >> 16)) * jnp.uint32(0x85EBCA6B)
    bits = (bits ^ (bits >> 13)) * jnp.uint32(0xC2B2AE35)
    return bits ^ (bits >> 16)

"""Counts of hashed pairs: how seldom the data has been near here.

    b(s, a) = 1 / sqrt(n),  n = rows of the data with the same SimHash as (s, a)

The hash is the signs of `bits` random projections of the scaled pair (Charikar 2002; for exploration Tang et al. 2017): pairs at
a small angle share a bucket. Where actions are discrete, observations are hashed and each action is counted apart.
A bucket that the data never fills has no 1 / sqrt(n); it scores `unseen`.
Scores are steps, so they have **no gradient in the action**: an agent that climbs a bonus by its gradient cannot use this one and
is refused; agents that compare actions can.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from tether.bonuses.base import VALUE, BonusTraits
from tether.networks import Scaler, make_scalers
from tether.settings import Amount, Seed, ShareBelowOne, Size
from tether.types import Batch, Key, Metrics, Problem, Spec


class CountState(NamedTuple):
    projection: jax.Array  # (O + A, K), K the bits, and for discrete actions those of their number
    counts: jax.Array  # (2 ** K,) float32
    observation: Scaler
    action: Scaler


@dataclass(frozen=True)
class Count:
    """Every knob of the bonus."""

    traits: ClassVar[BonusTraits] = BonusTraits(frozenset({VALUE}), every_row=True)
    steps: ClassVar[int] = 0  # `init` counts
    batch_shape: ClassVar[tuple[int, ...]] = (1,)

    bits: Size = 16  # 2 ** bits buckets, as many for each discrete action
    unseen: Amount = 2.0  # of an empty bucket; one row scores 1
    held_out_share: ShareBelowOne = 0.05  # of the episodes, not counted, to judge it by
    seed: Seed = 0  # of the projections

    def init(self, key: Key, problem: Problem) -> CountState:
        spec, rows = problem.spec, problem.rows
        projection = jax.random.normal(key, (spec.observation_size + spec.action_size, self.bits))
        if spec.discrete:
            projection = _with_choices(projection, spec)
        scalers = make_scalers(spec, rows.observation, rows.action)
        empty = CountState(projection, jnp.zeros(2 ** projection.shape[1]), *scalers)
        buckets = bucket(empty, rows.observation, rows.action)
        return empty._replace(counts=empty.counts.at[buckets].add(1.0))

    def update(self, fitting: CountState, batch: Batch, key: Key) -> tuple[CountState, Metrics]:
        return fitting, {}

    def frozen(self, fitting: CountState) -> CountState:
        return fitting

    def novelty(self, state: CountState, observation: jax.Array, action: jax.Array, key: Key) -> jax.Array:
        number = state.counts[bucket(state, observation, action)]
        return jnp.where(number > 0, jax.lax.rsqrt(jnp.maximum(number, 1.0)), self.unseen)


def _with_choices(projection: jax.Array, spec: Spec) -> jax.Array:
    """The projections of the observation alone, and after them those whose signs spell the number of the choice in binary."""
    bits = max((spec.action_size - 1).bit_length(), 1)
    spelt = jnp.arange(spec.action_size)[:, None] >> jnp.arange(bits)[None, :] & 1
    of_choices = jnp.concatenate([jnp.zeros((spec.observation_size, bits)), 2.0 * spelt - 1.0])
    return jnp.concatenate([projection.at[spec.observation_size :].set(0.0), of_choices], axis=1)


def bucket(state: CountState, observation: jax.Array, action: jax.Array) -> jax.Array:
    """The bucket of each pair, `(B,)` int32: its bits are the signs of the projections."""
    pair = jnp.concatenate([state.observation(observation), state.action(action)], axis=-1)
    signs = (pair @ state.projection > 0.0).astype(jnp.int32)
    return jnp.sum(signs << jnp.arange(signs.shape[1])[None, :], axis=1)

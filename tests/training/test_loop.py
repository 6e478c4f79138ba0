"""The compiled loops, driven by an agent and a bonus that learn nothing and write down what they are given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from problems import SPEC, Bowl, bowl_state

from tether.networks import Actor
from tether.training.loop import RunState, fit_epoch, initial_state, run_keys, sample_rows, train_epoch
from tether.types import Batch, Key, Metrics, Penalty, Spec

ROWS = 50
MOST_UPDATES = 12


class DiaryState(NamedTuple):
    seen: jax.Array  # (ROWS,) how often each row was given
    draws: jax.Array  # (MOST_UPDATES,) one random number from each update's key
    updates: jax.Array  # ()


def blank() -> DiaryState:
    return DiaryState(jnp.zeros(ROWS, jnp.int32), jnp.zeros(MOST_UPDATES), jnp.zeros((), jnp.int32))


def noted(diary: DiaryState, rows: jax.Array, key: Key) -> DiaryState:
    seen = diary.seen.at[rows.astype(jnp.int32)].add(1)
    return DiaryState(seen, diary.draws.at[diary.updates].set(jax.random.normal(key)), diary.updates + 1)


@dataclass(frozen=True)
class DiaryAgent:
    batch_size: int = 4
    critic_steps: int = 3

    def init(self, key: Key, spec: Spec) -> DiaryState:
        return blank()

    def update(self, state: DiaryState, batches: Batch, key: Key, penalty: Penalty) -> tuple[DiaryState, Metrics]:
        assert batches.reward.shape == (self.critic_steps, self.batch_size)
        key_note, key_bonus = jax.random.split(key)
        bonus = penalty(batches.observation[0], batches.action[0], key_bonus)
        metrics = {"diary/number": state.updates.astype(jnp.float32), "diary/bonus": jnp.mean(bonus)}
        return noted(state, batches.reward, key_note), metrics

    def policies(self, state: DiaryState) -> dict[str, Actor]:
        return {}

    def act(self, state: DiaryState, observation: jax.Array) -> jax.Array:
        return observation


@dataclass(frozen=True)
class DiaryBonus:
    steps: int = 10
    batch_size: int = 4
    held_out: float = 0.0
    seed: int = 0

    def init(self, key: Key, spec: Spec, transitions: Batch) -> DiaryState:
        return blank()

    def update(self, fitting: DiaryState, batch: Batch, key: Key) -> tuple[DiaryState, Metrics]:
        assert batch.reward.shape == (self.batch_size,)
        return noted(fitting, batch.reward, key), {"diary/number": fitting.updates.astype(jnp.float32)}

    def frozen(self, fitting: DiaryState) -> DiaryState:
        return fitting

    def score(self, state: DiaryState, observation: jax.Array, action: jax.Array, key: Key) -> jax.Array:
        return jnp.zeros(observation.shape[0])


def numbered_rows() -> Batch:
    """Every column tells the number of its row."""
    number = jnp.arange(ROWS, dtype=jnp.float32)
    pair = jnp.stack([number, number + 0.5], axis=1)
    return Batch(observation=pair, action=pair + 100, reward=number, next_observation=pair + 200, terminated=number % 2)


def diary(updates: tuple[int, ...], seed: int = 0) -> tuple[RunState, Metrics]:
    """A fresh diary after one epoch of each of these lengths, and the metrics of the last."""
    state, (_, key) = initial_state(DiaryAgent(), bowl_state(floor=7.0), SPEC, seed), run_keys(seed)
    for length in updates:
        state, metrics = train_epoch(DiaryAgent(), Bowl(), state, numbered_rows(), key, length)
    return state, metrics


def assert_same(left: Any, right: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, left, right)


def test_an_update_takes_a_batch_a_step_and_steps_are_counted():
    state, _ = diary((10,))
    assert int(state.step) == 10 * 3
    assert int(state.agent.seen.sum()) == 10 * 3 * 4


def test_metrics_are_means_over_the_epoch():
    _, metrics = diary((10,))
    assert float(metrics["diary/number"]) == 4.5  # of 0 to 9


def test_the_penalty_scores_with_the_bonus_of_the_state_which_stays_as_it_was():
    state, metrics = diary((10,))
    assert float(metrics["diary/bonus"]) == 7.0
    assert_same(state.bonus, bowl_state(floor=7.0))


def test_keys_come_from_the_step_alone():
    assert_same(diary((5, 5))[0], diary((10,))[0])


def test_every_update_has_a_key_of_its_own_and_so_has_every_seed():
    draws = np.concatenate([np.asarray(diary((10,), seed)[0].agent.draws)[:10] for seed in (0, 1)])
    assert len(np.unique(draws)) == 20


def test_the_first_weights_and_the_updates_have_different_keys():
    data = [jax.random.key_data(key).tolist() for seed in (0, 1) for key in run_keys(seed)]
    assert len({tuple(key) for key in data}) == 4


def test_the_state_is_donated():
    state = initial_state(DiaryAgent(), bowl_state(), SPEC, 0)
    after, _ = train_epoch(DiaryAgent(), Bowl(), state, numbered_rows(), run_keys(0)[1], 10)
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(state))
    assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(after))


def test_vmap_trains_several_seeds_at_once():
    alone = [diary((10,), seed)[0] for seed in (0, 1)]
    states = [initial_state(DiaryAgent(), bowl_state(floor=7.0), SPEC, seed) for seed in (0, 1)]
    keys = jnp.stack([run_keys(seed)[1] for seed in (0, 1)])

    def epoch(state: RunState, key: Key) -> RunState:
        return train_epoch(DiaryAgent(), Bowl(), state, numbered_rows(), key, 10)[0]

    together = jax.vmap(epoch)(jax.tree.map(lambda *leaves: jnp.stack(leaves), *states), keys)
    for seed in (0, 1):
        assert_same(jax.tree.map(lambda leaf, seed=seed: leaf[seed], together), alone[seed])


def test_sampled_rows_keep_their_columns_together():
    batch = sample_rows(numbered_rows(), jax.random.key(0), (3, 4))
    assert [column.shape for column in batch] == [(3, 4, 2), (3, 4, 2), (3, 4), (3, 4, 2), (3, 4)]
    np.testing.assert_array_equal(batch.observation[..., 0], batch.reward)
    np.testing.assert_array_equal(batch.action - 100, batch.observation)
    np.testing.assert_array_equal(batch.next_observation - 200, batch.observation)
    np.testing.assert_array_equal(batch.terminated, batch.reward % 2)


def test_rows_are_drawn_evenly_from_the_first_to_the_last():
    batch = sample_rows(numbered_rows(), jax.random.key(0), (50_000,))
    counts = np.bincount(np.asarray(batch.reward, int), minlength=ROWS)
    # 1000 of each are expected, with a standard deviation of about 31.
    assert len(counts) == ROWS
    assert counts.min() > 850
    assert counts.max() < 1150


def test_a_fit_counts_its_steps_and_its_keys_come_from_them_alone():
    def fit(lengths: tuple[int, ...]) -> tuple[DiaryState, jax.Array, Metrics]:
        fitting, step = blank(), jnp.zeros((), jnp.int32)
        for length in lengths:
            fitting, step, metrics = fit_epoch(DiaryBonus(), fitting, step, numbered_rows(), jax.random.key(0), length)
        return fitting, step, metrics

    fitting, step, metrics = fit((10,))
    assert int(step) == 10
    assert int(fitting.seen.sum()) == 10 * 4
    assert len(np.unique(fitting.draws[:10])) == 10
    assert float(metrics["diary/number"]) == 4.5
    assert_same(fitting, fit((5, 5))[0])

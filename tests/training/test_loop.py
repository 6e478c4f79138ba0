"""The compiled loop, driven by a learner that learns nothing and writes down what it is given."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import SPEC, bowl_state, penalty

from tether.training.loop import Epoch, agent_epoch, draw_rows, epoch, fresh_state, learn, run_keys, take_rows
from tether.training.sources import Rows
from tether.training.together import Together, epoch_of, one_of
from tether.types import Batch, Key, Metrics, Problem

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
class Diary:
    """`shape` is an agent's, `(critic steps, rows)`, or a bonus's, `(rows,)`."""

    shape: tuple[int, ...] = (3, 4)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.shape

    def init(self, key: Key, problem: Problem) -> DiaryState:
        return blank()

    def update(self, state: DiaryState, batches: Batch, key: Key, *given: Any) -> tuple[DiaryState, Metrics]:
        assert batches.reward.shape == self.shape
        key_note, key_bonus = jax.random.split(key)
        metrics = {"diary/number": state.updates.astype(jnp.float32)}
        for bowl in given:
            metrics["diary/bonus"] = jnp.mean(bowl(batches.observation[0], batches.action[0], key_bonus))
        return noted(state, batches.reward, key_note), metrics


def numbered_rows() -> Batch:
    """Every column tells the number of its row."""
    number = jnp.arange(ROWS, dtype=jnp.float32)
    pair = jnp.stack([number, number + 0.5], axis=1)
    return Batch(observation=pair, action=pair + 100, reward=number, next_observation=pair + 200, terminated=number % 2)


def diary(steps: int, epoch_steps: int, seed: int = 0) -> Epoch:
    """What a fresh diary has come to after `steps`, three to an update."""
    return written(Diary(), *run_keys(seed), steps, epoch_steps)


def diaries(steps: int, epoch_steps: int, seeds: Sequence[int], streamed: bool = False) -> Epoch:
    """The same of several seeds as one program."""
    keys = [jnp.stack(keys) for keys in zip(*map(run_keys, seeds), strict=True)]
    return written(Together(Diary(), len(seeds)), keys[0], keys[1], steps, epoch_steps, streamed)


def written(learner: Diary | Together, key_init: Key, key: Key, steps: int, epoch_steps: int, streamed: bool = False) -> Epoch:
    source, given = Rows(numbered_rows(), streamed), (penalty(bowl_state(floor=7.0)),)
    state = fresh_state(learner, key_init, Problem(SPEC, numbered_rows()))
    with closing(source):
        *_, last = learn(learner, state, source, key, end=steps, epoch_steps=epoch_steps, stride=3, given=given)
    return last


def assert_same(left: Any, right: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, left, right)


def test_an_update_takes_a_batch_a_step_and_steps_are_counted():
    last = diary(30, 30)
    assert last.step == 10 * 3
    assert int(last.state.updates) == 10
    assert int(last.state.seen.sum()) == 10 * 3 * 4


def test_metrics_are_means_over_the_epoch():
    assert diary(30, 30).metrics["diary/number"] == 4.5  # of 0 to 9
    assert diary(30, 15).metrics["diary/number"] == 7.0  # of 5 to 9


def test_the_last_epoch_is_as_short_as_it_must_be():
    key_init, key = run_keys(0)
    state = fresh_state(Diary(), key_init, Problem(SPEC, numbered_rows()))
    epochs = learn(Diary(), state, Rows(numbered_rows()), key, start=6, end=30, epoch_steps=15, stride=3)
    assert [(epoch.step, int(epoch.state.updates)) for epoch in epochs] == [(21, 5), (30, 8)]


def test_what_is_given_reaches_every_update_and_is_not_used_up():
    bowl = penalty(bowl_state(floor=7.0))
    assert diary(30, 15).metrics["diary/bonus"] == 7.0
    assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(bowl))


def test_keys_come_from_the_step_alone():
    assert_same(diary(30, 15).state, diary(30, 30).state)


def test_every_update_has_a_key_of_its_own_and_so_has_every_seed():
    draws = np.concatenate([np.asarray(diary(30, 30, seed).state.draws)[:10] for seed in (0, 1)])
    assert len(np.unique(draws)) == 20


def test_the_first_weights_and_the_updates_have_different_keys():
    data = [jax.random.key_data(key).tolist() for seed in (0, 1) for key in run_keys(seed)]
    assert len({tuple(key) for key in data}) == 4


@pytest.mark.parametrize("compiled", [epoch, agent_epoch])
def test_the_state_is_donated(compiled):
    state = fresh_state(Diary(), jax.random.key(0), Problem(SPEC, numbered_rows()))
    (after,) = learn(
        Diary(), state, Rows(numbered_rows()), jax.random.key(1), end=30, epoch_steps=30, stride=3, compiled=compiled
    )
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(state))
    assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(after.state))


@pytest.mark.parametrize("streamed", [False, True])
def test_several_seeds_at_once_see_the_rows_and_keys_that_each_would_alone(streamed: bool):
    together = diaries(30, 15, (4, 1), streamed)
    assert together.metrics["diary/number"].tolist() == [7.0, 7.0]
    for place, seed in enumerate((4, 1)):
        alone = diary(30, 15, seed)
        assert_same(one_of(together.state, place), alone.state)
        assert epoch_of(together, place).metrics == alone.metrics
    assert (together.state.seen[0] != together.state.seen[1]).any()


def test_a_learner_of_one_batch_an_update():
    learner = Diary((4,))
    state = fresh_state(learner, jax.random.key(0), Problem(SPEC, numbered_rows()))
    *_, last = learn(learner, state, Rows(numbered_rows()), jax.random.key(1), end=10, epoch_steps=5)
    assert (last.step, int(last.state.seen.sum()), len(np.unique(last.state.draws[:10]))) == (10, 40, 10)


def test_taken_rows_keep_their_columns_together():
    numbers = draw_rows(jax.random.key(0), jnp.zeros((), jnp.int32), 3, 1, (4,), ROWS)
    batch = take_rows(numbered_rows(), numbers)
    assert [column.shape for column in batch] == [(3, 4, 2), (3, 4, 2), (3, 4), (3, 4, 2), (3, 4)]
    np.testing.assert_array_equal(batch.observation[..., 0], batch.reward)
    np.testing.assert_array_equal(batch.action - 100, batch.observation)
    np.testing.assert_array_equal(batch.next_observation - 200, batch.observation)
    np.testing.assert_array_equal(batch.terminated, batch.reward % 2)


def test_rows_are_drawn_evenly_from_the_first_to_the_last():
    numbers = draw_rows(jax.random.key(0), jnp.zeros((), jnp.int32), 1, 1, (50_000,), ROWS)
    counts = np.bincount(np.asarray(numbers).ravel(), minlength=ROWS)
    # 1000 of each are expected, with a standard deviation of about 31.
    assert len(counts) == ROWS
    assert counts.min() > 850
    assert counts.max() < 1150

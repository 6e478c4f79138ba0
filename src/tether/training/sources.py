"""The rows that training draws from: on the device where they fit, else in host memory or on disk.

Rows elsewhere are gathered an epoch at a time, by a thread that works on the next epoch while the device works on this one.
The numbers of the rows come from the same keys as inside the compiled loop, so what is drawn is the same bit for bit.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tether.agents import Agent
from tether.bonuses import Bonus
from tether.data.selected import is_on_disk
from tether.training.loop import RunState, draw_rows, fit_epoch, fit_epoch_on, train_epoch, train_epoch_on
from tether.types import Batch, Key, Metrics

BLOCK = 16_384  # rows gathered at once: all columns of a block before the next, so that its pages are still there
SAMPLE = 1_000_000  # rows that stand for all where something is asked of the whole dataset
DEVICE_SHARE = 0.5  # of the device's memory that rows may take; the rest is for networks and batches


class Rows:
    """A dataset's transitions, wherever they are. `streamed` leaves them there; None: where the device has no room for them."""

    def __init__(self, transitions: Batch, streamed: bool | None = None) -> None:
        self.streamed = _too_large(transitions) if streamed is None else streamed
        self.transitions = transitions if self.streamed else Batch(*map(jnp.asarray, transitions))
        self._feed: Feed | None = None

    def train(self, agent: Agent, bonus: Bonus, state: RunState, key: Key, updates: int) -> tuple[RunState, Metrics]:
        """One epoch: see `train_epoch`."""
        if not self.streamed:
            return train_epoch(agent, bonus, state, self.transitions, key, updates)
        feed = self._feed_of(key, agent.critic_steps, (agent.critic_steps, agent.batch_size))
        return train_epoch_on(agent, bonus, state, feed.take(int(state.step), updates), key)

    def fit(self, bonus: Bonus, fitting: Any, step: int, key: Key, steps: int) -> tuple[Any, Metrics]:
        """One epoch of a fit: see `fit_epoch`."""
        number = jnp.asarray(step, jnp.int32)
        if not self.streamed:
            fitting, _, metrics = fit_epoch(bonus, fitting, number, self.transitions, key, steps)
        else:
            batches = self._feed_of(key, 1, (bonus.batch_size,)).take(step, steps)
            fitting, _, metrics = fit_epoch_on(bonus, fitting, number, batches, key)
        return fitting, metrics

    def sample(self) -> Batch:
        """All rows, on the device; of more than a million that are streamed, a million drawn at random, always the same ones."""
        if not self.streamed:
            return self.transitions
        size = len(self.transitions.reward)
        if size <= SAMPLE:
            return Batch(*(jnp.asarray(np.asarray(column)) for column in self.transitions))
        sample = empty_rows(self.transitions, (SAMPLE,))
        gather(self.transitions, np.random.default_rng(0).choice(size, SAMPLE, replace=False), sample)
        return Batch(*map(jnp.asarray, sample))

    def close(self) -> None:
        if self._feed is not None:
            self._feed.close()
            self._feed = None

    def _feed_of(self, key: Key, stride: int, shape: tuple[int, ...]) -> Feed:
        if self._feed is None:
            self._feed = Feed(self.transitions, key, stride, shape)
        return self._feed


class Feed:
    """The batches of one epoch after the other, for one key: the next is gathered while the last one is worked on."""

    def __init__(self, transitions: Batch, key: Key, stride: int, shape: tuple[int, ...]) -> None:
        self._transitions, self._key, self._stride, self._shape = transitions, key, stride, shape
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tether-rows")
        self._next: _Pending | None = None

    def take(self, step: int, count: int) -> Batch:
        """`(count, *shape)` transitions from `step` on, on the device. Begins with those after them."""
        pending = self._next
        if pending is None or (pending.step, pending.updates) != (step, count):
            pending = self._begin(step, count)
        pending.done.result()
        batches = Batch(*map(jnp.asarray, pending.batches))
        self._next = self._begin(step + count * self._stride, count)
        return batches

    def close(self) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._next = None

    def _begin(self, step: int, count: int) -> _Pending:
        # The numbers are drawn here and not in the thread, where they would wait for the epoch that the device is about to
        # begin; and the memory is taken here, since a thread's own share of the heap is not given back when it ends.
        size = len(self._transitions.reward)
        numbers = np.asarray(draw_rows(self._key, jnp.asarray(step, jnp.int32), count, self._stride, self._shape, size))
        batches = empty_rows(self._transitions, numbers.shape)
        return _Pending(step, count, batches, self._thread.submit(gather, self._transitions, numbers, batches))


class _Pending(NamedTuple):
    """What the thread is at work on."""

    step: int
    updates: int
    batches: Batch
    done: Future[None]


def empty_rows(transitions: Batch, shape: tuple[int, ...]) -> Batch:
    return Batch(*(np.empty((*shape, *column.shape[1:]), np.float32) for column in transitions))


def gather(transitions: Batch, rows: np.ndarray, into: Batch) -> None:
    """Put the rows of these numbers, of any shape, in their places. Read in ascending order, so that a disk is read forwards."""
    flat = rows.ravel()
    order = np.argsort(flat, kind="stable")
    targets = [target.reshape(len(flat), *target.shape[rows.ndim :]) for target in into]  # views
    for start in range(0, len(flat), BLOCK):
        places = order[start : start + BLOCK]
        for column, target in zip(transitions, targets, strict=True):
            target[places] = column[flat[places]]


def is_sampled(transitions: Batch) -> bool:
    """Whether `Rows.sample` gives less than all of them."""
    return len(transitions.reward) > SAMPLE and _too_large(transitions)


def _too_large(transitions: Batch) -> bool:
    """Whether the rows are on disk, or more than the device has room for. A device that does not say is taken to have it."""
    if is_on_disk(transitions.observation):
        return True
    stats = jax.devices()[0].memory_stats() or {}
    room = stats.get("bytes_limit")
    return room is not None and sum(np.asarray(column).nbytes for column in transitions) > DEVICE_SHARE * room

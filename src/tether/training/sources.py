"""Sources of batches: a dataset's rows, on the device where they fit, else in host memory or on disk; and a replay that grows.

Rows elsewhere are gathered an epoch at a time, by a thread that works on the next epoch while the device works on this one.
The numbers of the rows come from the same keys as inside the compiled loop, so what is drawn is the same bit for bit.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tether.data.selected import is_on_disk
from tether.training.loop import draw_rows, epoch_keys
from tether.types import Batch, Key, Spec, row_shapes

BLOCK = 16_384  # rows gathered at once: all columns of a block before the next, so that its pages are still there
SAMPLE = 1_000_000  # rows that stand for all where something is asked of the whole dataset
DEVICE_SHARE = 0.5  # of the device's memory that rows may take; the rest is for networks and batches


class Rows:
    """A dataset's transitions, wherever they are. `streamed` leaves them there; None: where the device has no room for them."""

    def __init__(self, transitions: Batch, streamed: bool | None = None) -> None:
        self.streamed = _too_large(transitions) if streamed is None else streamed
        self.transitions = transitions if self.streamed else jax.tree.map(jnp.asarray, transitions)
        self._thread: ThreadPoolExecutor | None = None
        self._next: _Pending | None = None

    def draw(self, shape: tuple[int, ...], key: Key, step: int, stride: int, count: int) -> tuple[Batch | None, Any]:
        """See `Source`. Of rows that are streamed, begins to gather those of the next epoch too, for the same key and shape."""
        if not self.streamed:
            return self.transitions, self._numbers(shape, key, step, stride, count)
        pending = self._next
        if pending is None or pending.asked != _asked(shape, key, step, stride, count):
            pending = self._begin(shape, key, step, stride, count)
        pending.done.result()
        batches = jax.tree.map(jnp.asarray, pending.batches)
        self._next = self._begin(shape, key, step + count * stride, stride, count)
        return None, batches

    def sample(self, most: int = SAMPLE) -> Batch:
        """All rows, on the device; of more than `most` that are streamed, as many drawn at random, always the same ones."""
        if not self.streamed:
            return self.transitions
        size = len(self.transitions.reward)
        if size <= most:
            return type(self.transitions)(*(jnp.asarray(np.asarray(column)) for column in self.transitions))
        sample = empty_rows(self.transitions, (most,))
        gather(self.transitions, np.random.default_rng(0).choice(size, most, replace=False), sample)
        return jax.tree.map(jnp.asarray, sample)

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown(wait=True, cancel_futures=True)
        self._thread = self._next = None

    def _numbers(self, shape: tuple[int, ...], key: Key, step: int, stride: int, count: int) -> jax.Array:
        return draw_rows(key, jnp.asarray(step, jnp.int32), count, stride, shape, len(self.transitions.reward))

    def _begin(self, shape: tuple[int, ...], key: Key, step: int, stride: int, count: int) -> _Pending:
        # The numbers are drawn here and not in the thread, where they would wait for the epoch that the device is about to
        # begin; and the memory is taken here, since a thread's own share of the heap is not given back when it ends.
        self._thread = self._thread or ThreadPoolExecutor(1, thread_name_prefix="tether-rows")
        numbers = np.asarray(self._numbers(shape, key, step, stride, count))
        batches = empty_rows(self.transitions, numbers.shape)
        done = self._thread.submit(gather, self.transitions, numbers, batches)
        return _Pending(_asked(shape, key, step, stride, count), batches, done)


class Replay:
    """Rows that come one after the other, in room on the device for `capacity` of them; drawn from what is there so far.

    With a log, the first rows of every batch are drawn from that: `log_share` of them, rounded.
    """

    def __init__(self, capacity: int, spec: Spec, log: Batch | None = None, log_share: float = 0.0) -> None:
        self.size = 0
        self._log_size, self._log_share = 0 if log is None else len(log.reward), log_share
        self._rows = Batch(*(jnp.zeros((self._log_size + capacity, *shape)) for shape in row_shapes(spec)))
        if log is not None:
            self._rows = _insert(self._rows, log, 0)

    def append(self, rows: Batch) -> None:
        self._rows = _insert(self._rows, rows, self._log_size + self.size)
        self.size += len(rows.reward)

    def draw(self, shape: tuple[int, ...], key: Key, step: int, stride: int, count: int) -> tuple[Batch, jax.Array]:
        at = jnp.asarray(step, jnp.int32)
        if not self._log_size:
            return self._rows, draw_rows(key, at, count, stride, shape, self.size)
        of_log = round(self._log_share * shape[-1])
        return self._rows, draw_mixed(key, at, count, stride, shape, of_log, self._log_size, self.size)


@partial(jax.jit, static_argnames=("count", "stride", "shape", "of_log"))
def draw_mixed(
    key: Key, step: jax.Array, count: int, stride: int, shape: tuple[int, ...], of_log: int, log_size: int, size: int
) -> jax.Array:
    """As `draw_rows`: `of_log` rows of each batch are of the first `log_size`, the others of the `size` behind those."""
    first = jnp.arange(shape[-1]) < of_log
    low, high = jnp.where(first, 0, log_size), jnp.where(first, log_size, log_size + size)
    keys, _ = epoch_keys(key, step, count, stride)
    low, high = (jnp.broadcast_to(bound, shape) for bound in (low, high))
    return jax.vmap(lambda key: jax.random.randint(key, shape, low, high))(keys)


@partial(jax.jit, donate_argnames="replay")
def _insert(replay: Batch, rows: Batch, at: int) -> Batch:
    return jax.tree.map(lambda column, new: jax.lax.dynamic_update_slice_in_dim(column, new, at, axis=0), replay, rows)


class _Pending(NamedTuple):
    """What the thread is at work on."""

    asked: tuple[Any, ...]
    batches: Batch
    done: Future[None]


def _asked(shape: tuple[int, ...], key: Key, *numbers: int) -> tuple[Any, ...]:
    """What was asked for, so that it can be compared."""
    return shape, np.asarray(jax.random.key_data(key)).tobytes(), *numbers


def empty_rows(transitions: Batch, shape: tuple[int, ...]) -> Batch:
    return type(transitions)(*(np.empty((*shape, *column.shape[1:]), np.float32) for column in transitions))


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

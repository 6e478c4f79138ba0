"""The only compiled loop: a whole epoch of updates is one program. Python sees its mean metrics, nothing else.

Whatever learns is a `Learner`, whatever gives batches a `Source`, and `learn` is the one generator that brings them together:
runs, the API, fits of bonuses, collection and the lab consume it, and attach to it what they need.

The learner is static (a frozen dataclass, hashable); data and state are arguments, never captured: each loop compiles once.
The key of an update comes from its number alone and none is stored, so a resumed run repeats an unbroken one bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np

from tether.agents import refresh_period
from tether.errors import TetherError
from tether.types import Batch, Key, Metrics, Problem, Spec

# jaxlib 0.10 hands a CPU's matrix products to YNNPACK, which is slower in agents' loops than Eigen was (docs/speed.md). The
# option is experimental, so only the versions it was tried with get it; it says nothing to a GPU. JAX takes options at the
# outermost jit alone.
AGENT_LOOP = {"xla_cpu_experimental_ynn_fusion_type": ""} if jaxlib.__version__.startswith("0.10.") else None


class Learner(Protocol):
    """An agent, a bonus, a probe: anything with a state that a batch moves on."""

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Leading axes of the batch that one update takes."""

    def init(self, key: Key, problem: Problem) -> Any:
        """A fresh state: a pytree of arrays in which no buffer appears twice."""

    def update(self, state: Any, batch: Any, key: Key, *given: Any) -> tuple[Any, Metrics]:
        """One update. `given` is what it learns with and does not change: an agent's penalty."""

    # One that looks at all rows from time to time, as AWR does, also has `refresh_every`, in steps, and `refresh(state, rows)`.


class Source(Protocol):
    """Rows to learn from, wherever they are."""

    def draw(self, shape: tuple[int, ...], key: Key, step: int, stride: int, count: int) -> tuple[Any, Any]:
        """What the next `count` updates work on: rows on the device and the numbers of those to take, or no rows and the batches.

        The numbers, or the batches, have the leading axes `(count, *shape)`.
        """


class Epoch(NamedTuple):
    """What a loop has come to."""

    step: int
    state: Any  # donated to the next epoch: what is to be kept of it must be copied before
    metrics: dict[str, Any]  # means over the epoch: numbers, or arrays of one for each seed


def learn(
    learner: Learner,
    state: Any,
    source: Source,
    key: Key,
    *,
    start: int = 0,
    end: int,
    epoch_steps: int,
    stride: int = 1,
    given: tuple[Any, ...] = (),
    compiled: Callable[..., tuple[Any, Metrics]] | None = None,
    new_at: int = 0,
) -> Iterator[Epoch]:
    """Epochs of `epoch_steps` from step `start` to `end`, of which each update makes `stride`. The state is used up.

    `compiled` is `agent_epoch` for agents, else `epoch`. At step `new_at` the rows are new to the state.
    """
    compiled, step = compiled or epoch, start
    while step < end:
        steps = min(epoch_steps, end - step)
        rows, drawn = source.draw(learner.batch_shape, key, step, stride, steps // stride)
        if refreshes(learner, step, steps, new=step == new_at):
            state = _refreshed(learner, state, rows)
        state, metrics = compiled(learner, state, rows, drawn, key, jnp.asarray(step, jnp.int32), stride, given)
        step += steps
        yield Epoch(step, state, {name: np.asarray(value, float)[()] for name, value in metrics.items()})


def refreshes(learner: Learner, step: int, steps: int, new: bool = False) -> bool:
    """Whether it looks at all rows before the epoch from `step` on. That happens between epochs alone, and where they are new."""
    every = refresh_period(learner)
    if every and step % every + steps > every:
        raise TetherError(f"agent.refresh_every is {every:,}, which is no multiple of an epoch of {steps:,} steps")
    return bool(every) and (step % every == 0 or new)


@partial(jax.jit, static_argnames="learner", donate_argnames="state")
def _refreshed(learner: Any, state: Any, rows: Batch) -> Any:
    return learner.refresh(state, rows)


def fresh_state(learner: Learner, key: Key, problem: Problem) -> Any:
    """The state before the first update."""
    return _fresh(learner, key, problem.rows, problem.spec, problem.steps)


@partial(jax.jit, static_argnames=("learner", "spec", "steps"))
def _fresh(learner: Learner, key: Key, rows: Batch, spec: Spec, steps: int) -> Any:
    """Compiled once for all seeds; `jax.jit(learner.init)` would compile anew at each call, being another method each time."""
    return learner.init(key, Problem(spec, rows, steps))


def run_keys(seed: int) -> tuple[Key, Key]:
    """The key of the first weights, and the key of the updates."""
    key_init, key_updates = jax.random.split(jax.random.key(seed))
    return key_init, key_updates


def _epoch(
    learner: Learner, state: Any, rows: Any, drawn: Any, key: Key, step: jax.Array, stride: int, given: tuple[Any, ...]
) -> tuple[Any, Metrics]:
    """An update for each of what was drawn. Metrics are means."""
    _, keys = epoch_keys(key, step, jax.tree.leaves(drawn)[0].shape[0], stride)
    # Keys go in as numbers: under a vmap, JAX's check for keys used twice takes the scan's keys for used ones.
    kind = jax.random.key_impl(keys)

    def one(state: Any, inputs: tuple[jax.Array, Any]) -> tuple[Any, Metrics]:
        number, taken = inputs
        batch = taken if rows is None else take_rows(rows, taken)
        return learner.update(state, batch, jax.random.wrap_key_data(number, impl=kind), *given)

    state, metrics = jax.lax.scan(one, state, (jax.random.key_data(keys), drawn))
    return state, jax.tree.map(lambda values: jnp.mean(values, axis=0), metrics)


_jit = partial(jax.jit, static_argnames=("learner", "stride"), donate_argnames="state")
epoch = _jit(_epoch)
agent_epoch = _jit(_epoch, compiler_options=AGENT_LOOP)


@partial(jax.jit, static_argnames=("count", "stride", "shape"))
def draw_rows(key: Key, step: jax.Array, count: int, stride: int, shape: tuple[int, ...], size: jax.Array) -> jax.Array:
    """`(count, *shape)` numbers of rows for the updates from `step` on, uniform over `size`, with replacement.

    All of an epoch at once: drawn inside the loop, a batch at a time, they would take a few per cent of a CPU's time.
    Of several seeds, `shape` begins with their number and `key` has one for each: each draws what it would alone.
    """
    key_axes = jnp.ndim(key)
    keys, _ = epoch_keys(key, step, count, stride)
    draw = jax.vmap(lambda key: jax.random.randint(key, shape[key_axes:], 0, size))
    return (jax.vmap(draw) if key_axes else draw)(keys)


def epoch_keys(key: Key, step: jax.Array, count: int, stride: int) -> tuple[Key, Key]:
    """`(count,)` keys of rows and of updates, for every `stride`-th step from `step` on, each from its step's number alone.

    Of the `(seeds,)` keys of several seeds, `(count, seeds)`: those that each would have alone.
    """

    def one(key: Key, number: jax.Array) -> tuple[Key, Key]:
        key_rows, key_update = jax.random.split(jax.random.fold_in(key, number))
        return key_rows, key_update

    of_all = jax.vmap(one, in_axes=(0, None)) if jnp.ndim(key) else one
    return jax.vmap(of_all, in_axes=(None, 0))(key, step + stride * jnp.arange(count))


def take_rows(rows: Any, numbers: jax.Array) -> Any:
    """The cost does not depend on how many there are to take from."""
    return jax.tree.map(lambda column: column[numbers], rows)

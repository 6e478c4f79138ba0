"""The only jitted loops: a whole epoch of gradient steps is one compiled program. Python sees its mean metrics, nothing else.

Agent and bonus are static (frozen dataclasses, hashable); data and state are arguments, never captured: each loop compiles once.
The key of an update comes from its number alone and none is stored, so a resumed run repeats an unbroken one bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jaxlib

from tether.agents import Agent
from tether.bonuses import Bonus, FrozenBonus
from tether.optimisation import copy_of
from tether.types import Batch, Key, Metrics, Spec

# jaxlib 0.10 hands a CPU's matrix products to YNNPACK, which is slower in this loop than Eigen was (docs/speed.md). The option is
# experimental, so only the versions it was tried with get it; it says nothing to a GPU. JAX takes options at the outermost jit
# alone: inside another, call `train_epoch.__wrapped__`.
AGENT_LOOP = {"xla_cpu_experimental_ynn_fusion_type": ""} if jaxlib.__version__.startswith("0.10.") else None


class RunState(NamedTuple):
    """Everything that the loop carries and a checkpoint holds."""

    agent: Any
    bonus: Any  # frozen: what the bonus scores with
    step: jax.Array  # () int32, critic steps since the start


def initial_state(agent: Agent, bonus_state: Any, spec: Spec, seed: int) -> RunState:
    """The state before the first update, with a copy of the bonus's: an epoch donates all of it, and a fit is used again."""
    key_init, _ = run_keys(seed)
    return RunState(agent=_fresh_agent(agent, key_init, spec), bonus=copy_of(bonus_state), step=jnp.zeros((), jnp.int32))


@partial(jax.jit, static_argnames=("agent", "spec"))
def _fresh_agent(agent: Agent, key: Key, spec: Spec) -> Any:
    """Compiled once for all seeds; `jax.jit(agent.init)` would compile anew at each call, being another method each time."""
    return agent.init(key, spec)


def run_keys(seed: int) -> tuple[Key, Key]:
    """The key of the agent's first weights, and the key of its updates."""
    key_init, key_updates = jax.random.split(jax.random.key(seed))
    return key_init, key_updates


@partial(jax.jit, static_argnames=("agent", "bonus", "updates"), donate_argnames="state", compiler_options=AGENT_LOOP)
def train_epoch(
    agent: Agent, bonus: Bonus, state: RunState, transitions: Batch, key: Key, updates: int
) -> tuple[RunState, Metrics]:
    """`updates` updates of the agent, each of `critic_steps` steps on fresh rows. Metrics are means over the epoch."""
    keys_rows, keys = epoch_keys(key, state.step, updates, agent.critic_steps)
    numbers = numbers_of(keys_rows, (agent.critic_steps, agent.batch_size), len(transitions.reward))
    return _scan_updates(agent, bonus, state, keys, lambda rows: take_rows(transitions, rows), numbers)


@partial(jax.jit, static_argnames=("agent", "bonus"), donate_argnames="state", compiler_options=AGENT_LOOP)
def train_epoch_on(agent: Agent, bonus: Bonus, state: RunState, batches: Batch, key: Key) -> tuple[RunState, Metrics]:
    """The same on rows that were taken beforehand, `(updates, critic_steps, batch_size)` of them."""
    _, keys = epoch_keys(key, state.step, len(batches.reward), agent.critic_steps)
    return _scan_updates(agent, bonus, state, keys, lambda batch: batch, batches)


def _scan_updates(
    agent: Agent, bonus: Bonus, state: RunState, keys: Key, batch_of: Callable[[Any], Batch], drawn: Any
) -> tuple[RunState, Metrics]:
    penalty = FrozenBonus(state.bonus, bonus)

    def one_update(agent_state: Any, key_update: Key, drawn: Any) -> tuple[Any, Metrics]:
        return agent.update(agent_state, batch_of(drawn), key_update, penalty)

    agent_state, metrics = _scan(one_update, state.agent, keys, drawn)
    return RunState(agent_state, state.bonus, state.step + len(keys) * agent.critic_steps), metrics


@partial(jax.jit, static_argnames=("bonus", "steps"), donate_argnames="fitting")
def fit_epoch(
    bonus: Bonus, fitting: Any, step: jax.Array, transitions: Batch, key: Key, steps: int
) -> tuple[Any, jax.Array, Metrics]:
    """`steps` steps of a bonus's fit. Metrics are means over the epoch."""
    keys_rows, keys = epoch_keys(key, step, steps, 1)
    numbers = numbers_of(keys_rows, (bonus.batch_size,), len(transitions.reward))
    return _scan_fit(bonus, fitting, step, keys, lambda rows: take_rows(transitions, rows), numbers)


@partial(jax.jit, static_argnames="bonus", donate_argnames="fitting")
def fit_epoch_on(bonus: Bonus, fitting: Any, step: jax.Array, batches: Batch, key: Key) -> tuple[Any, jax.Array, Metrics]:
    """The same on rows that were taken beforehand, `(steps, batch_size)` of them."""
    _, keys = epoch_keys(key, step, len(batches.reward), 1)
    return _scan_fit(bonus, fitting, step, keys, lambda batch: batch, batches)


def _scan_fit(
    bonus: Bonus, fitting: Any, step: jax.Array, keys: Key, batch_of: Callable[[Any], Batch], drawn: Any
) -> tuple[Any, jax.Array, Metrics]:
    def one_step(fitting: Any, key_update: Key, drawn: Any) -> tuple[Any, Metrics]:
        return bonus.update(fitting, batch_of(drawn), key_update)

    fitting, metrics = _scan(one_step, fitting, keys, drawn)
    return fitting, step + len(keys), metrics


def _scan(one: Callable[[Any, Key, Any], tuple[Any, Metrics]], state: Any, keys: Key, drawn: Any) -> tuple[Any, Metrics]:
    """`one` for each key and what was drawn with it. Metrics are means."""
    # Keys go in as numbers: under a vmap, JAX's check for keys used twice takes the scan's keys for used ones.
    kind = jax.random.key_impl(keys)

    def body(state: Any, given: tuple[jax.Array, Any]) -> tuple[Any, Metrics]:
        numbers, drawn = given
        return one(state, jax.random.wrap_key_data(numbers, impl=kind), drawn)

    state, metrics = jax.lax.scan(body, state, (jax.random.key_data(keys), drawn))
    return state, jax.tree.map(jnp.mean, metrics)


@partial(jax.jit, static_argnames=("count", "stride", "shape", "size"))
def draw_rows(key: Key, step: jax.Array, count: int, stride: int, shape: tuple[int, ...], size: int) -> jax.Array:
    """The numbers of the rows that an epoch from `step` works on, for taking them outside of it: see `numbers_of`."""
    keys_rows, _ = epoch_keys(key, step, count, stride)
    return numbers_of(keys_rows, shape, size)


def epoch_keys(key: Key, step: jax.Array, count: int, stride: int) -> tuple[Key, Key]:
    """`(count,)` keys of rows and of updates, for every `stride`-th step from `step` on, each from its step's number alone."""

    def one(number: jax.Array) -> tuple[Key, Key]:
        key_rows, key_update = jax.random.split(jax.random.fold_in(key, number))
        return key_rows, key_update

    return jax.vmap(one)(step + stride * jnp.arange(count))


def numbers_of(keys: Key, shape: tuple[int, ...], size: int) -> jax.Array:
    """`(keys, *shape)` numbers of rows, uniform over `size`, with replacement.

    All of an epoch at once: drawn inside the loop, a batch at a time, they would take a few per cent of a CPU's time.
    """
    return jax.vmap(lambda key: row_numbers(key, shape, size))(keys)


def sample_rows(transitions: Batch, key: Key, shape: tuple[int, ...]) -> Batch:
    """Rows drawn uniformly with replacement, for a loop that draws its own."""
    return take_rows(transitions, row_numbers(key, shape, len(transitions.reward)))


def take_rows(transitions: Batch, numbers: jax.Array) -> Batch:
    """The cost does not depend on how many there are to take from."""
    return Batch(*(column[numbers] for column in transitions))


def row_numbers(key: Key, shape: tuple[int, ...], size: int) -> jax.Array:
    return jax.random.randint(key, shape, 0, size)

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

from tether.agents import Agent
from tether.bonuses import Bonus, FrozenBonus
from tether.optimisation import copy_of
from tether.types import Batch, Key, Metrics, Spec


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


@partial(jax.jit, static_argnames=("agent", "bonus", "updates"), donate_argnames="state")
def train_epoch(
    agent: Agent, bonus: Bonus, state: RunState, transitions: Batch, key: Key, updates: int
) -> tuple[RunState, Metrics]:
    """`updates` updates of the agent, each of `critic_steps` steps on fresh rows. Metrics are means over the epoch."""

    def draw(key_rows: Key, _: None) -> Batch:
        return sample_rows(transitions, key_rows, (agent.critic_steps, agent.batch_size))

    return _scan_updates(agent, bonus, state, key, draw, None, updates)


@partial(jax.jit, static_argnames=("agent", "bonus"), donate_argnames="state")
def train_epoch_on(agent: Agent, bonus: Bonus, state: RunState, batches: Batch, key: Key) -> tuple[RunState, Metrics]:
    """The same on rows that were drawn beforehand (see `draw_rows`), `(updates, critic_steps, batch_size)` of them."""
    return _scan_updates(agent, bonus, state, key, lambda _, drawn: drawn, batches, len(batches.reward))


def _scan_updates(
    agent: Agent,
    bonus: Bonus,
    state: RunState,
    key: Key,
    draw: Callable[[Key, Any], Batch],
    drawn: Any,
    updates: int,
) -> tuple[RunState, Metrics]:
    penalty = FrozenBonus(state.bonus, bonus)

    def one_update(carry: tuple[Any, jax.Array], given: Any) -> tuple[tuple[Any, jax.Array], Metrics]:
        agent_state, step = carry
        key_rows, key_update = keys_of(key, step)
        agent_state, metrics = agent.update(agent_state, draw(key_rows, given), key_update, penalty)
        return (agent_state, step + agent.critic_steps), metrics

    (agent_state, step), metrics = jax.lax.scan(one_update, (state.agent, state.step), drawn, length=updates)
    return RunState(agent_state, state.bonus, step), jax.tree.map(jnp.mean, metrics)


@partial(jax.jit, static_argnames=("bonus", "steps"), donate_argnames="fitting")
def fit_epoch(
    bonus: Bonus, fitting: Any, step: jax.Array, transitions: Batch, key: Key, steps: int
) -> tuple[Any, jax.Array, Metrics]:
    """`steps` steps of a bonus's fit. Metrics are means over the epoch."""

    def draw(key_rows: Key, _: None) -> Batch:
        return sample_rows(transitions, key_rows, (bonus.batch_size,))

    return _scan_fit(bonus, fitting, step, key, draw, None, steps)


@partial(jax.jit, static_argnames="bonus", donate_argnames="fitting")
def fit_epoch_on(bonus: Bonus, fitting: Any, step: jax.Array, batches: Batch, key: Key) -> tuple[Any, jax.Array, Metrics]:
    """The same on rows that were drawn beforehand, `(steps, batch_size)` of them."""
    return _scan_fit(bonus, fitting, step, key, lambda _, drawn: drawn, batches, len(batches.reward))


def _scan_fit(
    bonus: Bonus, fitting: Any, step: jax.Array, key: Key, draw: Callable[[Key, Any], Batch], drawn: Any, steps: int
) -> tuple[Any, jax.Array, Metrics]:
    def one_step(carry: tuple[Any, jax.Array], given: Any) -> tuple[tuple[Any, jax.Array], Metrics]:
        fitting, step = carry
        key_rows, key_update = keys_of(key, step)
        fitting, metrics = bonus.update(fitting, draw(key_rows, given), key_update)
        return (fitting, step + 1), metrics

    (fitting, step), metrics = jax.lax.scan(one_step, (fitting, step), drawn, length=steps)
    return fitting, step, jax.tree.map(jnp.mean, metrics)


def sample_rows(transitions: Batch, key: Key, shape: tuple[int, ...]) -> Batch:
    """Rows drawn uniformly with replacement; the cost does not depend on how many there are to draw from."""
    rows = row_numbers(key, shape, transitions.reward.shape[0])
    return Batch(*(column[rows] for column in transitions))


@partial(jax.jit, static_argnames=("count", "stride", "shape", "size"))
def draw_rows(key: Key, step: jax.Array, count: int, stride: int, shape: tuple[int, ...], size: int) -> jax.Array:
    """`(count, *shape)`: the numbers of the rows that an epoch from `step` draws from `size` rows, `stride` steps apart."""

    def one(step: jax.Array) -> jax.Array:
        key_rows, _ = keys_of(key, step)
        return row_numbers(key_rows, shape, size)

    return jax.lax.map(one, step + stride * jnp.arange(count, dtype=jnp.int32))


def keys_of(key: Key, step: jax.Array) -> tuple[Key, Key]:
    """The key of the rows, and the key of the update, from the number of the step alone."""
    key_rows, key_update = jax.random.split(jax.random.fold_in(key, step))
    return key_rows, key_update


def row_numbers(key: Key, shape: tuple[int, ...], size: int) -> jax.Array:
    return jax.random.randint(key, shape, 0, size)

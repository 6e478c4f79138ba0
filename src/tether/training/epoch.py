"""The only jitted loops: a whole epoch of gradient steps is one compiled program. Python sees its mean metrics, nothing else.

Agent and bonus are static (frozen dataclasses, hashable); data and state are arguments, never captured: each loop compiles once.
The key of an update comes from its number alone and none is stored, so a resumed run repeats an unbroken one bit for bit.
"""

from __future__ import annotations

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
    penalty = FrozenBonus(state.bonus, bonus)

    def one_update(carry: tuple[Any, jax.Array], _: None) -> tuple[tuple[Any, jax.Array], Metrics]:
        agent_state, step = carry
        key_rows, key_update = jax.random.split(jax.random.fold_in(key, step))
        batches = sample_rows(transitions, key_rows, (agent.critic_steps, agent.batch_size))
        agent_state, metrics = agent.update(agent_state, batches, key_update, penalty)
        return (agent_state, step + agent.critic_steps), metrics

    (agent_state, step), metrics = jax.lax.scan(one_update, (state.agent, state.step), length=updates)
    return RunState(agent_state, state.bonus, step), jax.tree.map(jnp.mean, metrics)


@partial(jax.jit, static_argnames=("bonus", "steps"), donate_argnames="fitting")
def fit_epoch(
    bonus: Bonus, fitting: Any, step: jax.Array, transitions: Batch, key: Key, steps: int
) -> tuple[Any, jax.Array, Metrics]:
    """`steps` steps of a bonus's fit. Metrics are means over the epoch."""

    def one_step(carry: tuple[Any, jax.Array], _: None) -> tuple[tuple[Any, jax.Array], Metrics]:
        fitting, step = carry
        key_rows, key_update = jax.random.split(jax.random.fold_in(key, step))
        fitting, metrics = bonus.update(fitting, sample_rows(transitions, key_rows, (bonus.batch_size,)), key_update)
        return (fitting, step + 1), metrics

    (fitting, step), metrics = jax.lax.scan(one_step, (fitting, step), length=steps)
    return fitting, step, jax.tree.map(jnp.mean, metrics)


def sample_rows(transitions: Batch, key: Key, shape: tuple[int, ...]) -> Batch:
    """Rows drawn uniformly with replacement; the cost does not depend on how many there are to draw from."""
    rows = jax.random.randint(key, shape, 0, transitions.reward.shape[0])
    return Batch(*(column[rows] for column in transitions))

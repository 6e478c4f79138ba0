"""Bonus weights that fall in a straight line to zero. The compiled loop computes them from a step in its state."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tether.agents import Agent, critic_steps
from tether.types import Batch, Key, Metrics, Penalty, Problem


class AnnealedState(NamedTuple):
    agent: Any
    step: jax.Array  # () int32, critic steps since the start of all


@dataclass(frozen=True)
class Annealed:
    """A learner: the agent, with the settings that its traits call `annealed` whole at step `start`, 0 `length` steps later."""

    agent: Agent
    start: int
    length: int

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.agent.batch_shape

    def init(self, key: Key, problem: Problem) -> AnnealedState:
        return AnnealedState(self.agent.init(key, problem), jnp.asarray(self.start, jnp.int32))

    def update(self, state: AnnealedState, batches: Batch, key: Key, penalty: Penalty) -> tuple[AnnealedState, Metrics]:
        left = share_left(state.step, self.start, self.length)
        # The weights are traced numbers here, in a copy of the agent that lives as long as this trace.
        # One that is 0 stays the plain number that it is, for which an agent computes nothing.
        whole = {name: getattr(self.agent, name) for name in self.agent.traits.annealed}
        weights = {name: left * value for name, value in whole.items() if value}
        agent_state, metrics = replace(self.agent, **weights).update(state.agent, batches, key, penalty)  # type: ignore[type-var]
        return AnnealedState(agent_state, state.step + critic_steps(self.agent)), metrics | {"online/bonus_left": left}


def share_left(step: jax.Array, start: int, length: int) -> jax.Array:
    """1 at `start`, 0 from `start + length` on; 0 at once where there is no length."""
    if length == 0:
        return jnp.zeros(())
    return jnp.clip((start + length - step) / length, 0.0, 1.0)

"""What an agent is: a frozen dataclass whose fields are its settings and whose methods are four pure functions.

The agent holds no state. It knows of a bonus only as a `Penalty`, a function `(observation, action, key) -> (B,)`;
how much that weighs is the agent's own setting.
A policy is an Equinox module, `(B, O) -> (B, A)`, with everything that acting needs as its leaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import jax

from tether.networks import Actor, Greedy
from tether.types import Batch, Key, Metrics, Penalty, Spec


class Agent(Protocol):
    @property
    def action_kinds(self) -> tuple[str, ...]:
        """The kinds of actions it can learn: `continuous`, `discrete`, or both."""

    @property
    def follows_penalty(self) -> bool:
        """Whether it needs the penalty's gradient in the action."""

    @property
    def batch_size(self) -> int:
        """Rows in each of the batches that one update takes."""

    @property
    def critic_steps(self) -> int:
        """How many batches one update takes, and by how many gradient steps it moves the run on."""

    def init(self, key: Key, spec: Spec) -> Any:
        """A fresh state: a pytree of arrays in which no buffer appears twice."""

    def update(self, state: Any, batches: Batch, key: Key, penalty: Penalty) -> tuple[Any, Metrics]:
        """`critic_steps` gradient steps. Every column of `batches` has the leading axes `(critic_steps, batch_size)`."""

    def policies(self, state: Any, penalty: Penalty) -> Mapping[str, Actor | Greedy]:
        """The policies that can be evaluated, by name, all of one shape. `online`, `target` and `ema` are always among them.

        A policy whose acting needs the penalty keeps it; `penalty` is a pytree here.
        """

    def value(self, state: Any, observation: jax.Array, action: jax.Array) -> jax.Array | None:
        """What it believes that pairs are worth, in scaled and discounted rewards: `(B, O), (B, A) -> (B,)`; None if nothing."""

"""What an agent is: a frozen dataclass whose fields are its settings and whose methods are four pure functions.

The agent holds no state. It knows of a bonus only as a `Penalty`, a function `(observation, action, key) -> (B,)`;
how much that weighs is the agent's own setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol

import jax

from tether.bonuses.base import GRADIENT, VALUE
from tether.types import Batch, Key, Metrics, Penalty, Problem, batch_type

BLOCK = 4_096  # rows that a penalty is asked about at once


@dataclass(frozen=True)
class AgentTraits:
    """What is the same for all settings of an agent."""

    policies: tuple[str, ...] = ("online", "target", "ema")  # the names of what `policies` gives
    main_policy: str = "target"  # a run's own, unless it asks for another
    actions: tuple[str, ...] = ("continuous",)  # the kinds it can learn: continuous, discrete
    requires: frozenset[str] = frozenset({VALUE, GRADIENT})  # of a bonus
    holding_setting: str = ""  # the one to raise where its Q-values explode
    raises_values: bool = False  # its loss raises Q of recorded pairs, so that Q may be above all that they can earn
    values_of_rewards: bool = False  # its targets are rewards and next values alone, but for what a bonus_weight_critic takes off
    usual_bonus: str = "cvae"  # where none is asked for
    reward_scaling: str = "auto"  # where none is asked for: its paper's, see `normalise_rewards`
    annealed: tuple[str, ...] = ()  # settings that fall to 0 as it goes on learning online; without any, it does not go on online
    columns: tuple[str, ...] = ()  # of its batches, besides those of `Batch`: see `tether.data.columns`


class Agent(Protocol):
    traits: ClassVar[AgentTraits]

    @property
    def discount(self) -> float:
        """By which its values, and the episodes of its policies, are worth less a step later."""

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Leading axes of the batches that one update takes: `(critic steps, rows)`."""

    def init(self, key: Key, problem: Problem) -> Any:
        """A fresh state: a pytree of arrays in which no buffer appears twice."""

    def update(self, state: Any, batches: Batch, key: Key, penalty: Penalty) -> tuple[Any, Metrics]:
        """As many gradient steps as there are batches. Metrics are named `who/what`."""

    def policies(self, state: Any, penalty: Penalty) -> Mapping[str, Any]:
        """What can act, by the names in the traits: modules of `tether.policies`, all of one shape.

        A policy whose acting needs the penalty keeps it; `penalty` is a pytree here.
        """

    def value(self, state: Any, observation: jax.Array, action: jax.Array) -> jax.Array | None:
        """What it believes that pairs are worth, in scaled and discounted rewards: `(B, O), (B, A) -> (B,)`; None if nothing."""

    # One that asks the same of the penalty whenever it sees a row, as Tethered does, also has `known(penalty, observation)`:
    # columns by name. Where the log is in memory, batches have them, and those of the next observations as next_NAME.


def with_known(agent: Agent, rows: Batch, penalty: Any) -> Batch:
    """The rows with what the agent asks of the penalty about each of them, once for all; most agents ask nothing."""
    if not hasattr(agent, "known"):
        return rows
    here, after = (_known(agent, penalty, column) for column in (rows.observation, rows.next_observation))
    columns = here | {f"next_{name}": column for name, column in after.items()}
    return batch_type((*type(rows)._fields[len(Batch._fields) :], *columns))(*rows, *columns.values())


@partial(jax.jit, static_argnames="agent")
def _known(agent: Any, penalty: Any, observation: jax.Array) -> dict[str, jax.Array]:
    """In blocks: the hidden layers of a large log would not fit at once."""
    return jax.lax.map(
        lambda row: {name: column[0] for name, column in agent.known(penalty, row[None, :]).items()},
        observation,
        batch_size=BLOCK,
    )


def critic_steps(agent: Agent) -> int:
    """By how many steps one update moves a run on."""
    return agent.batch_shape[0]


def refresh_period(learner: Any) -> int:
    """The steps after which it looks at all rows again, as AWR does; 0: never. Wrapped learners have it too."""
    return int(getattr(learner, "refresh_every", 0))

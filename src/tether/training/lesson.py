"""An agent with its data and its penalty, ready to learn: the same for a run, a notebook and the lab."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from tether.agents import Agent, check_actions, check_bonus, critic_steps, refresh_period, with_known
from tether.bonuses import FrozenBonus, NoBonus
from tether.data.columns import with_columns
from tether.data.dataset import Dataset
from tether.data.provenance import imported_columns, recorded_parts
from tether.errors import TetherError
from tether.optimisation import copy_of
from tether.policies import Policy
from tether.training.fit import FittedBonus
from tether.training.loop import Epoch, Learner, agent_epoch, fresh_state, learn, run_keys
from tether.training.sources import Rows
from tether.training.together import Together, joined
from tether.types import Key, Problem

MOMENT_ROWS = 100_000  # of rows that are streamed: enough for an agent's moments of the observations


class AnyLesson(Protocol):
    """What a run needs of one: `Lesson` learns from a log, `tether.finetuning` has one that learns in an environment too."""

    agent: Agent
    dataset: Dataset
    steps: int  # at which it ends
    penalty: FrozenBonus

    def fresh(self) -> Any:
        """The agent's state before its first update."""

    def epochs(self, state: Any, start: int, epoch_steps: int) -> Iterator[Epoch]:
        """See `learn`."""

    def policy(self, state: Any, name: str, step: int, env_id: str | None) -> Policy:
        """One of the agent's policies, to ship. It is a copy: the state that it is part of is donated to the next epoch."""

    def account(self) -> dict[str, Any]:
        """What it has to say in the result."""

    def close(self) -> None:
        """Let go of what it holds."""


class Lesson:
    """`dataset` has its rewards scaled already; without a bonus nothing holds the agent to the data.

    `reward_penalty` bonuses are subtracted from each recorded reward: the paper's naive form. At step `begins` its state may come
    from a lesson on other data.
    """

    def __init__(
        self,
        agent: Agent,
        dataset: Dataset,
        bonus: FittedBonus | None,
        seed: int,
        steps: int,
        reward_penalty: float = 0.0,
        begins: int = 0,
    ) -> None:
        check_lesson(agent, dataset, bonus)
        self.agent, self.dataset, self.steps = agent, dataset, steps
        self.penalty = FrozenBonus(NoBonus(), (), dataset.spec) if bonus is None else bonus.penalty
        self._seed, self._begins = seed, begins
        transitions = with_columns(dataset, agent.traits.columns, agent.discount)
        if bonus is not None and reward_penalty:
            penalties = bonus.novelty(np.asarray(transitions.observation), np.asarray(transitions.action))
            transitions = transitions._replace(reward=transitions.reward - np.float32(reward_penalty) * penalties)
        self._rows = Rows(transitions)
        if not self._rows.streamed:
            self._rows = Rows(with_known(agent, self._rows.transitions, self.penalty), streamed=False)
        if self._rows.streamed and refresh_period(agent):
            raise TetherError(
                f"{type(agent).__name__} computes returns over the whole log at once, and {dataset.size:,} rows do not fit on "
                "the device; a part of them does (tether data subsample), and other agents take rows a batch at a time"
            )

    def fresh(self, seed: int | None = None) -> Any:
        """The agent's state before its first update; of another seed than the lesson's own where one is given."""
        key, _ = run_keys(self._seed if seed is None else seed)
        return fresh_state(self.agent, key, Problem(self.dataset.spec, self._rows.sample(MOMENT_ROWS), self.steps))

    def epochs(self, state: Any, start: int, epoch_steps: int) -> Iterator[Epoch]:
        """See `learn`."""
        return self._learn(self.agent, state, run_keys(self._seed)[1], start, epoch_steps)

    def epochs_together(self, states: Sequence[Any], seeds: Sequence[int], start: int, epoch_steps: int) -> Iterator[Epoch]:
        """The same of several seeds as one program, from their states on. Arrays of an epoch have a leading axis of seeds."""
        keys = jnp.stack([run_keys(seed)[1] for seed in seeds])
        return self._learn(Together(self.agent, len(seeds)), joined(states), keys, start, epoch_steps)

    def _learn(self, learner: Learner, state: Any, key: Key, start: int, epoch_steps: int) -> Iterator[Epoch]:
        return learn(
            learner,
            state,
            self._rows,
            key,
            start=start,
            end=self.steps,
            epoch_steps=epoch_steps,
            stride=critic_steps(self.agent),
            given=(self.penalty,),
            compiled=agent_epoch,
            new_at=self._begins,
        )

    def policy(self, state: Any, name: str, step: int, env_id: str | None) -> Policy:
        return policy_of(self, state, name, step, env_id)

    def account(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        self._rows.close()


def policy_of(lesson: AnyLesson, state: Any, name: str, step: int, env_id: str | None) -> Policy:
    """See `AnyLesson.policy`."""
    dataset = lesson.dataset
    about: dict[str, Any] = {
        "dataset": dataset.name,
        "dataset_sha256": dataset.sha256,
        "env_id": env_id,
        "step": step,
        "policy": name,
    }
    columns = imported_columns(dataset.provenance)
    if columns is not None:  # without them nobody knows which number of an observation is which
        about["columns"] = columns
    parts = recorded_parts(dataset.provenance)
    if parts is not None:
        about["observation_parts"] = parts
    return Policy(copy_of(lesson.agent.policies(state, lesson.penalty)[name]), dataset.spec, about)


def check_lesson(agent: Agent, dataset: Dataset, bonus: FittedBonus | None) -> None:
    """Refuse parts that do not fit each other."""
    check_actions(agent, dataset.spec)
    if bonus is not None:
        check_bonus(agent, bonus.bonus)
        if bonus.spec != dataset.spec:
            raise TetherError(f"the bonus was fitted for {bonus.spec}, the dataset has {dataset.spec}")


@partial(jax.jit, static_argnames="agent")
def value_of(agent: Agent, state: Any, policy: Any, observation: jax.Array) -> jax.Array | None:
    """What the agent believes that its policy is worth from these observations on, if it believes anything."""
    return agent.value(state, observation, policy(observation))

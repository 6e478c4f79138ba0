"""Transitions of one environment, in the order in which they happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import gymnasium
import numpy as np

from tether.types import Batch, Spec

Choose: TypeAlias = Callable[[np.ndarray], np.ndarray]  # observation (O,) float32 -> action (A,)


class Recording(NamedTuple):
    transitions: Batch  # float32 NumPy columns
    truncated: np.ndarray  # (N,) bool: the last row of an episode that did not terminate, for a time limit or for being cut

    @property
    def size(self) -> int:
        return len(self.truncated)

    @property
    def episode_returns(self) -> np.ndarray:
        """(E,) float64. The last row always ends an episode."""
        last_rows = np.flatnonzero(self.truncated | (self.transitions.terminated > 0))
        return np.add.reduceat(self.transitions.reward, np.concatenate([[0], last_rows[:-1] + 1]), dtype=np.float64)


class Recorder:
    """Steps an environment and keeps every transition; where an episode ends, the next one starts."""

    def __init__(self, environment: gymnasium.Env, rows: int, seed: int) -> None:
        observation_shape, action_shape = environment.observation_space.shape, environment.action_space.shape
        assert observation_shape is not None  # make_environment lets only vectors through
        assert action_shape is not None
        self._environment = environment
        self._transitions = Batch(
            observation=np.empty((rows, *observation_shape), dtype=np.float32),
            action=np.empty((rows, *action_shape), dtype=np.float32),
            reward=np.empty(rows, dtype=np.float32),
            next_observation=np.empty((rows, *observation_shape), dtype=np.float32),
            terminated=np.empty(rows, dtype=np.float32),
        )
        self._truncated = np.zeros(rows, dtype=bool)
        self.size = 0
        self.observation = environment.reset(seed=seed)[0].astype(np.float32)  # where the next action will be taken

    def step(self, action: np.ndarray) -> None:
        # The action is recorded as float32, so that is what the environment gets too.
        action = np.asarray(action, dtype=np.float32)
        successor, reward, terminated, truncated, _ = self._environment.step(action)
        successor = successor.astype(np.float32)
        for column, value in zip(self._transitions, (self.observation, action, reward, successor, terminated), strict=True):
            column[self.size] = value
        self._truncated[self.size] = truncated and not terminated
        self.size += 1
        self.observation = self._environment.reset()[0].astype(np.float32) if terminated or truncated else successor

    def rows(self, first: int) -> Batch:
        """The transitions from row `first` to the latest."""
        return Batch(*(column[first : self.size] for column in self._transitions))

    def finish(self) -> Recording:
        """Everything recorded. An episode still running is cut here, which counts as a time limit."""
        last = self.size - 1
        self._truncated[last] = not self._transitions.terminated[last]
        return Recording(self.rows(0), self._truncated[: self.size])


def joined(recordings: list[Recording]) -> Recording:
    columns = zip(*(recording.transitions for recording in recordings), strict=True)
    return Recording(Batch(*map(np.concatenate, columns)), np.concatenate([recording.truncated for recording in recordings]))


def uniform(rng: np.random.Generator, spec: Spec) -> Choose:
    """Any action within the bounds, or any of the choices, whatever the observation."""
    if spec.discrete:
        every_action = np.eye(spec.action_size, dtype=np.float32)
        return lambda observation: every_action[rng.integers(spec.action_size)]
    return lambda observation: rng.uniform(*_limits(spec))


def noisy(choose: Choose, rng: np.random.Generator, noise: float, spec: Spec) -> Choose:
    """The chosen action with Gaussian noise, whose `noise` is in half action ranges, within the bounds.

    Where actions are discrete, `noise` is the chance of any action at random in place of the chosen one (epsilon-greedy).
    """
    if spec.discrete:
        anything = uniform(rng, spec)
        return lambda observation: anything(observation) if rng.uniform() < noise else choose(observation)
    low, high = _limits(spec)
    scale = noise * 0.5 * (high - low)
    return lambda observation: np.clip(choose(observation) + scale * rng.standard_normal(low.shape), low, high)


def _limits(spec: Spec) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(spec.action_low, np.float32), np.asarray(spec.action_high, np.float32)

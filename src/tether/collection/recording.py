"""Transitions of one environment, in the order in which they happened; several are stepped together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import gymnasium
import numpy as np

from tether.errors import TetherError
from tether.evaluation.rollout import name_of
from tether.types import Batch, Spec

Choose: TypeAlias = Callable[[np.ndarray], np.ndarray]  # observations (N, O) float32 -> actions (N, A)


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
    """Steps an environment and keeps every transition; where an episode ends, the next one starts.

    `seed` is that of the first episode. Those after it follow from it, unless `seeds` gives one for each by its number, from 1.
    """

    def __init__(
        self, environment: gymnasium.Env, rows: int, seed: int, seeds: Callable[[int], int] | None = None, episode: int = 0
    ) -> None:
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
        self.size, self.episode = 0, episode
        self._seeds = seeds
        self.observation = environment.reset(seed=seed)[0].astype(np.float32)  # where the next action will be taken

    def step(self, action: np.ndarray) -> None:
        # The action is recorded as float32, so that is what the environment gets too.
        action = np.asarray(action, dtype=np.float32)
        successor, reward, terminated, truncated, _ = self._environment.step(action)
        successor = successor.astype(np.float32)
        if not (math.isfinite(float(reward)) and np.isfinite(successor).all()):
            what = f"a reward of {reward}" if np.isfinite(successor).all() else "an observation that is not finite"
            raise TetherError(f"{name_of(self._environment)} gave {what} in row {self.size} of what is recorded")
        for column, value in zip(self._transitions, (self.observation, action, reward, successor, terminated), strict=True):
            column[self.size] = value
        self._truncated[self.size] = truncated and not terminated
        self.size += 1
        self.observation = self._next_start() if terminated or truncated else successor

    def _next_start(self) -> np.ndarray:
        self.episode += 1
        seed = None if self._seeds is None else self._seeds(self.episode)
        return self._environment.reset(seed=seed)[0].astype(np.float32)

    def rows(self, first: int) -> Batch:
        """The transitions from row `first` to the latest."""
        return Batch(*(column[first : self.size] for column in self._transitions))

    def taken(self) -> Recording:
        """Everything recorded, which is then forgotten; the episode goes on."""
        size, self.size = self.size, 0
        return Recording(Batch(*(column[:size].copy() for column in self._transitions)), self._truncated[:size].copy())

    def finish(self) -> Recording:
        """Everything recorded. An episode still running is cut here, which counts as a time limit."""
        last = self.size - 1
        self._truncated[last] = not self._transitions.terminated[last]
        return Recording(self.rows(0), self._truncated[: self.size])


def step_all(recorders: Sequence[Recorder], choose: Choose) -> None:
    """One step of each, of actions that are chosen at once."""
    actions = choose(np.stack([recorder.observation for recorder in recorders]))
    for recorder, action in zip(recorders, actions, strict=True):
        recorder.step(action)


def joined(recordings: list[Recording]) -> Recording:
    columns = zip(*(recording.transitions for recording in recordings), strict=True)
    return Recording(Batch(*map(np.concatenate, columns)), np.concatenate([recording.truncated for recording in recordings]))


def uniform(rng: np.random.Generator, spec: Spec) -> Choose:
    """Any action within the bounds, or any of the choices, whatever the observation."""
    if spec.discrete:
        every_action = np.eye(spec.action_size, dtype=np.float32)
        return lambda observations: every_action[rng.integers(spec.action_size, size=len(observations))]
    low, high = _limits(spec)
    return lambda observations: rng.uniform(low, high, (len(observations), len(low)))


def noisy(choose: Choose, rng: np.random.Generator, noise: float, spec: Spec) -> Choose:
    """The chosen actions with Gaussian noise, whose `noise` is in half action ranges, within the bounds.

    Where actions are discrete, `noise` is the chance of any action at random in place of the chosen one (epsilon-greedy).
    """
    if spec.discrete:
        anything = uniform(rng, spec)

        def one(observation: np.ndarray) -> np.ndarray:
            return (anything if rng.uniform() < noise else choose)(observation[None, :])[0]

        return lambda observations: np.stack([one(observation) for observation in observations])
    low, high = _limits(spec)
    scale = noise * 0.5 * (high - low)

    def perturbed(observations: np.ndarray) -> np.ndarray:
        actions = choose(observations)
        return np.clip(actions + scale * rng.standard_normal(actions.shape), low, high)

    return perturbed


def _limits(spec: Spec) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(spec.action_low, np.float32), np.asarray(spec.action_high, np.float32)

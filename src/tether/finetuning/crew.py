"""Environments that are stepped together, each with its own episodes, and back where they were after a stop.

They are stepped by a plain loop with one call of the policy for all, as evaluations are. An environment's state is nowhere to be
saved: a simulator keeps it to itself. But each episode has a seed of its own, from the run's and its number, so after a stop the
running episode is played again from its seed with the recorded actions, which takes less than a second.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tether.collection.online import generator
from tether.collection.recording import Choose, Recorder, Recording, joined, step_all
from tether.environments.making import make_environment
from tether.types import Batch, Spec


class Crew:
    """`count` environments. Each turn they take `turn` steps together; rows are in the order of the environments."""

    def __init__(self, env_id: str, spec: Spec, count: int, turn: int, seed: int, recorded_parts: str | None = None) -> None:
        self._env_id, self._seed, self._each = env_id, seed, turn // count
        self._environments = [make_environment(env_id, spec, recorded_parts=recorded_parts) for _ in range(count)]
        self._recorders: list[Recorder] = []
        self._returns = [0.0] * count  # of the episodes that run
        self.episodes = 0  # that have ended

    def begin(self) -> None:
        """The first episode of each."""
        self._recorders = [self._recorder(number, episode=0) for number in range(len(self._environments))]

    def turn(self, choose: Choose) -> tuple[Recording, list[float]]:
        """The rows of one turn, and the returns of the episodes that ended in it."""
        for _ in range(self._each):
            step_all(self._recorders, choose)
        parts = [recorder.taken() for recorder in self._recorders]
        ended = [value for number, part in enumerate(parts) for value in self._count(number, part)]
        return joined(parts), ended

    def restore(self, recording: Recording, say: Callable[[str], None]) -> None:
        """Bring each environment back to where it was after those turns, all from the first on."""
        self._recorders = []
        for number, part in enumerate(self._by_environment(recording)):
            self._count(number, part)
            ends = np.flatnonzero(_ended(part))
            first = int(ends[-1]) + 1 if len(ends) else 0
            recorder = self._recorder(number, episode=len(ends))
            for row in range(first, part.size):
                recorder.step(part.transitions.action[row])
                recorder.taken()
                if not np.array_equal(recorder.observation, part.transitions.next_observation[row]):
                    say(
                        f"{self._env_id} does not repeat itself from its seed: its running episode is cut, and what comes is not "
                        "as it would have been without the stop"
                    )
                    recorder = self._recorder(number, episode=len(ends) + 1)
                    self._returns[number] = 0.0
                    break
            self._recorders.append(recorder)

    def close(self) -> None:
        for environment in self._environments:
            environment.close()

    def _recorder(self, number: int, episode: int) -> Recorder:
        def seed(episode: int) -> int:
            return int(generator(self._seed, "episode", number, episode).integers(2**31))

        return Recorder(self._environments[number], self._each, seed(episode), seed, episode)

    def _by_environment(self, recording: Recording) -> list[Recording]:
        """The rows of each environment, from all turns."""

        def of(number: int, column: np.ndarray) -> np.ndarray:
            turns = column.reshape(-1, len(self._environments), self._each, *column.shape[1:])
            return turns[:, number].reshape(-1, *column.shape[1:])

        return [
            Recording(Batch(*(of(number, column) for column in recording.transitions)), of(number, recording.truncated))
            for number in range(len(self._environments))
        ]

    def _count(self, number: int, part: Recording) -> list[float]:
        """Add the rewards to the running episode's return; what has ended is given."""
        ended = []
        for reward, end in zip(part.transitions.reward.tolist(), _ended(part), strict=True):
            self._returns[number] += reward
            if end:
                ended.append(self._returns[number])
                self._returns[number] = 0.0
        self.episodes += len(ended)
        return ended


def _ended(recording: Recording) -> np.ndarray:
    return recording.truncated | (recording.transitions.terminated > 0)

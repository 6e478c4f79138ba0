"""What a run attaches to its loop: each is called with every epoch, in the order in which they are attached."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tether.config import TrainingConfig
from tether.data.rewards import RewardScale
from tether.evaluation.rollout import EpisodeResults, Evaluator, discounted_returns, visited_returns
from tether.policies import act
from tether.progress import Bar
from tether.runs import checkpoint
from tether.runs.checkpoint import Progress, RunState
from tether.runs.metrics import MetricsLog, Promise
from tether.training.interrupt import StopRequest
from tether.training.lesson import AnyLesson, value_of
from tether.training.loop import Epoch

HEADLINE = {"critic/loss": "critic loss", "actor/bonus": "actor bonus", "critic/q": "Q"}


@dataclass(frozen=True)
class Logging:
    log: MetricsLog
    bar: Bar

    def __call__(self, epoch: Epoch) -> None:
        self.log.training(epoch.step, epoch.metrics)
        self.bar.update(epoch.step, **{label: epoch.metrics[name] for name, label in HEADLINE.items() if name in epoch.metrics})


class Checkpoints:
    """A checkpoint where one is due, at the end, and where the user asks to stop."""

    def __init__(
        self, folder: Path, bonus_state: object, known: Progress, training: TrainingConfig, stop: StopRequest, began: float
    ) -> None:
        self._folder, self._bonus_state, self._known, self._training = folder, bonus_state, known, training
        self._stop, self._began = stop, began
        self.saved: int | None = None  # the step of the last one

    def __call__(self, epoch: Epoch) -> None:
        due = epoch.step % self._training.checkpoint_every == 0 or epoch.step >= self._training.steps
        if due or self._stop.asked:
            state = RunState(epoch.state, self._bonus_state, jnp.asarray(epoch.step, jnp.int32))
            checkpoint.save(self._folder, state, replace(self._known, seconds=self.seconds()))
            self.saved = epoch.step

    def seconds(self) -> float:
        """Spent so far, over all sittings."""
        return self._known.seconds + time.perf_counter() - self._began


@dataclass(frozen=True)
class Stopping:
    """Ends the run between epochs where the user has asked for it; it comes after what saves the state."""

    stop: StopRequest
    say: Callable[[str], None]

    def __call__(self, epoch: Epoch) -> None:
        if self.stop.asked:
            self.say(f"interrupted at step {epoch.step:,}; the same command goes on from there")
            raise KeyboardInterrupt


@dataclass(frozen=True)
class Evaluations:
    """Every policy of the agent, in the same episodes, where an evaluation is due and has not been made.

    What was just evaluated is not again: while `tethered` warms up its policies are one, and stay the same.
    """

    lesson: AnyLesson
    evaluator: Evaluator
    log: MetricsLog
    bar: Bar
    every: int
    scale: RewardScale
    shown: str  # the policy whose score is shown
    latest: dict[bytes, EpisodeResults] = field(default_factory=dict)  # by what the policy consists of

    def __call__(self, epoch: Epoch) -> None:
        due = epoch.step and (epoch.step % self.every == 0 or epoch.step >= self.lesson.steps)
        if not due or epoch.step in self.log.evaluations:
            return
        agent = self.lesson.agent
        policies = agent.policies(epoch.state, self.lesson.penalty)
        results: dict[str, EpisodeResults] = {}
        found: dict[bytes, EpisodeResults] = {}
        for name, policy in policies.items():
            key = digest(policy)
            known = found.get(key) or self.latest.get(key)
            results[name] = found[key] = known or self.evaluator(lambda seen, policy=policy: act(policy, seen))  # type: ignore[misc]
        self.latest.clear()
        self.latest.update(found)
        promises = {}
        for name, policy in policies.items():
            values = value_of(agent, epoch.state, policy, results[name].starts)
            worth = discounted_returns(results[name].rewards, self.scale.apply, agent.discount)
            visited = visited_returns(results[name], self.scale.apply, agent.discount)
            promises[name] = Promise(None if values is None else np.asarray(values), worth, visited)
        self.log.evaluation(epoch.step, results, promises)
        self.bar.update(epoch.step, score=float(self.log.scores(results[self.shown].returns).mean()))


def digest(policy: Any) -> bytes:
    """The same for policies that are the same: of one kind, with the same numbers."""
    arrays, kind = jax.tree.flatten(policy)
    content = hashlib.sha256(str(kind).encode())
    for array in map(np.asarray, arrays):
        content.update(f"{array.dtype}{array.shape}".encode())
        content.update(array.tobytes())
    return content.digest()


class EpochClock:
    """Time inside epochs. The first of a sitting is left out, since it holds the compilation."""

    def __init__(self) -> None:
        self._seconds: list[float] = []

    def timed(self, epochs: Iterator[Epoch]) -> Iterator[Epoch]:
        while True:
            began = time.perf_counter()
            epoch = next(epochs, None)
            if epoch is None:
                return
            self._seconds.append(time.perf_counter() - began)
            yield epoch

    def rate(self, epoch_steps: int) -> float | None:
        """Steps a second."""
        measured = self._seconds[1:]
        return epoch_steps * len(measured) / sum(measured) if measured else None

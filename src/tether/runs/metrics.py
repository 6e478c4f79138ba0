"""Where a run's numbers go: `metrics.jsonl`, TensorBoard events, and Weights & Biases where that is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np

from tether import storage
from tether.environments.scores import normalised_score
from tether.evaluation.rollout import EpisodeResults
from tether.runs.tensorboard import EventFile


class Promise(NamedTuple):
    """What Q-values say of a policy's episodes at their starts, and what they were worth: in scaled, discounted rewards."""

    values: np.ndarray | None  # (E,) Q of the first action; None: the agent has no Q-values
    discounted_returns: np.ndarray  # (E,)
    visited_returns: np.ndarray | None = None  # (E,) from each step on, in the mean over an episode's steps

    def known(self) -> dict[str, np.ndarray]:
        return {name: column for name, column in self._asdict().items() if column is not None}


class Sink(Protocol):
    """Somewhere else that numbers go to."""

    def add(self, step: int, values: dict[str, float]) -> None: ...


def write_records(folder: Path, records: Sequence[dict[str, Any]]) -> None:
    """Lines that a run's metrics begin with: of the one that it goes on from. What a start before this one wrote is gone."""
    with storage.replacing(folder / "metrics.jsonl") as temporary:
        temporary.write_text("", encoding="utf-8")
        for record in records:
            storage.append_jsonl(temporary, record)


class MetricsLog:
    """Appends to a run's `metrics.jsonl` and TensorBoard events. Lines past the step it starts from are dropped first.

    What it writes goes to `sinks` too, and those are closed by whoever opened them.
    """

    def __init__(self, folder: Path, step: int, env_id: str | None, sinks: Sequence[Sink] = ()) -> None:
        self.path = folder / "metrics.jsonl"
        self.env_id = env_id
        if self.path.exists():
            # A run killed after its checkpoint has lines that the resumed run will write again.
            storage.truncate_jsonl(self.path, lambda record: record.get("step", 0) <= step)
        self.evaluations = (
            {r["step"]: r["evaluation"] for r in storage.read_jsonl(self.path) if "evaluation" in r} if self.path.exists() else {}
        )
        self.events = EventFile(folder / "tensorboard", step)
        self.sinks: tuple[Sink, ...] = (self.events, *sinks)

    def fit(self, history: list[dict[str, float]]) -> None:
        """The fit of the bonus, once, before the first training line. A crash may have left a part of it there."""
        written = {record.get("fit_step") for record in storage.read_jsonl(self.path)} if self.path.exists() else set()
        for record in history:
            if record["fit_step"] in written:
                continue
            storage.append_jsonl(self.path, record)
            self._add(int(record["fit_step"]), {f"fit/{name}": v for name, v in record.items() if name != "fit_step"})

    def training(self, step: int, metrics: dict[str, float]) -> None:
        storage.append_jsonl(self.path, {"step": step, **metrics})
        self._add(step, metrics)

    def evaluation(
        self, step: int, results: dict[str, EpisodeResults], promises: Mapping[str, Promise] = MappingProxyType({})
    ) -> None:
        self.evaluations[step] = {
            policy: {"returns": result.returns.tolist(), "lengths": result.lengths.tolist()} for policy, result in results.items()
        }
        for policy, promise in promises.items():
            self.evaluations[step][policy] |= {name: column.tolist() for name, column in promise.known().items()}
        storage.append_jsonl(self.path, {"step": step, "evaluation": self.evaluations[step]})
        means = {f"evaluation/{policy}": float(np.mean(self.scores(result.returns))) for policy, result in results.items()}
        for policy, promise in promises.items():
            means |= {f"evaluation/{policy}/{name}": float(np.mean(column)) for name, column in promise.known().items()}
        self._add(step, means)

    def scores(self, returns: Any) -> np.ndarray:
        """Normalised scores where the environment has reference returns, else the returns."""
        normalised = normalised_score(np.asarray(returns, float), self.env_id)
        return np.asarray(returns, float) if normalised is None else np.asarray(normalised)

    def close(self) -> None:
        self.events.close()

    def _add(self, step: int, values: dict[str, float]) -> None:
        for sink in self.sinks:
            sink.add(step, values)

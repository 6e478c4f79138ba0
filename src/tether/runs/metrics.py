"""Where a run's numbers go: `metrics.jsonl`, TensorBoard events, and the check that they are still numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import numpy as np

from tether import storage
from tether.environments.scores import normalised_score
from tether.errors import TetherError
from tether.evaluation.rollout import EpisodeResults
from tether.runs.tensorboard import EventFile


class Diverged(TetherError):
    """The critic left all bounds. The run's last checkpoint is from before."""


class Promise(NamedTuple):
    """What Q-values say of a policy's episodes at their starts, and what they were worth: in scaled, discounted rewards."""

    values: np.ndarray | None  # (E,) Q of the first action; None: the agent has no Q-values
    discounted_returns: np.ndarray  # (E,)

    def known(self) -> dict[str, np.ndarray]:
        return {name: column for name, column in self._asdict().items() if column is not None}


class MetricsLog:
    """Appends to a run's `metrics.jsonl` and TensorBoard events. Lines past the step it starts from are dropped first."""

    def __init__(self, folder: Path, step: int, env_id: str | None) -> None:
        self.path = folder / "metrics.jsonl"
        self.env_id = env_id
        if self.path.exists():
            # A run killed after its checkpoint has lines that the resumed run will write again.
            storage.truncate_jsonl(self.path, lambda record: record.get("step", 0) <= step)
        self.evaluations = (
            {r["step"]: r["evaluation"] for r in storage.read_jsonl(self.path) if "evaluation" in r} if self.path.exists() else {}
        )
        self.events = EventFile(folder / "tensorboard", step)

    def fit(self, history: list[dict[str, float]]) -> None:
        """The fit of the bonus, once, before the first training line. A crash may have left a part of it there."""
        written = {record.get("fit_step") for record in storage.read_jsonl(self.path)} if self.path.exists() else set()
        for record in history:
            if record["fit_step"] in written:
                continue
            storage.append_jsonl(self.path, record)
            self.events.add(int(record["fit_step"]), {f"fit/{name}": v for name, v in record.items() if name != "fit_step"})

    def training(self, step: int, metrics: dict[str, float]) -> None:
        storage.append_jsonl(self.path, {"step": step, **metrics})
        self.events.add(step, metrics)

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
        self.events.add(step, means)

    def scores(self, returns: Any) -> np.ndarray:
        """Normalised scores where the environment has reference returns, else the returns."""
        normalised = normalised_score(np.asarray(returns, float), self.env_id)
        return np.asarray(returns, float) if normalised is None else np.asarray(normalised)

    def close(self) -> None:
        self.events.close()


def all_finite(tree: Any) -> bool:
    """Whether no array of a pytree has a NaN or an infinity."""
    return all(bool(np.isfinite(leaf).all()) for leaf in jax.tree.leaves(tree))


def check_finite(metrics: dict[str, float], weights: Any, value_limit: float, step: int, run: str, last_good: int | None) -> None:
    """Raise `Diverged` where a metric or a weight is not a number or a Q-value has passed the limit."""
    keep = f"last good checkpoint: step {last_good}" if last_good else "there is no checkpoint yet"
    for name, value in metrics.items():
        if not math.isfinite(value):
            raise Diverged(f"{name} is {value} at step {step} (run {run}); {keep}")
    if not all_finite(weights):  # the metrics of an update are from before its last step
        raise Diverged(f"a weight of the agent is NaN or infinite at step {step} (run {run}); {keep}")
    for name in ("critic/q", "critic/target", "actor/q"):
        if abs(metrics.get(name, 0.0)) > value_limit:
            raise Diverged(
                f"{name} is {metrics[name]:.3g} at step {step} (run {run}), past training.value_limit {value_limit:g}: "
                f"the critic is exploding; {keep}. A larger agent.bonus_weight_critic holds it; "
                "training.value_limit=inf lets it run on"
            )

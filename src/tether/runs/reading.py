"""A run folder, read: what was asked for, what was measured on the way, and the result if the run has finished."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tether.environments.scores import normalised_score
from tether.errors import TetherError, did_you_mean
from tether.evaluation.stats import ScoreSummary, score_summary
from tether.runs import RESULT_VERSION
from tether.storage import read_json, read_jsonl


@dataclass(frozen=True)
class Run:
    """One run. Its records are the lines of `metrics.jsonl`, in order, by what they report on."""

    path: Path
    config: dict[str, Any]
    result: dict[str, Any] | None  # None until the run has finished
    env_id: str | None
    training: list[dict[str, Any]]  # {"step": 1000, "critic/loss": 0.1, ...}
    evaluations: list[dict[str, Any]]  # {"step": 5000, "evaluation": {"online": {"returns": [...], "lengths": [...]}, ...}}
    fit: list[dict[str, Any]]  # {"fit_step": 1000, "bonus/loss": 0.2, ...}

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @property
    def method(self) -> tuple[str, str]:
        """Agent and bonus. An agent that has learnt online is another: it must not stand under an offline one's name."""
        agent, bonus = (str(self.config.get(part, {}).get("name")) for part in ("agent", "bonus"))
        return f"{agent}+online" if self.config.get("online") else agent, bonus

    @property
    def policy(self) -> str:
        """Which of the evaluated policies is the run's own."""
        return str((self.result or self.config.get("evaluation", {})).get("policy", ""))

    def series(self, metric: str) -> tuple[np.ndarray, np.ndarray]:
        """Steps and values of a training metric; both empty if the run does not have it."""
        records = [record for record in self.training if metric in record]
        return _column(records, "step"), _column(records, metric)

    def returns(self, policy: str | None = None) -> tuple[np.ndarray, list[np.ndarray]]:
        """Steps of the evaluations and the returns of their episodes, of the run's own policy unless another is named."""
        policy = policy or self.policy
        known = {name for record in self.evaluations for name in record["evaluation"]}
        if known and policy not in known:
            raise TetherError(f"run {self.path} has no policy {policy}{did_you_mean(policy, known)}")
        records = [record for record in self.evaluations if policy in record["evaluation"]]
        return _column(records, "step"), [np.asarray(record["evaluation"][policy]["returns"], float) for record in records]

    def scores(self, policy: str | None = None) -> tuple[np.ndarray, list[np.ndarray]] | None:
        """As `returns`, in normalised scores; None where the environment has no reference returns."""
        steps, returns = self.returns(policy)
        if normalised_score(np.zeros(1), self.env_id) is None:
            return None
        return steps, [np.asarray(normalised_score(episodes, self.env_id)) for episodes in returns]

    def lowest_of_last(self, number: int, policy: str | None = None) -> float | None:
        """The mean of the worst among the last evaluations: what stopping at an unlucky step would have cost."""
        _, scores = self.scores(policy) or self.returns(policy)
        return min((float(np.mean(episodes)) for episodes in scores[-number:]), default=None)

    def within(self, since: int | None = None, until: int | None = None) -> Run:
        """The run without what came before its evaluation at `since`, such as a warm-up, and after that at `until`, so that it
        compares with shorter ones. None: its first and its last."""
        steps = [record["step"] for record in self.evaluations]
        for step in (since, until):
            if step is not None and step not in steps:
                found = ", ".join(f"{known:,}" for known in steps) or "none"
                raise TetherError(f"run {self.path} has no evaluation at step {step:,}; it has {found}")
        if since is None and until is None:
            return self
        first, last = (steps[0] if since is None else since), (steps[-1] if until is None else until)
        if first > last:
            raise TetherError(f"no evaluation is both since step {first:,} and until step {last:,}; turn the two round")
        training = [record for record in self.training if record["step"] <= last]
        evaluations = [record for record in self.evaluations if first <= record["step"] <= last]
        cut = replace(self, training=training, evaluations=evaluations)
        if self.result is None:
            return cut
        scores = {name: cut._summary(name) for name in cut.evaluations[-1]["evaluation"]}
        return replace(cut, result=self.result | {"score": scores.get(self.policy), "score_by_policy": scores})

    def _summary(self, policy: str) -> ScoreSummary | None:
        steps, scores = self.scores(policy) or self.returns(policy)
        return score_summary([(int(step), episodes) for step, episodes in zip(steps, scores, strict=True)])


def read_run(path: Path | str, env_id: str | None = None) -> Run:
    """Read a run folder, finished or not.

    `env_id` names the environment of a run that has no result yet; without it such a run has returns but no scores.
    """
    path = Path(path).expanduser()
    if not path.is_dir():
        raise TetherError(f"there is no run folder {path}")
    has_result, has_config = (path / "result.json").exists(), (path / "config.json").exists()
    if not has_result and not has_config:
        raise TetherError(f"{path} is not a run folder: it has neither config.json nor result.json")
    result = _read_result(path / "result.json") if has_result else None
    metrics = path / "metrics.jsonl"
    records = read_jsonl(metrics) if metrics.exists() else []
    return Run(
        path=path,
        config=result["config"] if result else read_json(path / "config.json"),
        result=result,
        env_id=(result["dataset"].get("env_id") if result else None) or env_id,
        training=[record for record in records if "step" in record and "evaluation" not in record],
        evaluations=[record for record in records if "evaluation" in record],
        fit=[record for record in records if "fit_step" in record],
    )


def _read_result(path: Path) -> dict[str, Any]:
    result = read_json(path)
    if not isinstance(result, dict) or not {"format_version", "config", "dataset", "policy", "score"} <= result.keys():
        raise TetherError(f"{path} is not the result of a Tether run")
    if result["format_version"] != RESULT_VERSION:
        version = result["format_version"]
        raise TetherError(f"{path} has format version {version}, this Tether reads version {RESULT_VERSION}; upgrade Tether")
    return result


def _column(records: list[dict[str, Any]], name: str) -> np.ndarray:
    return np.asarray([record[name] for record in records], float)


def find_runs(folders: Sequence[Path]) -> list[Run]:
    """Every finished run in or below the folders, in the order of their paths."""
    found: dict[Path, Run] = {}
    for folder in folders:
        if not folder.is_dir():
            raise TetherError(f"there is no folder {folder}")
        for result in sorted(folder.rglob("result.json")):
            found.setdefault(result.parent.resolve(), read_run(result.parent))
    return list(found.values())

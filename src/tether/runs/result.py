"""What `result.json` says: everything a table or a reader needs, and all raw returns."""

from __future__ import annotations

import platform
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from tether import config as configs
from tether.config import RunConfig
from tether.data import Dataset
from tether.data.rewards import RewardScale
from tether.environments.scores import normalised_score
from tether.evaluation.stats import score_summary, summarise
from tether.runs import RESULT_VERSION
from tether.runs.metrics import MetricsLog

PACKAGES = ("tether-rl", "jax", "jaxlib", "equinox", "optax", "numpy", "gymnasium", "gymnasium-robotics", "mujoco")


def make_result(
    config: RunConfig, dataset: Dataset, reward_scale: RewardScale, fit: dict[str, Any], log: MetricsLog, env_id: str | None
) -> dict[str, Any]:
    """`fit` is what is known about the bonus."""
    by_policy = {}
    if log.evaluations:
        steps = sorted(log.evaluations)
        for policy in log.evaluations[steps[0]]:
            by_policy[policy] = score_summary([(s, log.scores(log.evaluations[s][policy]["returns"])) for s in steps])
    return {
        "format_version": RESULT_VERSION,
        "config": configs.to_json(config),
        "dataset": describe_dataset(dataset, reward_scale, env_id),
        "versions": versions(),
        "policy": config.policy,
        "score_unit": "return" if normalised_score(dataset.episode_returns, env_id) is None else "normalised",
        "score": by_policy.get(config.policy),
        "score_by_policy": by_policy,
        "bonus": fit,
        "evaluations": [{"step": step, "evaluation": log.evaluations[step]} for step in sorted(log.evaluations)],
    }


def describe_dataset(dataset: Dataset, reward_scale: RewardScale, env_id: str | None) -> dict[str, Any]:
    normalised = normalised_score(dataset.episode_returns, env_id)
    return {
        "name": dataset.name,
        "sha256": dataset.sha256,
        "env_id": env_id,
        "transitions": dataset.size,
        "episodes": len(dataset.episode_ends),
        "score": summarise(dataset.episode_returns if normalised is None else normalised),
        "reward_scale": asdict(reward_scale),
    }


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found

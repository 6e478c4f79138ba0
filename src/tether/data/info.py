"""What is in a dataset, as plain values that print and serialise."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from tether.data.dataset import Dataset
from tether.data.rewards import discounted_returns, normalise_rewards, order_kept
from tether.environments.tasks import find_task

DISCOUNT = 0.99  # of discounted returns where no agent has one to say: the paper's
USUAL = "divide"  # the scaling that `tether train` begins with; the paper's, `range`, shifts rewards


def describe(dataset: Dataset) -> dict[str, Any]:
    """Everything `tether data info` says. Returns and rewards are unscaled; `normalised_score` is None without a reference."""
    lengths = dataset.episode_ends - dataset.episode_starts
    reward = np.asarray(dataset.transitions.reward)
    task = find_task(dataset.env_id)
    score = None
    if task is not None:
        score = {**_mean_and_std(task.normalised_score(dataset.episode_returns)), "reference": task.source}
    scaled, _ = normalise_rewards(dataset, USUAL)
    order = {name: order_kept(dataset, normalise_rewards(dataset, name)[1], DISCOUNT) for name in ("range", "divide")}
    return {
        "name": dataset.name,
        "env_id": dataset.env_id,
        "sha256": dataset.sha256,
        "transitions": dataset.size,
        "episodes": len(lengths),
        "observation_size": dataset.spec.observation_size,
        "observation_shape": list(dataset.spec.observation_shape),  # of an image, else empty
        "action_size": dataset.spec.action_size,
        "discrete": dataset.spec.discrete,  # action_size is then the number of choices
        "action_low": list(dataset.spec.action_low),
        "action_high": list(dataset.spec.action_high),
        "episode_return": _distribution(dataset.episode_returns),
        "episode_length": _distribution(lengths),  # in transitions, without dropped rows
        "normalised_score": score,
        "discounted_return": _mean_and_std(discounted_returns(scaled, DISCOUNT)) | {"discount": DISCOUNT, "scaling": USUAL},
        "reward": {"min": float(reward.min()), "max": float(reward.max()), "constant": bool(reward.min() == reward.max())},
        # What `auto` is for an agent that leaves it to the data, and the rank correlation of episodes before and after scaling.
        "reward_scaling": {"auto": normalise_rewards(dataset)[1].scaling, "order_kept": order},
        "terminated_share": float(np.mean(dataset.transitions.terminated, dtype=np.float64)),  # of transitions
        "truncated_share": float(np.mean(dataset.truncated)),
        "notes": asdict(dataset.notes),
        "provenance": dataset.provenance,
    }


def _mean_and_std(values: np.ndarray) -> dict[str, float]:
    return {"mean": float(np.mean(values)), "std": float(np.std(values))}


def _distribution(values: np.ndarray) -> dict[str, float]:
    low, first_quartile, median, third_quartile, high = np.quantile(values, [0.0, 0.25, 0.5, 0.75, 1.0]).tolist()
    return {
        **_mean_and_std(values),
        "min": low,
        "first_quartile": first_quartile,
        "median": median,
        "third_quartile": third_quartile,
        "max": high,
    }

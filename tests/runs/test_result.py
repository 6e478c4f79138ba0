"""What `result.json` says, by hand."""

from __future__ import annotations

import math
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pendulum import small_config

from tether.config import to_json
from tether.data import load_dataset
from tether.data.rewards import RewardScale, normalise_rewards
from tether.evaluation.rollout import EpisodeResults
from tether.runs.metrics import MetricsLog
from tether.runs.result import describe_dataset, make_result, versions
from tether.training.fit import FitReport

FIT = FitReport(3000, 2.5, [], 0.25, {"uniform": 0.75})


def results(**returns: list[float]) -> dict[str, EpisodeResults]:
    return {policy: EpisodeResults(np.array(values), np.array([5] * len(values))) for policy, values in returns.items()}


@pytest.fixture
def result(pendulum_file: Path, tmp_path: Path) -> dict[str, Any]:
    dataset, scale = normalise_rewards(load_dataset(pendulum_file), "range")
    with closing(MetricsLog(tmp_path, 0, "InvertedDoublePendulum-v5")) as log:
        log.evaluation(200, results(online=[1.0, 3.0], target=[0.0, 0.0], ema=[9.0, 9.0]))
        log.evaluation(1000, results(online=[2.0, 2.0], target=[4.0, 8.0], ema=[7.0, 7.0]))
        return make_result(small_config(pendulum_file), dataset, scale, FIT.summary(), log, "InvertedDoublePendulum-v5")


def test_scores_are_last_last_ten_and_best(result: dict[str, Any]):
    assert result["policy"] == "target"
    assert result["score_unit"] == "return"
    assert result["score"] == {
        "last": {"mean": 6.0, "std": 2.0},
        "last_ten": {"mean": 3.0, "std": math.sqrt(11.0)},  # of 0, 0, 4, 8
        "best": {"mean": 6.0, "std": 2.0, "step": 1000},
    }
    assert result["score_by_policy"]["target"] == result["score"]
    assert result["score_by_policy"]["online"]["best"] == {"mean": 2.0, "std": 1.0, "step": 200}  # the earlier of two equal means
    assert result["score_by_policy"]["ema"]["best"] == {"mean": 9.0, "std": 0.0, "step": 200}


def test_the_returns_of_every_evaluation_are_kept_as_they_were(result: dict[str, Any]):
    assert [record["step"] for record in result["evaluations"]] == [200, 1000]
    assert result["evaluations"][0]["evaluation"]["online"] == {"returns": [1.0, 3.0], "lengths": [5, 5]}


def test_the_config_the_data_and_the_fit_are_described(result: dict[str, Any], pendulum_file: Path):
    dataset = load_dataset(pendulum_file)
    assert result["config"] == to_json(small_config(pendulum_file))
    assert result["dataset"] == {
        "name": "pendulum",
        "sha256": dataset.sha256,
        "env_id": "InvertedDoublePendulum-v5",
        "transitions": dataset.size,
        "episodes": 40,
        "score": {"mean": float(np.mean(dataset.episode_returns)), "std": float(np.std(dataset.episode_returns))},
        "reward_scale": {
            "low": float(np.min(dataset.transitions.reward)),
            "high": float(np.max(dataset.transitions.reward)),
            "keep_zero": False,
            "unit": None,
        },
    }
    assert result["bonus"] == {
        "steps": 3000,
        "seconds": 2.5,
        "held_out_mean": 0.25,
        "auroc": {"uniform": 0.75},
        "histogram": {},
        "looks_short": False,
    }


def test_without_an_evaluation_there_is_no_score(pendulum_file: Path, tmp_path: Path):
    dataset, scale = normalise_rewards(load_dataset(pendulum_file), "range")
    with closing(MetricsLog(tmp_path, 0, None)) as log:
        result = make_result(small_config(pendulum_file), dataset, scale, FIT.summary(), log, None)
    assert (result["score"], result["score_by_policy"], result["evaluations"]) == (None, {}, [])


def test_a_dataset_of_a_known_task_is_described_by_its_normalised_score(pendulum_file: Path):
    dataset = load_dataset(pendulum_file)
    scale = RewardScale(0.0, 1.0)
    mean_return = describe_dataset(dataset, scale, None)["score"]["mean"]
    # hopper: 100 (return + 20.272305) / (3234.3 + 20.272305)
    expected = 100.0 * (mean_return + 20.272305) / 3254.572305
    assert describe_dataset(dataset, scale, "Hopper-v4")["score"]["mean"] == pytest.approx(expected)


def test_versions_name_what_decides_the_numbers():
    found = versions()
    assert {"python", "tether-rl", "jax", "jaxlib", "equinox", "optax", "numpy", "gymnasium", "mujoco"} <= found.keys()
    assert found["numpy"] == np.__version__

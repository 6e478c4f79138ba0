"""The four hand tasks: their environments, horizons and scores, and a small run on people's demonstrations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tether.cli import main
from tether.environments.making import action_limits, make_environment
from tether.environments.scores import normalised_score
from tether.environments.tasks import TASKS, Task
from tether.evaluation.rollout import Evaluator
from tether.types import Spec

HANDS = [task for task in TASKS.values() if task.group == "manipulation"]


def spec_of(task: Task) -> Spec:
    return Spec(task.observation_size, (-1.0,) * task.action_size, (1.0,) * task.action_size)


@pytest.mark.parametrize("task", HANDS, ids=lambda task: task.name)
def test_the_environment_is_the_one_of_the_table(task: Task):
    environment = make_environment(task.env_ids[0], spec_of(task))
    low, high = action_limits(environment)
    environment.close()
    assert (low.tolist(), high.tolist()) == ([-task.action_limit] * task.action_size, [task.action_limit] * task.action_size)


@pytest.mark.parametrize("task", HANDS, ids=lambda task: task.name)
def test_a_hand_that_lies_still_has_a_whole_episode_and_a_low_score(task: Task):
    """Two episodes of no action: never cut before D4RL's horizon, but for a pen that falls, and far from the expert."""
    evaluator = Evaluator(task.env_ids[0], spec_of(task), episodes=2, seed=77)
    try:
        results = evaluator(lambda observation: np.zeros((len(observation), task.action_size), np.float32))
    finally:
        evaluator.close()
    assert (results.lengths <= task.horizon).all()
    assert task.name == "pen" or (results.lengths == task.horizon).all()
    scores = normalised_score(results.returns, task.env_ids[0])
    assert scores is not None
    assert (np.abs(scores) < 100 * (task.name == "pen") + 10).all()


@pytest.mark.parametrize(
    ("env_id", "returned", "score"),
    [
        ("AdroitHandPen-v1", 3076.8331017826877, 100.0),
        ("AdroitHandHammer-v1", -274.856578, 0.0),
        ("AdroitHandDoor-v1", (2880.5693087298737 - 56.512833) / 2, 50.0),
        ("AdroitHandRelocate-v1", 4233.877797728884, 100.0),
    ],
)
def test_scores_are_d4rls(env_id: str, returned: float, score: float):
    np.testing.assert_allclose(normalised_score(np.array([returned]), env_id), [score], atol=1e-9)


def run(source: Path, folder: Path, *arguments: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The config and the result of a run of 100 steps with small networks and one episode."""
    settings = ["agent.hidden_sizes=16,16", "agent.batch_size=32", "evaluation.episodes=1", "evaluation.seed=77"]
    settings += [f"training.{name}_every=100" for name in ("log", "evaluate", "checkpoint")]
    paths = ["--dataset", str(source), "--run-dir", str(folder)]
    assert main(["train", *paths, "--steps", "100", "--set", *settings, *arguments]) == 0
    config, result = (json.loads((folder / name).read_text()) for name in ("config.json", "result.json"))
    return config, result


def test_demonstrations_are_cloned_and_evaluated(shared_data: Path, tmp_path: Path):
    """6,729 rows of people opening a door, with actions beyond the bounds: from the file to a score in the environment."""
    source = shared_data / "sets" / "door-human.hdf5"
    _, result = run(source, tmp_path / "run", "--agent", "bc", "--bonus", "none")
    assert (result["dataset"]["transitions"], result["dataset"]["env_id"]) == (6704, "AdroitHandDoor-v1")
    assert result["score_unit"] == "normalised"
    (evaluation,) = result["evaluations"]
    assert evaluation["evaluation"]["online"]["lengths"] == [200]


@pytest.mark.parametrize(("name", "env_id"), [("pen-human-v1", "AdroitHandPen-v1"), ("door-expert-v0", "AdroitHandDoor-v1")])
def test_the_weights_are_those_of_the_group_unless_they_are_set(shared_data: Path, name: str, env_id: str, capsys: Any):
    source = str(shared_data / "d4rl_excerpts" / f"{name}.hdf5")
    assert main(["train", "--dataset", source, "--preset", "paper", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "agent.bonus_weight_actor = 10.0\n" in shown
    assert "agent.bonus_weight_critic = 10.0\n" in shown
    assert main(["train", "--dataset", source, "--preset", "paper", "--dry-run", "--set", "agent.bonus_weight_critic=2"]) == 0
    shown = capsys.readouterr().out
    assert "agent.bonus_weight_actor = 10.0\n" in shown
    assert "agent.bonus_weight_critic = 2.0\n" in shown


@pytest.mark.slow
@pytest.mark.parametrize(("name", "steps"), [("door-human", 200), ("pen-expert", 100)])
def test_td3_with_the_bonus_trains_and_is_evaluated(shared_data: Path, tmp_path: Path, name: str, steps: int, capsys: Any):
    check_a_run_with_the_bonus(shared_data / "sets" / f"{name}.hdf5", tmp_path / "run", name.split("-")[0], steps, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hammer", "relocate"])
def test_hands_of_which_there_is_no_file_are_recorded_trained_and_evaluated(tmp_path: Path, name: str, capsys: Any):
    source = tmp_path / f"{name}-random-v1.hdf5"
    (env_id,) = (task.env_ids[0] for task in HANDS if task.name == name)
    assert main(["collect", env_id, "--out", str(source), "--level", "random", "--transitions", "1000"]) == 0
    capsys.readouterr()
    check_a_run_with_the_bonus(source, tmp_path / "run", name, 200, capsys)


def check_a_run_with_the_bonus(source: Path, folder: Path, task: str, steps: int, capsys: Any) -> None:
    config, result = run(source, folder, "bonus.hidden_sizes=16,16", "bonus.steps=1000")
    expected = f"bonus weights: 10 (actor) and 10 (critic), the paper's for manipulation such as {task}\n"
    assert capsys.readouterr().out.startswith(expected)
    assert (config["agent"]["bonus_weight_actor"], config["agent"]["bonus_weight_critic"]) == (10.0, 10.0)
    (evaluation,) = result["evaluations"]
    assert evaluation["evaluation"]["online"]["lengths"][0] <= steps
    assert np.isfinite(result["score"]["last"]["mean"])

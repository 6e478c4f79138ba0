"""A whole run of DQN in a real environment: interrupted and resumed, evaluated, shipped."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from pendulum import assert_same_run, interrupting, quietly

import tether
from tether import storage
from tether.cli import main
from tether.config import RunConfig, make_config
from tether.errors import TetherError
from tether.runs import checkpoint

SETTINGS = {"agent.hidden_sizes": "16,16", "agent.batch_size": "32", "evaluation.episodes": "2"}
SETTINGS |= {"bonus.predictor_sizes": "16,16", "bonus.target_sizes": "16,16", "bonus.steps": "200", "bonus.batch_size": "32"}
SETTINGS |= {f"training.{name}": "100" for name in ("log_every", "evaluate_every", "checkpoint_every")}


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "cartpole.hdf5"
    assert main(["collect", "CartPole-v1", "--level", "random", "--transitions", "600", "--out", str(path)]) == 0
    return path


def config(dataset: Path, **changes: str) -> RunConfig:
    return make_config(str(dataset), "CartPole-v1", "dqn", "rnd", overrides=SETTINGS | {"training.steps": "300"} | changes)


@pytest.fixture(scope="module")
def finished(cartpole: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "unbroken"
    quietly(config(cartpole), folder)
    return folder


def test_an_interrupted_run_ends_as_an_unbroken_one(cartpole: Path, finished: Path, tmp_path: Path):
    say, _ = interrupting("bonus:")
    with pytest.raises(KeyboardInterrupt):
        quietly(config(cartpole), tmp_path / "run", say)
    result = quietly(config(cartpole), tmp_path / "run")
    assert result["resumed_from_step"] == 100
    assert_same_run(tmp_path / "run", finished)


def test_every_evaluation_sets_the_value_beside_what_it_was_worth(finished: Path):
    last = storage.read_jsonl(finished / "metrics.jsonl")[-1]["evaluation"]
    assert list(last) == ["online", "target", "ema", "unpenalised"]
    for facts in last.values():
        # CartPole pays 1 a step, and rewards are divided by the largest: the return of n steps is (1 - 0.99^n) / 0.01.
        worth = [(1 - 0.99**length) / 0.01 for length in facts["lengths"]]
        np.testing.assert_allclose(facts["discounted_returns"], worth, rtol=1e-5)
        # From its step k on an episode has n - k left. None of them reaches the time limit.
        assert max(facts["lengths"]) < 500
        visited = [np.mean([(1 - 0.99**left) / 0.01 for left in range(1, length + 1)]) for length in facts["lengths"]]
        np.testing.assert_allclose(facts["visited_returns"], visited, rtol=1e-5)
        assert len(facts["values"]) == 2


def test_the_value_is_that_of_the_policy_at_the_start(finished: Path):
    policy = tether.load_policy(finished)
    last = storage.read_jsonl(finished / "metrics.jsonl")[-1]["evaluation"]["target"]
    from tether.environments.making import make_environment

    environment = make_environment("CartPole-v1")
    starts = np.stack([environment.reset(seed=10_000 + row)[0] for row in range(2)])
    environment.close()
    agent, *_ = checkpoint.read_agent(finished)
    np.testing.assert_allclose(last["values"], np.asarray(agent.q(starts))[np.arange(2), policy(starts)], rtol=1e-5)


def test_the_policy_file_acts_as_the_run_did(finished: Path):
    policy = tether.load_policy(finished)
    assert policy.actor.penalty.bonus.predictor_sizes == (16, 16)
    assert float(policy.actor.weight) == 1.0
    found = tether.evaluate(policy, episodes=2)
    last = storage.read_jsonl(finished / "metrics.jsonl")[-1]["evaluation"]["target"]
    assert found["returns"].tolist() == last["returns"]


def test_the_command_evaluates_every_policy_without_the_dataset(finished: Path, capsys):
    assert main(["evaluate", str(finished), "--episodes", "2", "--seed", "10000", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["policies"]
    last = storage.read_jsonl(finished / "metrics.jsonl")[-1]["evaluation"]
    assert {name: facts["returns"] for name, facts in found.items()} == {name: facts["returns"] for name, facts in last.items()}


def test_the_result_says_how_rewards_were_scaled(finished: Path):
    result = storage.read_json(finished / "result.json")
    assert result["dataset"]["reward_scale"] == {"low": 1.0, "high": 1.0, "keep_zero": True, "unit": None}
    assert set(result["bonus"]["auroc"]) == {"shuffled", "uniform", "other"}


def test_agents_of_the_other_kind_are_refused_and_nothing_is_left(cartpole: Path, tmp_path: Path, capsys):
    code = main(["train", "--dataset", str(cartpole), "--agent", "td3", "--bonus", "none", "--run-dir", str(tmp_path / "run")])
    assert (code, list(tmp_path.rglob("*.json"))) == (2, [])
    assert "discrete actions, which TD3 cannot learn; choose agent dqn or bc" in capsys.readouterr().err
    with pytest.raises(TetherError, match="continuous actions, which DQN cannot learn"):
        tether.train(tether.DQN(), tether.load_dataset("halfcheetah-mixed-tether"), steps=100)


@pytest.mark.slow
def test_the_lab_compares_choices(cartpole: Path, tmp_path: Path, capsys):
    out = tmp_path / "lab"
    assert main(["bonus", str(cartpole), "--bonuses", "count:bits=8", "--out", str(out), "--probe-steps", "10"]) == 0
    heading = next(line for line in capsys.readouterr().out.splitlines() if "shuffled" in line)
    columns = [cell.strip() for cell in heading.split("┃")[1:-1]]
    assert columns == ["bonus", "shuffled", "uniform", "other", "probe", "weight", "fit s"]
    assert {path.name for path in out.iterdir()} >= {"bonus.json", "histograms.png", "slices.png"}


def test_the_notebook_trains_and_carries_on(cartpole: Path):
    dataset, settings = tether.load_dataset(cartpole), config(cartpole)
    bonus = tether.fit(settings.bonus, dataset)
    policy = tether.train(settings.agent, dataset, bonus, steps=100, epoch_steps=100)
    assert policy(dataset.transitions.observation[:5]).shape == (5,)
    assert policy(dataset.transitions.observation[0]) in (0, 1)

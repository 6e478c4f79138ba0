"""The notebook's way in gives what the command gives, and takes nothing away from its caller."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest
from pendulum import small_config

import tether
from tether import storage
from tether.config import RunConfig, make_config
from tether.data import Dataset
from tether.errors import TetherError
from tether.policies import Policy
from tether.training.fit import FittedBonus

SMALL: dict[str, Any] = {"hidden_sizes": (16, 16), "batch_size": 32}  # as in the runs, for which they are compiled


@pytest.fixture(scope="module")
def dataset(pendulum_file: Path) -> Dataset:
    return tether.load_dataset(pendulum_file)


@pytest.fixture(scope="module")
def config(pendulum_file: Path, finished_run: Path) -> RunConfig:
    """Of the finished run, which has left its fit in the cache."""
    return small_config(pendulum_file)


@pytest.fixture(scope="module")
def bonus(config: RunConfig, dataset: Dataset) -> FittedBonus:
    return tether.fit(config.bonus, dataset)


def train(config: RunConfig, dataset: Dataset, bonus: FittedBonus, steps: int = 200, **options: Any) -> Policy:
    return tether.train(config.agent, dataset, bonus, **{"steps": steps, "epoch_steps": 100} | options)


def bits(policy: Policy) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(policy.actor)]


def test_the_example_of_the_package_does_what_it_shows(pendulum_file: Path, finished_run: Path, tmp_path: Path):
    lines = [line.split("#")[0].strip(" >") for line in (tether.__doc__ or "").splitlines() if line.startswith(">>>")]
    text = "\n".join(lines)
    for shown, small in {
        '"halfcheetah-mixed-tether"': repr(str(pendulum_file)),
        "tether.usual_bonus(agent)": "replace(tether.usual_bonus(agent), steps=200, **SMALL)",
        "tether.Tethered()": "tether.Tethered(**SMALL)",
        "steps=60_000": "steps=200, epoch_steps=100",
        "episodes=10": "episodes=2",
        '"halfcheetah.safetensors"': repr(str(tmp_path / "pendulum.safetensors")),
    }.items():
        assert shown in text
        text = text.replace(shown, small)
    *body, last = text.splitlines()
    names = {"SMALL": SMALL, "replace": replace, "observation": np.zeros(9)}
    exec("\n".join(body), names)
    action = eval(last, names)
    assert action.shape == (1,)
    assert abs(action[0]) <= 1.0
    policy: Any = names["policy"]
    np.testing.assert_array_equal(action, policy(np.zeros(9)))


def test_training_here_is_training_by_command(config: RunConfig, dataset: Dataset, bonus: FittedBonus, finished_run: Path):
    metrics: list[dict[str, float]] = []
    scaling = config.reward_scaling  # the command has the paper's from its preset
    policy = train(
        config,
        dataset,
        bonus,
        steps=3000,
        reward_scaling=scaling,
        on_epoch=lambda step, record, _: metrics.append({"step": step, **record}),
    )
    assert bits(policy) == bits(tether.load_policy(finished_run))
    lines = [json.loads(line) for line in (finished_run / "metrics.jsonl").read_text().splitlines()]
    assert metrics == [line for line in lines if "critic/loss" in line]


def test_the_usual_bonus_of_an_agent_is_that_of_the_command():
    assert tether.usual_bonus(tether.Tethered()) == make_config("x", agent="tethered").bonus
    assert tether.usual_bonus(tether.Tethered()) == tether.Density(lean_to_best=6.0, least_std=0.1, steps=60_000)
    assert tether.usual_bonus(tether.BC()).steps == 0
    with pytest.raises(TetherError, match="the agent is the name 'td3'"):
        tether.usual_bonus("td3")  # type: ignore[arg-type]


def test_a_bonus_outlives_the_trainings_it_is_used_for(config: RunConfig, dataset: Dataset, bonus: FittedBonus):
    pairs = dataset.transitions.observation[:5], dataset.transitions.action[:5]
    before = bonus.novelty(*pairs)
    first, second = train(config, dataset, bonus), train(config, dataset, bonus)
    assert bits(first) == bits(second)
    np.testing.assert_array_equal(bonus.novelty(*pairs), before)


def test_policies_on_the_way_stay_usable(config: RunConfig, dataset: Dataset, bonus: FittedBonus):
    seen: list[tuple[int, Policy]] = []
    last = train(config, dataset, bonus, steps=300, on_epoch=lambda step, _, policy: seen.append((step, policy)))
    assert [step for step, _ in seen] == [100, 200, 300]
    assert [policy.about["step"] for _, policy in seen] == [100, 200, 300]
    actions = [policy(np.ones(9)) for _, policy in seen]
    assert len({action.tobytes() for action in actions}) == 3
    np.testing.assert_array_equal(actions[-1], last(np.ones(9)))


def test_a_callback_ends_the_training_and_its_policy_is_kept(config: RunConfig, dataset: Dataset, bonus: FittedBonus):
    seen: list[Policy] = []

    def stop(step: int, metrics: dict[str, float], policy: Policy) -> bool:
        seen.append(policy)
        return step == 200

    policy = train(config, dataset, bonus, steps=1_000, on_epoch=stop)
    assert (len(seen), policy.about["step"]) == (2, 200)
    assert bits(policy) == bits(seen[-1])


def test_seeds_and_policies_are_chosen(config: RunConfig, dataset: Dataset, bonus: FittedBonus):
    made = [train(config, dataset, bonus), train(config, dataset, bonus, seed=1), train(config, dataset, bonus, policy="ema")]
    assert len({tuple(bits(policy)) for policy in made}) == 3
    assert made[2].about["policy"] == "ema"


def test_the_callers_dataset_is_left_as_it_was(config: RunConfig, dataset: Dataset, bonus: FittedBonus):
    before = [np.array(column) for column in dataset.transitions]
    train(config, dataset, bonus)
    for column, expected in zip(dataset.transitions, before, strict=True):
        np.testing.assert_array_equal(column, expected)


def test_a_policy_that_is_not_there_is_found_out_before_the_training(config: RunConfig, dataset: Dataset, bonus: FittedBonus):
    epochs: list[int] = []
    with pytest.raises(TetherError) as raised:
        train(config, dataset, bonus, policy="onlien", on_epoch=lambda step, *_: epochs.append(step))
    assert str(raised.value) == "the agent has no policy 'onlien'; it has online, target, ema"
    assert epochs == []


@pytest.mark.parametrize(("steps", "epoch_steps"), [(150, 100), (300, 101), (101, 1000)])
def test_steps_that_do_not_divide_are_refused(
    config: RunConfig, dataset: Dataset, bonus: FittedBonus, steps: int, epoch_steps: int
):
    with pytest.raises(TetherError) as raised:
        train(config, dataset, bonus, steps=steps, epoch_steps=epoch_steps)
    assert str(raised.value) == f"steps ({steps}) must be a multiple of epoch_steps ({epoch_steps}), and both of 2"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"steps": 0}, "steps is 0; it takes a whole number, at least 1"),
        ({"steps": "200"}, "steps is '200'; it takes a whole number, at least 1"),
        ({"steps": 2e2}, "steps is 200.0; it takes a whole number, at least 1"),
        ({"epoch_steps": 0}, "epoch_steps is 0; it takes a whole number, at least 1"),
        ({"seed": -1}, "seed is -1; it takes a whole number, at least 0"),
    ],
)
def test_numbers_that_are_not_whole_are_refused(
    config: RunConfig, dataset: Dataset, bonus: FittedBonus, given: dict[str, Any], told: str
):
    with pytest.raises(TetherError) as raised:
        train(config, dataset, bonus, **{"steps": 200, "epoch_steps": 100} | given)
    assert str(raised.value) == told


def test_a_bonus_of_other_data_is_refused(config: RunConfig, dataset: Dataset, bonus: FittedBonus):
    other = FittedBonus(bonus.bonus, bonus.state, tether.Spec(4, (-1.0,), (1.0,)), bonus.report)
    with pytest.raises(TetherError, match=r"^the bonus was fitted for Spec\(.*, the dataset has Spec\("):
        train(config, dataset, other)


def test_a_diverging_training_stops(config: RunConfig, dataset: Dataset, bonus: FittedBonus, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tether.config.TrainingConfig.value_limit", 1e-9)
    with pytest.raises(TetherError, match=r" at step 100 \(run pendulum\), past training.value_limit 1e-09"):
        train(config, dataset, bonus)


# Evaluating


def test_an_evaluation_has_raw_returns_and_scores_where_there_is_a_reference(finished_run: Path):
    policy = tether.load_policy(finished_run)
    found = tether.evaluate(policy, episodes=2)
    stored = json.loads((finished_run / "result.json").read_text())["evaluations"][-1]["evaluation"]["target"]
    assert found["returns"].tolist() == stored["returns"]  # the same starts and the same policy
    assert found["lengths"].tolist() == stored["lengths"]
    assert found["env_id"] == "InvertedDoublePendulum-v5"
    assert found["mean_return"] == np.mean(stored["returns"])
    assert (found["score"], found["scores"]) == (None, None)


def test_a_policy_without_an_environment_must_be_told_one(finished_run: Path):
    loaded = tether.load_policy(finished_run)
    policy = Policy(loaded.actor, loaded.spec)
    with pytest.raises(TetherError, match=r"^the policy's dataset names no environment; give env$"):
        tether.evaluate(policy)
    assert len(tether.evaluate(policy, "InvertedDoublePendulum-v5", episodes=2)["returns"]) == 2


def test_an_environment_may_be_an_object_or_registered_by_a_module(
    finished_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    policy = tether.load_policy(finished_run)
    by_id = tether.evaluate(policy, episodes=2)["returns"]
    environment = gymnasium.make("InvertedDoublePendulum-v5")
    found = tether.evaluate(policy, environment, episodes=2)
    np.testing.assert_allclose(found["returns"], by_id, rtol=1e-3)  # one episode after the other: another size of the batch
    assert found["env_id"] == "InvertedDoublePendulum-v5"
    environment.close()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_plants.py").write_text(
        "import gymnasium\n"
        "entry = 'gymnasium.envs.mujoco.inverted_double_pendulum_v5:InvertedDoublePendulumEnv'\n"
        "gymnasium.register('MyPlant-v0', entry_point=entry, max_episode_steps=1000)\n"
    )
    own = tether.evaluate(policy, "my_plants:MyPlant-v0", episodes=2)
    np.testing.assert_array_equal(own["returns"], by_id)
    with pytest.raises(TetherError, match=r"no environment 'no_plants:X-v0': .*no_plants.py in the current folder"):
        tether.evaluate(policy, "no_plants:X-v0")
    strange = Policy(policy.actor, policy.spec, {"env_id": "my_plants:MyPlant-v0"})
    with pytest.raises(TetherError, match="give it as env, and the module is run"):  # a file has no code run
        tether.evaluate(strange)


def test_a_policy_of_another_environment_is_refused(finished_run: Path):
    with pytest.raises(TetherError, match=r"^environment Hopper-v5 has observations of 11 numbers, the dataset has 9$"):
        tether.evaluate(tether.load_policy(finished_run), "Hopper-v5")


def test_a_fit_is_taken_from_the_cache_or_made_without_one(config: RunConfig, dataset: Dataset, bonus: FittedBonus):
    anew = tether.fit(config.bonus, dataset, cache=False)
    assert anew.report.seconds != bonus.report.seconds
    tensors = [storage.flatten_tree(fitted.state) for fitted in (anew, bonus)]
    assert all(tensors[0][name].tobytes() == tensors[1][name].tobytes() for name in tensors[0])
    assert tether.fit(config.bonus, dataset).report == bonus.report


# Mistakes


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        ("td3", "the agent is the name 'td3'; give the agent itself, tether.TD3()"),
        (tether.TD3, "the agent is <class 'tether.agents.td3.TD3'>; make one: TD3()"),
        (None, "the agent is None; there is tether.Tethered(), tether.TD3(), "),
        (tether.TD3(discount=2), "agent.discount is 2; it must be at least 0 and below 1"),
        (tether.TD3(batch_size=-1), "agent.batch_size is -1; it must be at least 1"),
        (tether.TD3(batch_size=2.5), "agent.batch_size is 2.5; it takes a whole number"),  # type: ignore[arg-type]
        (tether.TD3(discount="0.9"), "agent.discount is '0.9'; it takes a number"),  # type: ignore[arg-type]
        (
            tether.TD3(hidden_sizes=(256, "256")),  # type: ignore[arg-type]
            "agent.hidden_sizes is (256, '256'); it takes a tuple of numbers, such as (256, 256)",
        ),
        (tether.DQN(hidden_sizes=[8]), "agent.hidden_sizes is [8]; it takes a tuple of numbers, such as (256, 256)"),  # type: ignore[arg-type]
        (tether.DQN(hidden_sizes=()), "agent.hidden_sizes is (); it takes a tuple of numbers, such as (256, 256)"),
        (tether.TD3(layer_norm=1), "agent.layer_norm is 1; it takes true or false"),  # type: ignore[arg-type]
    ],
)
def test_an_agent_that_is_none_is_one_message(agent: Any, message: str, dataset: Dataset):
    with pytest.raises(TetherError) as raised:
        tether.train(agent, dataset)
    assert str(raised.value).startswith(message)


def test_a_dataset_or_a_bonus_that_is_none_is_one_message(dataset: Dataset):
    for train in (lambda data: tether.train(tether.TD3(), data), lambda data: tether.fit(tether.CVAE(), data)):
        with pytest.raises(
            TetherError, match=r"^the dataset is the name 'x.hdf5'; load it first: tether.load_dataset\('x.hdf5'\)$"
        ):
            train("x.hdf5")
        with pytest.raises(TetherError, match=r"^the dataset is a dict; give what tether.load_dataset gives$"):
            train({})
    with pytest.raises(TetherError, match=r"^the bonus is not fitted yet; give tether.fit\(CVAE\(…\), dataset\)$"):
        tether.train(tether.TD3(), dataset, tether.CVAE())  # type: ignore[arg-type]
    with pytest.raises(TetherError, match=r"^no bonus 'cave'; did you mean cvae\?$"):
        tether.fit("cave", dataset)  # type: ignore[arg-type]
    with pytest.raises(TetherError, match=r"^bonus.elbo is 'some'; it takes mean or sum or calibrated$"):
        tether.fit(tether.CVAE(elbo="some"), dataset)  # type: ignore[arg-type]


def test_a_table_says_to_import_it():
    for name in ("log.csv", "logs/log.parquet", "log.csv.gz"):
        with pytest.raises(
            TetherError, match=f"^{name} is a table, not a dataset yet; .*: tether data import {name} .* --out log.hdf5$"
        ):
            tether.load_dataset(name)

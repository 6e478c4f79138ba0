"""The run folder: what is in it, what interrupts it, and what it is refused for. Nothing may damage it."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from pendulum import (
    assert_same_run,
    command,
    files_of_at_most,
    interrupting,
    quietly,
    small_config,
    snapshot,
    state_of,
    write_episodes,
)
from problems import SPEC, Bowl, as_dataset, bowl_state, linear_behaviour, small

from tether import TD3, storage
from tether.data import load_dataset
from tether.errors import TetherError
from tether.locks import one_at_a_time
from tether.policies import act, load_policy
from tether.runs import checkpoint
from tether.runs.identity import find_result
from tether.training.fit import FitReport, FittedBonus, cache_folder, fit_name, steps_done
from tether.training.lesson import Lesson
from tether.training.loop import agent_epoch

CONTENT = {"config.json", "metrics.jsonl", "tensorboard", "checkpoint.safetensors", "policy.safetensors", "curves.png"}


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {".lock"}


@pytest.fixture
def interrupted(interrupted_run: Path, tmp_path: Path) -> Path:
    """A copy of a run that was interrupted after its first epoch."""
    return Path(shutil.copytree(interrupted_run, tmp_path / "run"))


# A run that nothing interrupts


def test_a_run_leaves_what_it_promises_and_nothing_else(finished_run: Path, pendulum_file: Path):
    assert names(finished_run) == CONTENT | {"result.json"}
    config = read(finished_run / "config.json")
    assert config["dataset"] == str(pendulum_file)
    assert config["agent"]["hidden_sizes"] == [16, 16]
    assert config["bonus"]["latent_size"] == 2
    assert (finished_run / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name.startswith("events.out.tfevents.") for path in (finished_run / "tensorboard").iterdir()] == [True]


def test_metrics_are_the_fit_then_every_epoch_and_evaluation(finished_run: Path):
    records = storage.read_jsonl(finished_run / "metrics.jsonl")
    assert [record.get("fit_step") for record in records[:11]] == [*range(300, 3001, 300), None]
    kinds = [(record["step"], "evaluation" in record) for record in records[10:]]
    expected = []
    for step in range(100, 3001, 100):
        expected += [(step, False), (step, True)] if step % 1000 == 0 else [(step, False)]
    assert kinds == expected
    assert {"critic/loss", "critic/q", "critic/bonus", "actor/loss", "actor/bonus", "actor/q"} < records[10].keys()


def test_the_result_has_what_a_table_needs(finished_run: Path, pendulum_file: Path):
    result = read(finished_run / "result.json")
    assert set(result) == {
        *("format_version", "config", "dataset", "versions", "policy", "score_unit", "score", "score_by_policy", "bonus"),
        *("evaluations", "wall_time_seconds", "updates_per_second", "resumed_from_step"),
    }
    assert result["config"] | {"dataset_sha256": result["dataset"]["sha256"]} == read(finished_run / "config.json")
    assert result["dataset"]["sha256"] == load_dataset(pendulum_file).sha256
    assert result["versions"]["jax"]
    assert {name: set(facts) for name, facts in result["score"].items()} == {
        "last": {"mean", "std"},
        "last_ten": {"mean", "std"},
        "best": {"mean", "std", "step"},
    }
    assert [record["step"] for record in result["evaluations"]] == [1000, 2000, 3000]
    for record in result["evaluations"]:
        assert set(record["evaluation"]) == {"online", "target", "ema"}
        for facts in record["evaluation"].values():
            assert [len(facts[name]) for name in ("returns", "lengths", "values", "discounted_returns")] == [2, 2, 2, 2]
    last = result["evaluations"][-1]["evaluation"]["target"]["returns"]
    assert result["score"]["last"] == {"mean": float(np.mean(last)), "std": float(np.std(last))}
    assert 0 < result["wall_time_seconds"] < 3600
    assert result["updates_per_second"] > 1
    assert result["resumed_from_step"] is None


def test_a_finished_run_is_left_alone(finished_run: Path, pendulum_file: Path):
    before, said = snapshot(finished_run), []
    result = quietly(small_config(pendulum_file), finished_run, said.append)
    assert said == [f"{finished_run} is finished (3,000 steps); left as it is"]
    assert result == read(finished_run / "result.json")
    assert snapshot(finished_run) == before


def test_epochs_and_evaluations_compile_once(pendulum_file: Path, tmp_path: Path):
    # Sizes that no other test has: what is compiled here is compiled for this run.
    config = small_config(
        pendulum_file, "bc", "none", agent__hidden_sizes="16,17", training__steps=400, training__evaluate_every=200
    )
    before = agent_epoch._cache_size(), act._cache_size()
    quietly(config, tmp_path / "run")
    assert (agent_epoch._cache_size(), act._cache_size()) == (before[0] + 1, before[1] + 1)


def test_the_policy_that_is_kept_is_the_one_that_was_chosen(finished_run: Path, pendulum_file: Path, tmp_path: Path):
    result = quietly(small_config(pendulum_file, evaluation__policy="ema", training__steps=100), tmp_path / "run")
    assert result["policy"] == "ema"
    assert result["score"] == result["score_by_policy"]["ema"] != result["score_by_policy"]["online"]
    assert result["updates_per_second"] is None  # the only epoch holds the compilation
    tensors, _ = storage.read_tensors(tmp_path / "run" / "checkpoint.safetensors")
    kept = np.asarray(load_policy(tmp_path / "run").actor.network.weights[0])
    assert kept.tobytes() == tensors["agent/ema_actor/network/weights/0"].tobytes()
    assert kept.tobytes() != tensors["agent/actor/network/weights/0"].tobytes()


# A run that is interrupted


def test_an_interrupted_run_has_no_result_and_goes_on_to_the_same_end(interrupted: Path, finished_run: Path, pendulum_file: Path):
    assert names(interrupted) == {"config.json", "metrics.jsonl", "tensorboard", "checkpoint.safetensors"}
    said: list[str] = []
    spent = checkpoint.read_agent(interrupted)[3].seconds
    compiled = agent_epoch._cache_size()
    result = quietly(small_config(pendulum_file), interrupted, said.append)
    assert "going on from step 100" in said
    assert result["resumed_from_step"] == 100
    assert result["wall_time_seconds"] > spent > 0  # of both sittings
    assert_same_run(interrupted, finished_run)
    assert agent_epoch._cache_size() == compiled  # a state from disk is like one from memory


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_for_the_epoch_and_says_how_to_go_on(interrupted: Path, pendulum_file: Path, number: signal.Signals):
    say, said = interrupting("going on", number)
    with pytest.raises(KeyboardInterrupt):
        quietly(small_config(pendulum_file), interrupted, say)
    assert said[-1] == "interrupted at step 200; the same command goes on from there"
    assert state_of(interrupted)[1]["step"] == "200"
    assert storage.read_jsonl(interrupted / "metrics.jsonl")[-1]["step"] == 200


def test_an_interrupted_fit_goes_on_and_all_rewards_alike_are_warned_of(
    pendulum_file: Path, finished_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    config = small_config(pendulum_file)
    name = f"{fit_name(config.bonus, load_dataset(pendulum_file))}.safetensors"
    unbroken = cache_folder() / name
    monkeypatch.setenv("TETHER_CACHE", str(tmp_path / "cache"))
    config = small_config(write_episodes(tmp_path / "alike.hdf5", reward=1.0), training__steps=100)
    dataset = load_dataset(config.dataset)
    say, said = interrupting("warning: every reward")
    with pytest.raises(KeyboardInterrupt):
        quietly(config, tmp_path / "run", say)
    assert said == [
        "rewards from 1 to 1 are mapped to [0, 1] (range); rank correlation of episodes before and after 0.000",
        "warning: every reward of alike is 1; there is nothing to learn from them; but episodes end, and "
        "training.reward_scaling=auto keeps zero and signs, and so the order",
        f"the bonus is fitted first: {cache_folder()} has no fit of it to this data by this version",
        "interrupted at step 300 of the fit; the same command goes on from there",
    ]
    assert steps_done(config.bonus, dataset, cache_folder()) == 300
    assert names(tmp_path / "run") == {"config.json"}
    result = quietly(config, tmp_path / "run")
    assert result["dataset"]["reward_scale"] == {"low": 1.0, "high": 1.0, "keep_zero": False, "unit": None}
    # The bonus sees observations and actions, which are those of the other file.
    fitted, _ = storage.read_tensors(cache_folder() / f"{fit_name(config.bonus, dataset)}.safetensors")
    expected, _ = storage.read_tensors(unbroken)
    assert {key: tensor.tobytes() for key, tensor in fitted.items()} == {key: t.tobytes() for key, t in expected.items()}


class Stop(Exception):
    """Raised where enough has been said."""


@pytest.mark.parametrize(("auroc", "kind"), [({"uniform": 0.52}, "uniform"), ({"uniform": 0.8, "other": 0.51}, "other")])
def test_a_blind_bonus_is_a_loud_warning(
    auroc: dict[str, float], kind: str, pendulum_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    report = FitReport(50_000, 1.0, held_out_mean=0.1, auroc=auroc)
    monkeypatch.setattr("tether.training.preparing.fit_bonus", lambda bonus, *_: FittedBonus(bonus, None, SPEC, report))

    def say(text: str) -> None:
        if text.startswith("warning: the bonus is all but blind"):
            raise Stop(text)

    with pytest.raises(Stop) as raised:
        quietly(small_config(pendulum_file), tmp_path / "run", say)
    text = str(raised.value)
    assert f"from {kind} ones with an AUROC of 0.5" in text
    assert f"`tether bonus {pendulum_file}` compares all bonuses on it" in text


@pytest.mark.parametrize("scaling", ["range", "auto"])
def test_a_scaling_that_turns_the_order_of_episodes_round_is_warned_of(scaling: str, tmp_path: Path):
    """Every step costs 1.0, the last 1.1: to [0, 1], that is 1 and 0, and the longest episode is the best."""
    path = write_episodes(tmp_path / "costs.hdf5", reward=-1.0)
    with h5py.File(path, "r+") as file:
        file["rewards"][...] = np.where(file["terminals"][...], -1.1, -1.0)
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        if text.startswith("the bonus is fitted first"):
            raise Stop

    # Another width: a fit that no other test has made. td3 has `range` from the paper's preset unless it is told otherwise.
    changes = {} if scaling == "range" else {"training__reward_scaling": scaling}
    with pytest.raises(Stop):
        quietly(small_config(path, bonus__latent_size=3, **changes), tmp_path / "run", say)
    if scaling == "auto":
        assert said[0].startswith("rewards from -1.1 to -1 are divided by the largest in size (divide); rank correlation of ")
        assert said[0].endswith(" 1.000")
        assert len(said) == 2
    else:
        assert said[0].endswith("are mapped to [0, 1] (range); rank correlation of episodes before and after -1.000")
        assert said[1].startswith("warning: mapping the rewards of costs to [0, 1] turns the order of episodes round")


def test_a_run_says_that_it_waits_for_the_fit_of_another_and_can_be_interrupted(
    pendulum_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TETHER_CACHE", str(tmp_path / "cache"))
    config = small_config(pendulum_file)
    lock = cache_folder() / f"{fit_name(config.bonus, load_dataset(pendulum_file))}.lock"
    say, said = interrupting("another process is making this fit")
    with one_at_a_time(lock), pytest.raises(KeyboardInterrupt):
        quietly(config, tmp_path / "run", say)
    assert said[-2:] == [
        "another process is making this fit; waiting for it",
        "interrupted while waiting for the fit of another process; the same command goes on from there",
    ]
    assert names(tmp_path / "run") == {"config.json"}


def start(arguments: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tether", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_for(happened: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Until it happened, and a random moment longer."""
    patience = time.monotonic() + 600
    while not happened():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < patience
        time.sleep(0.002)
    time.sleep(random.uniform(0.0, 0.03))


@pytest.mark.slow
def test_a_run_killed_again_and_again_ends_like_an_unbroken_one(
    finished_run: Path, pendulum_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TETHER_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "run"
    saved = folder / "checkpoint.safetensors"
    arguments = command(pendulum_file, folder)

    # Killed during the fit.
    with start(arguments) as process:
        wait_for(lambda: any(tmp_path.glob("cache/bonuses/*.partial.safetensors")), process)
        process.kill()
    assert not saved.exists()

    # Killed during the training.
    with start(arguments) as process:
        wait_for(saved.exists, process)
        process.kill()
    killed_at = int(state_of(folder)[1]["step"])
    assert 0 < killed_at < 3000

    # Another process keeps out; then Ctrl-C.
    with start(arguments) as process:
        wait_for(lambda: int(state_of(folder)[1]["step"]) > killed_at, process)
        with pytest.raises(TetherError, match=r"^another process is at work in .*; wait for it or choose another folder$"):
            quietly(small_config(pendulum_file), folder)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=600)
    assert process.returncode == 130, err
    stopped_at = int(state_of(folder)[1]["step"])
    assert killed_at < stopped_at < 3000
    assert f"going on from step {killed_at:,}\n" in out
    assert out.endswith(f"interrupted at step {stopped_at:,}; the same command goes on from there\n")
    assert err.endswith("interrupted\n")
    assert "Traceback" not in err

    said: list[str] = []
    quietly(small_config(pendulum_file), folder, said.append)
    assert f"going on from step {stopped_at:,}" in said
    assert_same_run(folder, finished_run)
    assert names(folder) == CONTENT | {"result.json"}


def test_a_run_killed_before_its_result_only_has_to_be_finished(finished_run: Path, pendulum_file: Path, tmp_path: Path):
    folder = Path(shutil.copytree(finished_run, tmp_path / "run"))
    for name in ("result.json", "policy.safetensors", "curves.png"):
        (folder / name).unlink()
    last = (folder / "metrics.jsonl").read_bytes().rstrip(b"\n").rfind(b"\n") + 1
    os.truncate(folder / "metrics.jsonl", last + 20)  # killed while it wrote the last evaluation down
    quietly(small_config(pendulum_file), folder)
    assert_same_run(folder, finished_run)


def test_a_run_killed_at_its_first_write_can_begin_anew(pendulum_file: Path, tmp_path: Path):
    folder = tmp_path / "killed"
    folder.mkdir()
    (folder / ".lock").touch()
    (folder / ".config.0123456789ab.json").write_text("{")
    assert find_result(folder, small_config(pendulum_file), "0" * 64) is None


# A run that diverges


def test_an_exploding_critic_stops_the_run_and_keeps_its_last_checkpoint(finished_run: Path, pendulum_file: Path, tmp_path: Path):
    records = [r for r in storage.read_jsonl(finished_run / "metrics.jsonl") if "critic/q" in r]
    largest = [max(abs(record[name]) for name in ("critic/q", "critic/target", "actor/q")) for record in records]
    limit = 1.000001 * max(largest[:2])  # passed by none of the first two epochs
    first = next(record["step"] for record, value in zip(records, largest, strict=True) if value > limit)
    config = small_config(pendulum_file, training__value_limit=repr(limit))
    with pytest.raises(TetherError) as raised:
        quietly(config, tmp_path / "run")
    message = str(raised.value)
    assert f" at step {first} (run run), past training.value_limit {limit:g}: the critic is exploding; " in message
    assert f"last good checkpoint: step {first - 100}." in message
    assert names(tmp_path / "run") == {"config.json", "metrics.jsonl", "tensorboard", "checkpoint.safetensors"}
    agent, _, step, _ = checkpoint.read_agent(tmp_path / "run")
    assert step == first - 100
    assert all(np.isfinite(tensor).all() for tensor in storage.flatten_tree(agent).values())
    assert storage.read_jsonl(tmp_path / "run" / "metrics.jsonl")[-1]["step"] == first - 100


def test_weights_that_are_no_numbers_never_reach_a_checkpoint(pendulum_file: Path, tmp_path: Path):
    # One epoch of one update, whose metrics are from before it.
    changes = {f"training__{name}": 1 for name in ("steps", "log_every", "evaluate_every", "checkpoint_every")}
    config = small_config(pendulum_file, "bc", "none", agent__learning_rate="inf", **changes)
    with pytest.raises(TetherError) as raised:
        quietly(config, tmp_path / "hopper-s3")
    assert str(raised.value) == ("a weight of the agent is NaN or infinite at step 1 (run hopper-s3); there is no checkpoint yet")
    assert names(tmp_path / "hopper-s3") == {"config.json", "tensorboard"}


# Data and environments


def test_data_without_an_environment_is_trained_on_and_not_evaluated(tmp_path: Path):
    config = small_config(write_episodes(tmp_path / "log.hdf5", env_id=None), "bc", "none", training__steps=100)
    result = quietly(config, tmp_path / "run")
    assert (result["score"], result["evaluations"], result["dataset"]["env_id"]) == (None, [], None)
    assert names(tmp_path / "run") == CONTENT | {"result.json"}
    assert load_policy(tmp_path / "run").about["env_id"] is None


@pytest.mark.parametrize(
    ("env_id", "message"),
    [
        ("Hopper-v5", "environment Hopper-v5 has observations of 11 numbers, the dataset has 9"),
        (
            "InvertedDoublePendulm-v5",
            "no environment 'InvertedDoublePendulm-v5' in Gymnasium; did you mean InvertedDoublePendulum-v5",
        ),
    ],
)
def test_an_environment_that_does_not_fit_is_found_out_before_anything_is_computed(
    pendulum_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, env_id: str, message: str
):
    monkeypatch.setenv("TETHER_CACHE", str(tmp_path / "cache"))
    with pytest.raises(TetherError, match=f"^{message}"):
        quietly(small_config(pendulum_file, evaluation__env_id=env_id), tmp_path / "run")
    assert names(tmp_path / "run") == set()  # free for the same command with the name put right
    assert not (tmp_path / "cache").exists()


# The naive form


def test_bonuses_are_subtracted_from_the_rewards_where_asked():
    dataset = as_dataset(linear_behaviour())
    bonus = FittedBonus(Bowl(), bowl_state(floor=2.0), SPEC, FitReport(0, 0.0))  # 2 everywhere
    for weight, less in ((0.0, 0.0), (0.25, 0.5)):
        rows = Lesson(small(TD3), dataset, bonus, 0, 100, reward_penalty=weight)._rows.transitions
        np.testing.assert_allclose(rows.reward, dataset.transitions.reward - less)
        np.testing.assert_array_equal(rows.action, dataset.transitions.action)


def test_a_penalty_on_the_rewards_changes_what_is_learnt(finished_run: Path, pendulum_file: Path, tmp_path: Path):
    naive = quietly(small_config(pendulum_file, training__reward_penalty="1.0"), tmp_path / "naive")
    plain = storage.read_json(finished_run / "result.json")
    assert naive["evaluations"] != plain["evaluations"]


# Folders that are not this run's


def test_a_run_of_another_config_is_refused(interrupted: Path, finished_run: Path, pendulum_file: Path):
    for folder in (interrupted, finished_run):
        before = snapshot(folder)
        with pytest.raises(TetherError) as raised:
            quietly(small_config(pendulum_file, agent__discount="0.9"), folder)
        assert str(raised.value) == (
            f"{folder} holds a run of another config (agent.discount: 0.9 here, 0.99 there); choose another --run-dir"
        )
        assert snapshot(folder) == before


def test_a_run_on_other_data_of_the_same_name_is_refused_before_a_fit(
    interrupted: Path, pendulum_file: Path, monkeypatch: pytest.MonkeyPatch
):
    tensors, metadata = storage.read_tensors(interrupted / "checkpoint.safetensors")
    storage.write_tensors(interrupted / "checkpoint.safetensors", tensors, metadata | {"dataset_sha256": "0123456789abcdef"})
    before = snapshot(interrupted)
    monkeypatch.setattr("tether.training.preparing.fit_bonus", lambda *_: pytest.fail("fitted before it was refused"))
    with pytest.raises(TetherError, match=r"was trained on another dataset \(sha256 0123456789ab…\); choose another --run-dir"):
        quietly(small_config(pendulum_file), interrupted)
    assert snapshot(interrupted) == before


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("holiday.jpg", "", "is not empty and holds no run; choose another --run-dir"),
        (
            "config.json",
            '{"colour": "red"}',
            "config.json is not of a run that this version can read (the settings of agent are missing); ",
        ),
        ("config.json", "[]", "config.json is not of a run that this version can read (a config is a JSON object, not a list); "),
        ("config.json", "{", "config.json is not valid JSON: "),
        ("result.json", '{"score": 1}', "result.json is not of a run that this version can read ('config'); "),
        ("result.json", "[]", "result.json is not of a run that this version can read ("),
    ],
)
def test_a_folder_of_other_files_is_refused(pendulum_file: Path, tmp_path: Path, name: str, content: str, message: str):
    (tmp_path / name).write_text(content)
    before = snapshot(tmp_path)
    with pytest.raises(TetherError) as raised:
        quietly(small_config(pendulum_file), tmp_path)
    assert str(raised.value).startswith(str(tmp_path))
    assert message in str(raised.value)
    assert snapshot(tmp_path) == before


def test_a_damaged_checkpoint_is_refused_and_left_for_the_user_to_look_at(interrupted: Path, pendulum_file: Path):
    os.truncate(interrupted / "checkpoint.safetensors", 1000)
    before = snapshot(interrupted)
    with pytest.raises(TetherError, match=r"checkpoint\.safetensors is cut short, damaged or not a safetensors file"):
        quietly(small_config(pendulum_file), interrupted)
    assert snapshot(interrupted) == before


# Disks


def test_a_folder_that_cannot_be_made_is_one_message(pendulum_file: Path, tmp_path: Path):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(TetherError, match=r"^cannot write to "):
            quietly(small_config(pendulum_file), folder)


def test_a_full_disk_leaves_the_last_checkpoint_whole(interrupted: Path, finished_run: Path, pendulum_file: Path):
    saved = interrupted / "checkpoint.safetensors"
    before = saved.read_bytes()
    # Not a byte less than the last one: its header has times in it, whose digits vary.
    with files_of_at_most(len(before) // 2), pytest.raises(TetherError) as raised:
        quietly(small_config(pendulum_file), interrupted)
    assert str(raised.value) == f"cannot write {saved}: File too large"
    assert saved.read_bytes() == before
    assert names(interrupted) == {"config.json", "metrics.jsonl", "tensorboard", "checkpoint.safetensors"}
    quietly(small_config(pendulum_file), interrupted)
    assert_same_run(interrupted, finished_run)

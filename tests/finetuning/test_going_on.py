"""A run that goes on: what it leaves, what stops it, and what it is refused for. The run before it is never touched."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pendulum import ENV_ID, interrupting, snapshot, state_of, write_episodes

from tether.agents import AGENTS
from tether.cli import main
from tether.config import OnlineConfig, RunConfig, StartConfig, check, first_difference, from_json, to_json
from tether.data import load_dataset
from tether.data.rewards import RewardScale
from tether.errors import TetherError
from tether.finetuning.appended import append_log, same_task
from tether.finetuning.going_on import Wishes, _from, go_on_online, online_config, with_log
from tether.finetuning.start import Start, read_start
from tether.optimisation import _Falling
from tether.policies import load_policy
from tether.runs.reading import read_run
from tether.training.loop import agent_epoch
from tether.training.preparing import Beginning

WISHES = Wishes(ENV_ID, steps=300, environments=2, warmup=100, anneal_steps=200)


@pytest.fixture(scope="session")
def start(finished_run: Path) -> Start:
    return read_start(finished_run)


def go_on(finished_run: Path, folder: Path, say: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    # Read anew each time: a state is used up by training on from it.
    return go_on_online(read_start(finished_run), WISHES, folder, show=False, say=say)


@pytest.fixture(scope="session")
def online_run(finished_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 steps of two pendulums behind a finished run of 3,000 critic steps, uninterrupted."""
    folder = tmp_path_factory.mktemp("runs") / "online"
    before = snapshot(finished_run)
    go_on(finished_run, folder)
    assert snapshot(finished_run) == before
    return folder


def test_the_curves_begin_with_those_of_the_run_before(online_run: Path, finished_run: Path):
    old, new = read_run(finished_run), read_run(online_run)
    assert new.fit == old.fit
    assert new.training[:30] == old.training
    assert [record["step"] for record in new.training[30:]] == [3_100, 3_200, 3_300]
    assert new.evaluations[:3] == old.evaluations
    assert [record["step"] for record in new.evaluations] == [1_000, 2_000, 3_000, 3_300]


def test_what_is_told_of_each_epoch(online_run: Path):
    told = [record for record in read_run(online_run).training if record["step"] > 3_000]
    # A turn is 100 steps of the environment and as many critic steps, in updates of two; the weights are gone after 200.
    assert [record["online/environment_steps"] for record in told] == [200.0, 300.0, 400.0]  # with the 100 of the warmup
    expected = [1 - np.mean(np.arange(0, 100, 2)) / 200, 0.5 - np.mean(np.arange(0, 100, 2)) / 200, 0.0]
    np.testing.assert_allclose([record["online/bonus_left"] for record in told], expected, rtol=1e-6)  # 0.755, 0.255, 0
    assert told[0]["online/episode_return"] > 0


def test_the_result_is_that_of_a_run(online_run: Path, finished_run: Path):
    result, before = (json.loads((folder / "result.json").read_text()) for folder in (online_run, finished_run))
    assert result["online"]["environment_steps"] == 400
    assert result["config"]["online"]["environments"] == 2
    assert result["config"]["start"]["step"] == 3_000
    assert result["dataset"] == before["dataset"]
    assert {name: result["bonus"][name] for name in ("steps", "auroc")} == {
        name: before["bonus"][name] for name in ("steps", "auroc")
    }
    assert result["resumed_from_step"] is None
    policy = load_policy(online_run / "policy.safetensors")
    assert policy.experience is not None
    assert policy.about["step"] == 3_300


def test_an_interrupted_run_goes_on_to_the_same_end(online_run: Path, finished_run: Path, tmp_path: Path):
    folder = tmp_path / "online"
    say, said = interrupting("rewards from")
    with pytest.raises(KeyboardInterrupt):
        go_on(finished_run, folder, say)
    assert said[-1] == "interrupted at step 3,100; the same command goes on from there"
    # As a run leaves it that is killed later on: rows and lines that the checkpoint knows nothing of.
    shutil.copy(online_run / "online" / "000000300.safetensors", folder / "online")
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 3200, "critic/loss": 1.0}\n')
    compiled = agent_epoch._cache_size()
    go_on(finished_run, folder, said.append)
    assert "going on from step 3,100" in said
    assert agent_epoch._cache_size() == compiled
    assert state_of(folder) == state_of(online_run)
    for name in ("policy.safetensors", "metrics.jsonl", "config.json"):
        assert (folder / name).read_bytes() == (online_run / name).read_bytes(), name
    for file in (online_run / "online").iterdir():
        assert (folder / "online" / file.name).read_bytes() == file.read_bytes()


def test_rows_that_are_gone_are_missed(online_run: Path, finished_run: Path, tmp_path: Path):
    folder = Path(shutil.copytree(online_run, tmp_path / "online"))
    (folder / "result.json").unlink()
    (folder / "online" / "000000300.safetensors").unlink()
    with pytest.raises(TetherError, match=r"online has 300 of the 400 steps that the run had made; it cannot go on from there$"):
        go_on(finished_run, folder)


def test_a_finished_one_is_left_alone_and_another_is_refused(online_run: Path, finished_run: Path, capsys):
    before = snapshot(online_run)
    base = ["finetune", str(finished_run), "--env", ENV_ID, "--run-dir", str(online_run), "--warmup", "100", "--anneal", "200"]
    assert main([*base, "--steps", "300", "--environments", "2"]) == 0
    assert "is finished (3,300 steps); left as it is" in capsys.readouterr().out
    assert main([*base, "--steps", "300", "--environments", "4"]) == 2
    assert "online.environments: 4 here, 2 there" in capsys.readouterr().err
    assert main(["finetune", str(online_run), "--env", ENV_ID]) == 2
    assert "has gone on online already" in capsys.readouterr().err
    assert snapshot(online_run) == before


def other_log(path: Path, observations: int, actions: int) -> Path:
    with h5py.File(path, "w") as file:
        file["observations"] = np.zeros((10, observations), np.float32)
        file["next_observations"] = np.zeros((10, observations), np.float32)
        file["actions"] = np.zeros((10, actions), np.float32)
        file["rewards"] = np.zeros(10, np.float32)
        file["terminals"] = np.arange(10) == 9
        file["timeouts"] = np.zeros(10, bool)
    return path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give one of --env ENV_ID, to learn in an environment, and --log FILE"),
        (["--env", ENV_ID, "--log", "LOG"], "give one of --env ENV_ID"),
        (["--env", "InvertedPendulum-v5"], f"InvertedPendulum-v5 is another task: RUN learnt {ENV_ID}"),
        (["--env", "Hopper-v4"], "Hopper-v4 is another task"),
        (["--env", "Nowhere-v0"], "Nowhere-v0 is another task"),
        (["--log", "LOG"], "log has observations of 4 numbers and actions of 1 numbers in [-1, 1]; the run's data has"),
        (["--log", "LOG", "--noise", "0.2"], "--noise: for learning in an environment (--env), not from a log"),
        (["--env", ENV_ID, "--steps", "0"], "--steps is 0; it must be at least 1"),
        (
            ["--env", ENV_ID, "--steps", "150"],
            "training.steps 3,150, log_every 100, evaluate_every 1,000 and checkpoint_every 100 have no common epoch",
        ),
        (["--env", ENV_ID, "--environments", "3"], "online.turn is 100, which is no multiple of the 3 environments"),
        (["--env", ENV_ID, "--log-share", "1.5"], "online.log_share is 1.5; it must be at most 1"),
        (["--env", ENV_ID, "--noise", "-1"], "online.exploration_noise is -1.0; it must not be negative"),
        (["--env", ENV_ID, "--set", "agent.hidden_sizes=8,8"], "the run's weights do not fit"),
        (["--env", ENV_ID, "--set", "bonus.steps=1"], "the bonus is the run's own and its settings stay"),
        (["--env", ENV_ID, "--set", "training.steps=1"], "training.steps is set by --steps here"),
        (["--env", ENV_ID, "--dataset", "LOG"], "is not what RUN learnt from"),
        (["--env", ENV_ID, "--run-dir", "RUN"], "the run to go on from; that one is left as it is, so choose another"),
    ],
)
def test_what_is_refused(finished_run: Path, tmp_path: Path, arguments: list[str], message: str, capsys):
    log = str(other_log(tmp_path / "log.hdf5", 4, 1))
    before = snapshot(finished_run)
    places = {"LOG": log, "RUN": str(finished_run)}
    given = ["finetune", str(finished_run), *(places.get(word, word) for word in arguments)]
    assert main([*given, *([] if "--run-dir" in given else ["--run-dir", str(tmp_path / "new")])]) == 2
    told = capsys.readouterr().err
    assert message.replace("RUN", str(finished_run)) in told
    assert len(told.splitlines()) == 1
    assert not (tmp_path / "new").exists()
    assert snapshot(finished_run) == before


def test_a_run_without_its_checkpoint_or_not_finished_is_refused(
    finished_run: Path, interrupted_run: Path, tmp_path: Path, capsys
):
    folder = Path(shutil.copytree(finished_run, tmp_path / "run"))
    (folder / "checkpoint.safetensors").unlink()
    for run, message in (
        (folder, "has no checkpoint.safetensors"),
        (interrupted_run, "is at step 100 of 3,000; let its own command finish it"),
        (tmp_path / "nothing", "there is no run folder"),
    ):
        assert main(["finetune", str(run), "--env", ENV_ID]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", ["bc", "iql", "dqn"])
def test_an_agent_that_cannot_is_told_which_can(start: Start, tmp_path: Path, name: str):
    other = replace(start, config=replace(start.config, agent=AGENTS[name]()))
    with pytest.raises(TetherError, match=r"does not go on online: .* runs of tethered, td3, td3-bc, sac do"):
        go_on_online(other, WISHES, tmp_path / "new")


def test_an_anchored_policy_is_never_from_nothing(start: Start, tmp_path: Path):
    other = replace(start, config=replace(start.config, agent=AGENTS["tethered"]()))
    with pytest.raises(TetherError, match=r"^--fresh: Tethered starts at what the log did"):
        go_on_online(other, replace(WISHES, fresh=True), tmp_path / "new")


def test_a_turn_is_whole_in_every_way(start: Start):
    """Epochs are of 100 critic steps, updates of 2."""
    for environments, ratio, turn in ((1, 1.0, 100), (4, 1.0, 100), (1, 0.5, 100), (1, 10.0, 10), (8, 0.25, 80), (8, 0.5, 200)):
        wishes = replace(WISHES, steps=800, warmup=0, environments=environments, updates_per_step=ratio)
        config = online_config(start, wishes).online
        assert config is not None
        assert config.turn == turn


def test_the_noise_is_none_where_the_policy_draws(start: Start):
    config = online_config(start, WISHES)
    assert config.online is not None
    assert config.online.exploration_noise == 0.1


def test_settings_of_going_on_are_part_of_a_config_and_absent_from_others():
    plain = RunConfig("data.hdf5")
    assert {"start", "online"}.isdisjoint(to_json(plain))
    config = replace(plain, start=StartConfig("runs/a", "ab", 1_000), online=OnlineConfig("Hopper-v4"))
    assert from_json(json.loads(json.dumps(to_json(config)))) == config
    assert first_difference(config, replace(config, start=StartConfig("elsewhere", "ab", 1_000))) is None
    assert (
        first_difference(config, replace(config, start=StartConfig("runs/a", "cd", 1_000)))
        == "start.checkpoint_sha256: ab here, cd there"
    )
    assert first_difference(config, plain) == "start.checkpoint_sha256: ab here, None there"
    with pytest.raises(
        TetherError, match="a turn of 30 steps with 1 critic steps for each is 30 of them; that must be a multiple of 2"
    ):
        check(replace(config, online=OnlineConfig("Hopper-v4", turn=30)))


def test_a_log_is_appended_with_the_bounds_and_the_scale_of_the_run(pendulum_file: Path, tmp_path: Path):
    old = load_dataset(pendulum_file)
    new = write_episodes(tmp_path / "new.hdf5", env_id=None)
    with h5py.File(new, "a") as file:
        file["actions"][0] = 3.0  # outside
        file["rewards"][1] = 100.0  # beyond the range
        rows = len(file["rewards"])
    said: list[str] = []
    both = append_log(old, str(new), RewardScale(0.0, 10.0), said.append)
    assert both.size == old.size + rows
    assert both.spec == old.spec
    assert both.env_id == ENV_ID
    assert float(both.transitions.action[old.size, 0]) == 1.0
    assert float(both.transitions.reward[old.size + 1]) == 100.0  # not scaled yet
    np.testing.assert_array_equal(both.transitions.reward[: old.size], old.transitions.reward)
    np.testing.assert_array_equal(both.episode_ends[: len(old.episode_ends)], old.episode_ends)
    assert len(both.episode_ends) == 2 * len(old.episode_ends)
    told = "\n".join(said)
    assert f"1 of the {rows:,} numbers in the actions of new are outside the bounds of the run's policy" in told
    assert f"{rows:,} transitions of new are appended to {old.size:,} of pendulum: {both.size:,} in all" in told
    assert "warning: some are beyond that range" in told
    assert both.sha256 != old.sha256


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Hopper-v4", "Hopper-v5", True),
        ("HalfCheetah-v4", "Walker2d-v4", False),  # of the same sizes
        ("Pendulum-v1", "Pendulum-v2", True),
        ("Pendulum-v1", "InvertedPendulum-v5", False),
        ("Hopper-v4", "Pendulum-v1", False),
    ],
)
def test_which_environments_are_of_one_task(one: str, other: str, same: bool):
    assert same_task(one, other) == same


def test_a_run_with_a_log_begins_where_the_run_was(start: Start, pendulum_file: Path, tmp_path: Path):
    log = write_episodes(tmp_path / "new.hdf5")
    config, data, beginning = with_log(start, str(log), 500, say=lambda text: None)
    rows = load_dataset(pendulum_file).size
    assert data.load().size == 2 * rows
    assert config.training.steps == 3_500
    assert config.start == StartConfig(str(start.folder), start.checkpoint_sha256, 3_000, str(log))
    assert config.online is None
    assert (beginning.step, beginning.reward_scale) == (3_000, start.reward_scale)
    assert beginning.bonus is None  # fitted anew, to both
    for leaf, expected in zip(jax.tree.leaves(beginning.state), jax.tree.leaves(start.state), strict=True):
        np.testing.assert_array_equal(leaf, expected)
    assert [record["step"] for record in beginning.records] == [
        *range(100, 3_001, 100),
        1_000,
        2_000,
        3_000,
    ]  # no lines of the fit


@pytest.mark.parametrize(("last", "step"), [(None, 6_000), (StartConfig("run", "0", 60_000, "log"), 66_000)])
def test_a_falling_rate_falls_over_the_steps_that_are_added(last: StartConfig | None, step: int):
    """The schedule in the state has the length of the last stretch, which is all there is of a first run."""
    state, steps = _Falling(jnp.int32(6_000), jnp.int32(6_000)), step + 3_000
    start: Any = SimpleNamespace(config=SimpleNamespace(start=last), state=state, step=step, records=())
    config: Any = SimpleNamespace(training=SimpleNamespace(steps=steps))
    found = _from(start, Beginning(RewardScale(0.0, 1.0)), config).state
    assert (int(found.done), int(found.length)) == (0, 3_000)


@pytest.mark.slow
def test_a_run_goes_on_with_a_log_and_then_with_another(finished_run: Path, tmp_path: Path, capsys):
    """The bonus is fitted to both; what was learnt before is where it begins; and the old run's lines come first."""
    logs = [write_episodes(tmp_path / name) for name in ("one.hdf5", "two.hdf5")]
    with h5py.File(logs[1], "a") as file:
        file["rewards"][0] = 5.0
    before, folder = snapshot(finished_run), finished_run
    for number, log in enumerate(logs, start=1):
        new = tmp_path / f"run-{number}"
        assert main(["finetune", str(folder), "--log", str(log), "--steps", "100", "--run-dir", str(new)]) == 0
        told = capsys.readouterr().out
        assert f"transitions of {log.stem} are appended to" in told
        assert "the bonus is fitted first" in told
        folder = new
    done = read_run(folder)
    steps = [record["step"] for record in done.training]
    assert steps == [*range(100, 3_001, 100), 3_100, 3_200]
    assert done.config["start"]["log"] == f"{logs[0]} + {logs[1]}"
    assert done.result is not None
    rows = load_dataset(logs[0]).size
    assert done.result["dataset"]["transitions"] == 3 * rows
    assert [record["fit_step"] for record in done.fit] == [record["fit_step"] for record in read_run(finished_run).fit]
    assert done.fit != read_run(finished_run).fit
    assert snapshot(finished_run) == before


@pytest.mark.slow
def test_it_gets_better_online(finished_run: Path, tmp_path: Path):
    """From a log of random actions, with which a double pendulum falls within a dozen steps."""
    wishes = Wishes(ENV_ID, steps=8_000, environments=4)
    start = read_start(finished_run, overrides={"training.evaluate_every": "2000"})
    go_on_online(start, wishes, tmp_path / "online", show=False, say=lambda text: None)
    steps, returns = read_run(tmp_path / "online").returns()
    means = {int(step): float(np.mean(episodes)) for step, episodes in zip(steps, returns, strict=True)}
    assert means[11_000] > 1.5 * means[3_000]
    assert means[11_000] > 2.0 * load_dataset(start.config.dataset).episode_returns.mean()

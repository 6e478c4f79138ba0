"""Whole datasets, from a training of a few hundred steps. The files are read back as any other D4RL file."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import h5py
import numpy as np
import pytest

from tether.collection.history import History
from tether.collection.levels import Recipe, collect_dataset, complete
from tether.collection.online import AGENT, OnlineSettings
from tether.data import load_dataset
from tether.errors import TetherError
from tether.types import Spec

SPEC = Spec(observation_size=4, action_low=(-3.0,), action_high=(3.0,))
STEPS = 1_000  # as many rows as the replays of the other tests have, so that learning is compiled once
REACHED = 3.0  # a pendulum that is left alone stands longer than that


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("work")


def recipe(online: OnlineSettings, level: str, **options: object) -> Recipe:
    return complete(Recipe(online, level, **({"target_return": REACHED, "online_steps": STEPS} | options)))  # type: ignore[arg-type]


def attributes(path: Path) -> dict:
    with h5py.File(path) as file:
        return {name: value.decode() if isinstance(value, bytes) else value for name, value in file.attrs.items()}


def test_random_needs_no_training(tiny_online: OnlineSettings, tmp_path: Path):
    out = tmp_path / "random.hdf5"
    recording = collect_dataset(recipe(tiny_online, "random", transitions=150), out, tmp_path / "work")
    assert not (tmp_path / "work").exists()
    dataset = load_dataset(out)
    assert (dataset.size, dataset.env_id, dataset.spec) == (150, "InvertedPendulum-v5", SPEC)
    for column, recorded in zip(dataset.transitions, recording.transitions, strict=True):
        np.testing.assert_array_equal(column, recorded)
    np.testing.assert_array_equal(dataset.truncated, recording.truncated)
    # Within an episode each row continues the one before; a fall is where the pole leans more than 0.2.
    last_rows = dataset.episode_ends - 1
    inner = np.setdiff1d(np.arange(149), last_rows)
    np.testing.assert_array_equal(dataset.transitions.next_observation[inner], dataset.transitions.observation[inner + 1])
    np.testing.assert_array_equal(dataset.transitions.terminated > 0, np.abs(dataset.transitions.next_observation[:, 1]) > 0.2)
    assert dataset.transitions.terminated.sum() > 5
    found = attributes(out)
    assert (found["level"], found["seed"], list(found["online_steps"]), list(found["source_rows"])) == ("random", 3, [0], [150])
    np.testing.assert_allclose(found["policy_return"], [dataset.episode_returns.mean()])


def test_a_compact_file_reads_the_same_but_for_cut_rows(tiny_online: OnlineSettings, tmp_path: Path):
    whole, compact = tmp_path / "whole.hdf5", tmp_path / "compact.hdf5"
    collect_dataset(recipe(tiny_online, "random", transitions=150), whole, tmp_path / "work")
    collect_dataset(recipe(tiny_online, "random", transitions=150, compact=True), compact, tmp_path / "work")
    assert compact.stat().st_size < whole.stat().st_size
    one, other = load_dataset(whole), load_dataset(compact)
    cut = int(one.truncated.sum())
    assert (other.notes.successors, other.notes.rows_dropped, other.size) == ("shifted", cut, 150 - cut)
    kept = ~one.truncated
    running = one.transitions.terminated[kept] == 0  # the successor of a terminated row is never used
    np.testing.assert_array_equal(one.transitions.next_observation[kept][running], other.transitions.next_observation[running])
    np.testing.assert_array_equal(one.transitions.action[kept], other.transitions.action)


def test_medium_is_the_first_policy_that_reaches_the_target(tiny_online: OnlineSettings, tmp_path: Path, work: Path):
    out = tmp_path / "medium.hdf5"
    collect_dataset(recipe(tiny_online, "medium", transitions=120, noise=0.0), out, work)
    history = History(work, tiny_online, SPEC)
    assert history.step == 100  # reached at the first evaluation, so no further step was taken
    dataset, found = load_dataset(out), attributes(out)
    assert dataset.size == 120
    actions = history.policy(100)(dataset.transitions.observation)
    np.testing.assert_allclose(dataset.transitions.action, actions, atol=1e-5)  # without noise the rows are the policy's own
    assert (found["level"], list(found["online_steps"])) == ("medium", [100])
    assert list(found["policy_return"]) == [history.evaluations[0].mean]
    assert found["tether_version"] == version("tether-rl")
    assert found["mujoco_version"] == version("mujoco")
    assert found["gymnasium_version"] == version("gymnasium")
    options = json.loads(found["options"])
    assert (options["noise"], options["online"]["warmup"], options["online"]["agent"]["hidden_sizes"]) == (0.0, 100, [16, 16])
    assert str(tmp_path) not in json.dumps({name: str(value) for name, value in found.items()})


def test_noise_is_on_the_recorded_actions(tiny_online: OnlineSettings, tmp_path: Path, work: Path):
    out = tmp_path / "noisy.hdf5"
    collect_dataset(recipe(tiny_online, "medium", transitions=600, noise=0.1), out, work)
    transitions = load_dataset(out).transitions
    difference = transitions.action - np.asarray(History(work, tiny_online, SPEC).policy(100)(transitions.observation))
    np.testing.assert_allclose(difference.std(), 0.3, rtol=0.15)  # 0.1 of half the range [-3, 3]


def test_medium_replay_is_everything_until_then(tiny_online: OnlineSettings, tmp_path: Path, work: Path):
    out = tmp_path / "replay.hdf5"
    collect_dataset(recipe(tiny_online, "medium-replay"), out, work)
    dataset, replay = load_dataset(out), History(work, tiny_online, SPEC).replay(100)
    for column, kept in zip(dataset.transitions, replay.transitions, strict=True):
        np.testing.assert_array_equal(column, kept)
    np.testing.assert_array_equal(dataset.truncated, replay.truncated)
    assert list(attributes(out)["source_rows"]) == [100]


@pytest.mark.slow  # a mixed log goes the same way
def test_medium_expert_is_half_and_half(tiny_online: OnlineSettings, tmp_path: Path, work: Path):
    out = tmp_path / "medium-expert.hdf5"
    collect_dataset(recipe(tiny_online, "medium-expert", transitions=101, noise=0.0), out, work)
    history = History(work, tiny_online, SPEC)
    assert history.step == STEPS  # no reference for this environment: the best of the whole training is the expert
    best = max(history.evaluations, key=lambda evaluation: evaluation.mean)
    found, transitions = attributes(out), load_dataset(out).transitions
    assert (list(found["source_rows"]), list(found["online_steps"])) == ([50, 51], [100, best.step])
    np.testing.assert_allclose(transitions.action[:50], history.policy(100)(transitions.observation[:50]), atol=1e-5)
    np.testing.assert_allclose(transitions.action[50:], history.policy(best.step)(transitions.observation[50:]), atol=1e-5)


def test_a_mixed_log_has_a_third_each_and_a_policy_that_counts_twice_once(
    tiny_online: OnlineSettings, tmp_path: Path, work: Path
):
    out, target = tmp_path / "mixed.hdf5", 4.5
    collect_dataset(recipe(tiny_online, "mixed", transitions=101, noise=0.0, target_return=target), out, work)
    history = History(work, tiny_online, SPEC)
    steps = [next(e.step for e in history.evaluations if e.mean >= share * target) for share in (1 / 4, 1 / 2, 1)]
    found, transitions = attributes(out), load_dataset(out).transitions
    assert list(found["online_steps"]) == list(dict.fromkeys(steps))
    thirds = {step: sum(rows for rows, of in zip((33, 34, 34), steps, strict=True) if of == step) for step in steps}
    rows = list(found["source_rows"])
    assert rows == list(thirds.values())
    last = slice(101 - rows[-1], None)
    np.testing.assert_allclose(transitions.action[last], history.policy(steps[-1])(transitions.observation[last]), atol=1e-5)


def test_a_target_out_of_reach_says_how_far_it_came_and_keeps_the_training(
    tiny_online: OnlineSettings, tmp_path: Path, work: Path
):
    message = r"no policy reached a return of 5,000\.0 \(--target-return\) in 1,000 online steps; the best, at step \d+, has \d"
    with pytest.raises(TetherError, match=message):
        collect_dataset(recipe(tiny_online, "medium", target_return=5000, transitions=10), tmp_path / "out.hdf5", work)
    assert not (tmp_path / "out.hdf5").exists()
    assert History(work, tiny_online, SPEC).step == STEPS


KILLED = """
import sys
from pathlib import Path
from tether import TD3
from tether.collection.levels import Recipe, collect_dataset
from tether.collection.online import OnlineSettings
agent = TD3(hidden_sizes=(16, 16), batch_size=8)
online = OnlineSettings("InvertedPendulum-v5", seed=3, warmup=100, evaluate_every=100, episodes=2, agent=agent)
recipe = Recipe(online, "medium-expert", transitions=50, target_return=3.0, online_steps=int(sys.argv[3]))
collect_dataset(recipe, Path(sys.argv[1]), Path(sys.argv[2]))
"""


@pytest.mark.slow
def test_killed_and_started_again_it_ends_the_same(tiny_online: OnlineSettings, tmp_path: Path, work: Path):
    killed, unbroken, folder = tmp_path / "killed.hdf5", tmp_path / "unbroken.hdf5", tmp_path / "work"
    with subprocess.Popen([sys.executable, "-c", KILLED, killed, folder, str(STEPS)]) as process:
        while not (folder / "policy-000000200.safetensors").exists() and process.poll() is None:
            time.sleep(0.01)
        process.kill()
    assert History(folder, tiny_online, SPEC).step >= 100
    whole = recipe(tiny_online, "medium-expert", transitions=50)
    collect_dataset(whole, killed, folder)
    collect_dataset(whole, unbroken, work)
    assert killed.read_bytes() == unbroken.read_bytes()


def test_levels_of_a_known_task_need_no_returns():
    hopper = OnlineSettings("Hopper-v5")
    filled = complete(Recipe(hopper, "medium-expert"))
    assert filled.target_return == pytest.approx(1078.1)  # a third of 3234.3
    assert filled.expert_return == pytest.approx(2910.87)  # 0.9 of 3234.3
    assert filled.transitions == 1_000_000
    assert complete(Recipe(hopper, "medium-replay")).transitions is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": "medium"}, "no reference return is known for InvertedPendulum-v5; say what is medium with --target-return"),
        ({"target_return": 5.0, "expert_return": 5.0}, r"--expert-return is 5\.0; it must be above --target-return"),
        ({"level": "medium-replay", "transitions": 10}, "medium-replay has as many transitions as the training took"),
        ({"transitions": 1}, "--transitions is 1; it must be at least 2"),
        ({"noise": -0.1}, r"--noise is -0\.1; it must not be negative"),
        ({"online_steps": 99}, "--online-steps is 99, but the first evaluation is after 100 steps"),
    ],
)
def test_recipes_that_cannot_be(tiny_online: OnlineSettings, options: dict, message: str):
    with pytest.raises(TetherError, match=message):
        complete(Recipe(tiny_online, **({"level": "medium"} | options)))


@pytest.mark.slow
def test_online_td3_balances_a_pendulum(tmp_path: Path):
    online = OnlineSettings(
        "InvertedPendulum-v5", warmup=1_000, evaluate_every=1_000, agent=replace(AGENT, hidden_sizes=(64, 64))
    )
    out = tmp_path / "expert.hdf5"
    collect_dataset(Recipe(online, "medium", 2_000, target_return=1000.0, online_steps=60_000, noise=0.0), out, tmp_path / "work")
    dataset = load_dataset(out)
    np.testing.assert_array_equal(dataset.episode_returns, [1000.0, 1000.0])  # 1 for every step upright, up to the time limit
    np.testing.assert_array_equal(np.flatnonzero(dataset.truncated), [999, 1999])
    assert not np.any(dataset.transitions.terminated)

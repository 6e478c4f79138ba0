"""Datasets of choices, from a DQN of a few hundred steps, read back as any other file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

from tether import DQN
from tether.cli import main
from tether.collection.levels import Recipe, collect_dataset, complete
from tether.collection.online import AGENT, DISCRETE_AGENT, OnlineSettings, online_agent
from tether.collection.recording import noisy, uniform
from tether.data import load_dataset
from tether.types import discrete_spec


@pytest.fixture(scope="module")
def online() -> OnlineSettings:
    agent = replace(DISCRETE_AGENT, hidden_sizes=(16, 16), batch_size=8)
    return OnlineSettings("CartPole-v1", seed=3, warmup=100, evaluate_every=100, episodes=2, agent=agent)


def recipe(online: OnlineSettings, level: str, **options: object) -> Recipe:
    return complete(Recipe(online, level, **({"target_return": 5.0, "online_steps": 400} | options)))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def medium(online: OnlineSettings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cartpole")
    collect_dataset(recipe(online, "medium", transitions=120, noise=0.2), folder / "medium.hdf5", folder / "work", False)
    return folder / "medium.hdf5"


def test_choices_are_whole_numbers_on_disk_and_one_hot_rows_in_memory(medium: Path):
    dataset = load_dataset(medium)
    with h5py.File(medium) as file:
        stored = file["actions"][...]
        assert (stored.dtype, stored.shape, file.attrs["num_actions"]) == (np.uint8, (120,), 2)
    assert (dataset.spec, dataset.size, dataset.env_id) == (discrete_spec(4, 2), 120, "CartPole-v1")
    np.testing.assert_array_equal(dataset.transitions.action, np.eye(2)[stored])
    # Each row continues the one before, and the choice it records is the one that was made: the cart was pushed that way.
    inner = np.setdiff1d(np.arange(119), dataset.episode_ends - 1)
    np.testing.assert_array_equal(dataset.transitions.next_observation[inner], dataset.transitions.observation[inner + 1])
    pushed = dataset.transitions.next_observation[:, 1] > dataset.transitions.observation[:, 1]
    np.testing.assert_array_equal(pushed, stored == 1)


def test_the_training_serves_other_levels_and_repeats_itself(online: OnlineSettings, medium: Path, tmp_path: Path):
    again = recipe(online, "medium", transitions=120, noise=0.2)
    collect_dataset(again, tmp_path / "again.hdf5", medium.parent / "work", False)
    assert (tmp_path / "again.hdf5").read_bytes() == medium.read_bytes()
    collect_dataset(again, tmp_path / "anew.hdf5", tmp_path / "work", False)
    assert (tmp_path / "anew.hdf5").read_bytes() == medium.read_bytes()
    recording = collect_dataset(recipe(online, "medium-replay"), tmp_path / "replay.hdf5", medium.parent / "work", False)
    assert recording.size % 100 == 0
    assert (np.sort(recording.transitions.action, axis=1) == [0.0, 1.0]).all()


def test_images_keep_their_shape_on_disk(tmp_path: Path, capsys):
    out = tmp_path / "breakout.hdf5"
    assert main(["collect", "MinAtar/Breakout-v1", "--level", "random", "--transitions", "50", "--out", str(out)]) == 0
    assert load_dataset(out).spec == discrete_spec(400, 3, (10, 10, 4))
    capsys.readouterr()
    assert main(["data", "info", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "one of 3 choices" in shown
    assert "an image of 10 x 10 x 4" in shown


def test_the_agent_is_the_one_that_can_learn_the_actions():
    assert online_agent("InvertedPendulum-v5") == AGENT
    assert online_agent("CartPole-v1") == DISCRETE_AGENT
    assert isinstance(DISCRETE_AGENT, DQN)


def test_noise_is_the_share_of_random_choices():
    spec = discrete_spec(1, 4)
    always_last = lambda observations: np.eye(4)[[3] * len(observations)]  # noqa: E731
    choose = noisy(always_last, np.random.default_rng(0), 0.2, spec)
    share = np.mean(choose(np.zeros((4000, 1))), axis=0)
    np.testing.assert_allclose(share, [0.05, 0.05, 0.05, 0.85], atol=0.015)  # a random choice may be the policy's own
    anything = uniform(np.random.default_rng(0), spec)
    np.testing.assert_allclose(np.mean(anything(np.zeros((4000, 1))), axis=0), [0.25] * 4, atol=0.03)

"""Reward scaling and held-out episodes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.data.dataset import Dataset
from tether.data.transforms import RewardScale, normalise_rewards, split_episodes
from tether.errors import TetherError
from tether.types import Batch, Spec


def _dataset(lengths: list[int], reward: list[float] | None = None) -> Dataset:
    """Timed-out episodes whose observations are (episode, step)."""
    rows = sum(lengths)
    observation = np.array([(e, s) for e, length in enumerate(lengths) for s in range(length)], dtype=np.float32)
    ends = np.cumsum(lengths)
    truncated = np.zeros(rows, dtype=bool)
    truncated[ends - 1] = True
    return Dataset(
        transitions=Batch(
            observation=observation,
            action=np.zeros((rows, 1), dtype=np.float32),
            reward=np.ones(rows, dtype=np.float32) if reward is None else np.array(reward, dtype=np.float32),
            next_observation=observation + np.float32([0, 1]),
            terminated=np.zeros(rows, dtype=np.float32),
        ),
        truncated=truncated,
        episode_ends=ends,
        episode_returns=np.arange(len(lengths), dtype=np.float64),
        spec=Spec(2, (-1.0,), (1.0,)),
        name="made",
        env_id=None,
        sha256="0" * 64,
    )


def test_rewards_map_to_zero_and_one():
    given = _dataset([4], reward=[-2.0, 0.0, 3.0, 6.0])
    scaled, scale = normalise_rewards(given)
    assert scale == RewardScale(low=-2.0, high=6.0)
    np.testing.assert_allclose(scaled.transitions.reward, [0.0, 0.25, 0.625, 1.0])
    assert scaled.transitions.reward.dtype == np.float32
    np.testing.assert_array_equal(given.transitions.reward, [-2.0, 0.0, 3.0, 6.0])
    np.testing.assert_array_equal(scaled.episode_returns, given.episode_returns)


def test_constant_rewards_map_to_zero_and_say_so():
    scaled, scale = normalise_rewards(_dataset([3], reward=[5.0, 5.0, 5.0]))
    assert scale.is_constant
    np.testing.assert_array_equal(scaled.transitions.reward, [0.0, 0.0, 0.0])


@settings(deadline=None, max_examples=60)
@given(lengths=st.lists(st.integers(1, 9), min_size=2, max_size=12), share=st.floats(0.01, 0.99), seed=st.integers(0, 2**32 - 1))
def test_split_keeps_every_row_once_and_episodes_whole(lengths, share, seed):
    dataset = _dataset(lengths)
    parts = split_episodes(dataset, share, seed)
    episodes = [set(part.transitions.observation[:, 0]) for part in parts]
    assert episodes[0].isdisjoint(episodes[1])
    assert all(episodes)
    assert sum(part.size for part in parts) == dataset.size
    for part in parts:
        assert part.episode_ends[-1] == part.size
        firsts = part.transitions.observation[part.episode_starts]
        np.testing.assert_array_equal(firsts[:, 1], 0)
        np.testing.assert_array_equal(firsts[:, 0], part.episode_returns)  # the return of episode e is e
        np.testing.assert_array_equal(np.flatnonzero(part.truncated), part.episode_ends - 1)


def test_split_holds_out_about_its_share():
    kept, held_out = split_episodes(_dataset([10] * 50), held_out_share=0.1, seed=0)
    assert (kept.size, held_out.size) == (450, 50)


def test_split_depends_on_the_seed_only():
    dataset = _dataset([3] * 20)
    drawn = [tuple(split_episodes(dataset, 0.25, seed)[1].episode_returns) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_the_parts_of_a_split_are_datasets_of_their_own():
    whole = _dataset([4, 4, 4, 4])
    halves = [part for seed in (0, 1) for part in split_episodes(whole, 0.5, seed)]
    assert [half.size for half in halves] == [8, 8, 8, 8]
    assert (
        len({whole.sha256, *(half.sha256 for half in halves)})
        == len({*(tuple(h.transitions.observation[:, 0]) for h in halves)}) + 1
    )
    assert split_episodes(whole, 0.5, 0)[0].sha256 == halves[0].sha256


def test_a_single_episode_is_split_by_rows():
    kept, held_out = split_episodes(_dataset([10]), held_out_share=0.2, seed=0)
    np.testing.assert_array_equal(kept.transitions.observation[:, 1], range(8))
    np.testing.assert_array_equal(held_out.transitions.observation[:, 1], [8, 9])
    np.testing.assert_array_equal(np.flatnonzero(kept.truncated), [7])
    np.testing.assert_array_equal(held_out.truncated, [False, True])
    assert (kept.episode_ends.tolist(), held_out.episode_ends.tolist()) == ([8], [2])


@pytest.mark.parametrize("share", [0.0, 1.0, -0.5, float("nan")])
def test_share_out_of_range(share):
    with pytest.raises(TetherError, match=r"held_out_share is .*, expected more than 0 and less than 1"):
        split_episodes(_dataset([2, 2]), share, seed=0)


def test_one_transition_cannot_be_split():
    with pytest.raises(TetherError, match="made: one transition cannot be split"):
        split_episodes(_dataset([1]), 0.5, seed=0)

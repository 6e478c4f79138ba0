"""Reward scaling, held-out episodes, and the other ways to make a dataset of datasets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.data.dataset import Dataset
from tether.data.rewards import RewardScale, normalise_rewards
from tether.data.transforms import concatenate, filter_by_return, split_episodes, subsample
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


def _episodes(dataset: Dataset) -> list[int]:
    """The number of the episode of each row."""
    return dataset.transitions.observation[:, 0].astype(int).tolist()


def test_subsample_of_episodes_keeps_them_whole_and_in_order():
    part = subsample(_dataset([2, 3, 1, 4, 2]), episodes=3, seed=1)
    drawn = sorted(set(_episodes(part)))
    assert len(drawn) == 3
    assert _episodes(part) == [episode for episode in drawn for _ in range([2, 3, 1, 4, 2][episode])]
    np.testing.assert_array_equal(part.episode_returns, drawn)  # the return of episode e is e
    np.testing.assert_array_equal(np.flatnonzero(part.truncated), part.episode_ends - 1)


def test_subsample_of_transitions_keeps_order_returns_and_true_ends():
    whole = _dataset([3, 2, 4])
    terminated = whole.transitions.terminated.copy()
    terminated[4] = 1.0  # the last row of episode 1
    whole = replace(
        whole, transitions=whole.transitions._replace(terminated=terminated), truncated=whole.truncated & (terminated == 0)
    )
    part = subsample(whole, transitions=6, seed=0)
    rows = [tuple(row) for row in part.transitions.observation.astype(int).tolist()]
    assert len(rows) == 6
    assert rows == sorted(rows)
    np.testing.assert_array_equal(part.episode_returns, sorted({episode for episode, _ in rows}))
    for end, last in zip(part.episode_ends, part.transitions.observation[part.episode_ends - 1].tolist(), strict=True):
        assert part.truncated[end - 1] == (last != [1, 1])  # (1, 1) is the row that terminated
    assert part.truncated.sum() + part.transitions.terminated.sum() == len(part.episode_ends)


def test_subsample_by_share_draws_until_it_is_enough():
    part = subsample(_dataset([10] * 10), share=0.25, seed=0)
    assert (part.size, len(part.episode_ends)) == (30, 3)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_subsample_is_not_what_a_split_by_the_same_seed_holds_out(seed: int):
    """By chance, a tenth of a thousand episodes has ten in common with another tenth, and hardly ever thirty."""
    dataset = _dataset([1] * 1000)
    held_out = {*_episodes(split_episodes(dataset, 0.1, seed)[1])}
    for part in (subsample(dataset, share=0.1, seed=seed), subsample(dataset, episodes=100, seed=seed)):
        assert len(held_out & {*_episodes(part)}) < 30


def test_what_a_split_holds_out_is_what_it_always_was():
    """Fits of bonuses hang on it."""
    assert _episodes(split_episodes(_dataset([1] * 10), 0.3, seed=0)[1]) == [2, 4, 6]


def test_subsample_depends_on_the_seed_only():
    dataset = _dataset([3] * 20)
    drawn = [_episodes(subsample(dataset, transitions=10, seed=seed)) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "subsample takes one of episodes, transitions and share"),
        ({"episodes": 1, "share": 0.5}, "subsample takes one of episodes, transitions and share"),
        ({"episodes": 4}, "made has 3 episodes; 4 cannot be drawn from them"),
        ({"transitions": 0}, "made has 6 transitions; 0 cannot be drawn from them"),
        ({"share": 1.5}, "share is 1.5, expected more than 0 and less than 1"),
    ],
)
def test_what_cannot_be_drawn(arguments, message):
    with pytest.raises(TetherError, match=message):
        subsample(_dataset([2, 2, 2]), **arguments)


@pytest.mark.parametrize(
    ("limits", "kept"),
    [
        ({"minimum": 2.0}, [2, 3, 4]),
        ({"maximum": 2.0}, [0, 1, 2]),
        ({"minimum": 1.0, "maximum": 3.0}, [1, 2, 3]),
        ({"best_share": 0.3}, [3, 4]),  # 0.3 of five is one and a half
        ({"best_share": 0.5, "maximum": 3.0}, [2, 3]),
        ({"best_share": 0.01}, [4]),
    ],
)
def test_filter_by_return(limits, kept):
    part = filter_by_return(_dataset([1, 2, 3, 2, 1]), **limits)
    assert part.episode_returns.tolist() == kept
    assert sorted(set(_episodes(part))) == kept


def test_of_equal_returns_the_earlier_are_the_best():
    dataset = replace(_dataset([1, 1, 1, 1]), episode_returns=np.array([5.0, 7.0, 7.0, 7.0]))
    assert _episodes(filter_by_return(dataset, best_share=0.5)) == [1, 2]


def test_a_filter_that_leaves_nothing_says_what_there_is():
    with pytest.raises(TetherError, match=r"made: no episode has a return from 10 to inf; they go from 0 to 2"):
        filter_by_return(_dataset([1, 1, 1]), minimum=10.0)
    with pytest.raises(TetherError, match="takes a minimum, a maximum or a best share"):
        filter_by_return(_dataset([1, 1, 1]))


def test_concatenation_is_one_after_the_other():
    one, other = _dataset([2, 1], reward=[1, 2, 3]), _dataset([3], reward=[4, 5, 6])
    whole = concatenate([one, other])
    np.testing.assert_array_equal(whole.transitions.reward, [1, 2, 3, 4, 5, 6])
    np.testing.assert_array_equal(whole.episode_ends, [2, 3, 6])
    np.testing.assert_array_equal(whole.episode_returns, [0, 1, 0])
    np.testing.assert_array_equal(whole.truncated, [False, True, True, False, False, True])
    assert len({one.sha256, whole.sha256, concatenate([other, one, other]).sha256}) == 3


def _bounded(low: float, high: float, env_id: str | None = None, action: float = 0.0) -> Dataset:
    dataset = _dataset([2])
    actions = np.full((2, 1), action, dtype=np.float32)
    return replace(
        dataset, spec=Spec(2, (low,), (high,)), env_id=env_id, transitions=dataset.transitions._replace(action=actions)
    )


def test_joint_bounds_are_the_widest_where_no_environment_is_known():
    whole = concatenate([_bounded(-1.0, 1.0), _bounded(-4.0, 0.5, action=-3.0)])
    assert (whole.spec.action_low, whole.spec.action_high) == ((-4.0,), (1.0,))
    np.testing.assert_array_equal(whole.transitions.action[:, 0], [0, 0, -3, -3])


def test_joint_bounds_are_the_environments_where_it_is_known():
    parts = [_bounded(-1.0, 1.0), _bounded(-4.0, 4.0, action=-3.5)]
    whole = concatenate(parts, env_id="InvertedPendulum-v5")  # whose actions are within [-3, 3]
    assert (whole.env_id, whole.spec.action_low, whole.spec.action_high) == ("InvertedPendulum-v5", (-3.0,), (3.0,))
    np.testing.assert_array_equal(whole.transitions.action[:, 0], [0, 0, -3, -3])
    assert whole.notes.action_entries_clipped == 2


def test_bounds_that_agree_stay_though_the_environment_has_others():
    whole = concatenate([_bounded(-0.5, 0.5, "Hopper-v4"), _bounded(-0.5, 0.5, "Hopper-v4")])
    assert (whole.spec.action_low, whole.env_id) == ((-0.5,), "Hopper-v4")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([_dataset([2])], "concatenate takes two datasets or more"),
        (
            [_dataset([2]), replace(_dataset([2]), spec=Spec(3, (-1.0,), (1.0,)))],
            "made has observation size 2, made has 3; they do not join",
        ),
        (
            [_dataset([2]), replace(_dataset([2]), spec=Spec(2, (-1.0, -1.0), (1.0, 1.0)))],
            "made has action size 1, made has 2; they do not join",
        ),
        ([_bounded(-1, 1, "Hopper-v4"), _bounded(-1, 1)], "made names Hopper-v4, made no environment; say which is right"),
    ],
)
def test_what_does_not_join(parts, message):
    with pytest.raises(TetherError, match=message):
        concatenate(parts)


@pytest.mark.parametrize("lengths", [[100, 20_000], [50] * 40 + [20_000], [300] * 10 + [9_000]])
def test_an_episode_that_is_most_of_the_log_is_never_held_out(lengths: list[int]):
    dataset = _dataset(lengths)
    for seed in range(20):
        kept, held_out = split_episodes(dataset, 0.05, seed)
        assert kept.size + held_out.size == dataset.size
        assert 0 < held_out.size <= 0.525 * dataset.size
        assert max(kept.episode_ends - kept.episode_starts) == max(lengths)


def test_of_two_equal_episodes_one_is_held_out():
    kept, held_out = split_episodes(_dataset([10, 10]), 0.05, 0)
    assert (kept.size, held_out.size) == (10, 10)


def test_the_draw_of_episodes_of_like_lengths_is_as_ever():
    """By hand for seed 0: numpy's permutation of four is 2, 0, 1, 3; 30 of 100 rows take the first of 25 and the second."""
    assert np.random.default_rng(0).permutation(4).tolist() == [2, 0, 1, 3]
    _, held_out = split_episodes(_dataset([25, 25, 25, 25]), 0.3, 0)
    assert np.unique(held_out.transitions.observation[:, 0]).tolist() == [0.0, 2.0]


def test_a_negative_seed_is_refused():
    for draw in (lambda d: split_episodes(d, 0.5, -1), lambda d: subsample(d, episodes=1, seed=-1)):
        with pytest.raises(TetherError, match="seed is -1; it takes a whole number from 0 on"):
            draw(_dataset([2, 2]))

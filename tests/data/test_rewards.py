"""Scaling rewards for training: what becomes of them, and of the order of episodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_transforms import _dataset

from tether.data.dataset import Dataset
from tether.data.rewards import (
    RewardScale,
    describe_scaling,
    discounted_returns,
    episode_worths,
    normalise_rewards,
    order_kept,
    scaling_warning,
)
from tether.types import discrete_spec

# Every step costs 1.0 or 1.1 until success: the shorter the better.
COSTS = [[-1.1], [-1.0, -1.1], [-1.0, -1.0, -1.1]]


def ending(episodes: list[list[float]], cut: tuple[int, ...] = ()) -> Dataset:
    """Episodes of these rewards, each of which terminates unless its number is in `cut`."""
    made = _dataset([len(episode) for episode in episodes], [reward for episode in episodes for reward in episode])
    terminated = np.zeros(made.size, dtype=np.float32)
    terminated[made.episode_ends - 1] = [number not in cut for number in range(len(episodes))]
    return replace(made, transitions=made.transitions._replace(terminated=terminated), truncated=terminated == 0.0)


def test_what_episodes_are_worth():
    data = ending([*COSTS, [-1.0]], cut=(3,))
    # 1 + 1.1 / 2 = 1.55, 1 + 1/2 + 1.1/4 = 1.775; the last one goes on: 1 + 1/2 + 1/4 + ... = 2.
    np.testing.assert_allclose(discounted_returns(data, 0.5), [-1.1, -1.55, -1.775, -1.0], rtol=1e-6)
    np.testing.assert_allclose(episode_worths(data, 0.5), [-1.1, -1.55, -1.775, -2.0], rtol=1e-6)


@pytest.mark.parametrize("cut", [(), (3,)])
def test_mapping_costs_to_zero_and_one_turns_the_order_round(cut: tuple[int, ...]):
    """Costs of 1.1 become 0 and of 1.0 become 1: the episodes are worth 0, 1, 1.5 and, cut or not, more with length."""
    data = ending([*COSTS, [-1.0, -1.0, -1.0, -1.1]], cut)
    assert order_kept(data, RewardScale(-1.1, -1.0), 0.5) == pytest.approx(-1.0)
    assert order_kept(data, RewardScale(-1.1, -1.0, keep_zero=True), 0.5) == pytest.approx(1.0)


def test_auto_keeps_zero_and_signs_where_episodes_end():
    data = ending(COSTS)
    scaled, scale = normalise_rewards(data)
    assert scale == RewardScale(pytest.approx(-1.1), -1.0, keep_zero=True)
    np.testing.assert_allclose(scaled.transitions.reward[:2], [-1.0, -1.0 / 1.1], rtol=1e-6)
    assert order_kept(data, scale, 0.99) == pytest.approx(1.0)


def test_auto_is_the_paper_s_map_where_no_episode_ends_and_then_keeps_the_order():
    data = ending([*COSTS, [-1.1, -1.0]], cut=(0, 1, 2, 3))
    _, scale = normalise_rewards(data)
    assert scale.scaling == "range"
    assert order_kept(data, scale, 0.99) == pytest.approx(1.0)
    assert normalise_rewards(replace(data, spec=discrete_spec(2, 1)))[1].scaling == "divide"


def test_a_middling_order():
    data = ending([[-3.0], [-2.0], [-1.0, -1.0, -1.0], [1.0]])
    # Before, by a discount of 0.5: -3, -2, -1.75, 1. After, r -> (r + 3) / 4: 0, 0.25, 0.875, 1. The same order.
    assert order_kept(data, RewardScale(-3.0, 1.0), 0.5) == pytest.approx(1.0)
    longer = ending([[-3.0], [-2.0], [-1.9, -1.9, -1.9], [1.0]])
    # Before: -3, -2, -3.325, 1: ranks 2, 3, 1, 4. After: 0, 0.25, 0.48125, 1: ranks 1, 2, 3, 4. 1 - 6 (1 + 1 + 4) / 60 = 0.4.
    assert order_kept(longer, RewardScale(-3.0, 1.0), 0.5) == pytest.approx(0.4)


def test_no_order_to_keep_and_one_that_is_lost_whole():
    assert order_kept(ending([[1.0], [1.0]]), RewardScale(0.0, 1.0), 0.5) is None
    assert order_kept(ending([[-1.0], [-1.0, -1.0]]), RewardScale(-1.0, -1.0), 0.5) == 0.0


def test_what_is_said():
    data, shifted, divided = ending(COSTS), RewardScale(-1.1, -1.0), RewardScale(-1.1, -1.0, keep_zero=True)
    assert describe_scaling(shifted, -1.0) == (
        "rewards from -1.1 to -1 are mapped to [0, 1] (range); rank correlation of episodes before and after -1.000"
    )
    assert describe_scaling(divided, None) == "rewards from -1.1 to -1 are divided by the largest in size (divide)"
    assert scaling_warning(data, shifted, -0.84, "training.reward_scaling") == (
        "mapping the rewards of made to [0, 1] turns the order of episodes round (rank correlation -0.84): it adds the same "
        "to every step, so an episode that ends soon loses by it; training.reward_scaling=auto keeps zero and signs, and so the "
        "order"
    )
    assert "changes the order of episodes (rank correlation 0.50)" in str(scaling_warning(data, shifted, 0.5, "reward_scaling"))
    assert scaling_warning(data, shifted, 0.95, "reward_scaling") is None
    assert scaling_warning(data, divided, 1.0, "reward_scaling") is None
    assert scaling_warning(ending([[-1.0]]), RewardScale(-1.0, -1.0), None, "reward_scaling") == (
        "every reward of made is -1; there is nothing to learn from them; but episodes end, and reward_scaling=auto keeps zero "
        "and signs, and so the order"
    )


def test_a_range_of_returns_that_is_rounding_is_none():
    """Ten episodes that add up to 1 but for the last digit of a float32: dividing by a thousandth of that would be 1e10."""
    data = _dataset([2] * 10)
    returns = 1.0 + 6e-8 * (np.arange(10) % 2)
    assert normalise_rewards(replace(data, episode_returns=returns), "returns")[1].scaling == "divide"
    wide = replace(data, episode_returns=1.0 + 1e-3 * np.arange(10))
    assert normalise_rewards(wide, "returns")[1].unit == pytest.approx(9e-6)


@pytest.mark.parametrize("scaling", ["divide", "range"])
def test_one_reward_that_leaves_nothing_of_the_others_is_told(scaling: str):
    reward = np.tile([0.0, -1.0, -1.1], 700)
    reward[1_234] = -1e9
    data = _dataset([2_100], reward.tolist())
    told = scaling_warning(data, normalise_rewards(data, scaling)[1], None, "reward_scaling")
    assert told is not None
    assert told.startswith(
        "1 of 2,100 rewards are more than 100 times as large as nearly all others (1.1 at most), such as -1e+09 in row 1,234"
    )
    assert scaling_warning(data, normalise_rewards(data, "none")[1], None, "reward_scaling") is None


def test_a_rare_success_is_no_such_reward():
    for reward in ([0.0] * 1_999 + [1.0], ([-1.0] * 499 + [100.0]) * 4, [-1.0] * 2_000):
        data = _dataset([2_000], reward)
        assert scaling_warning(data, normalise_rewards(data, "divide")[1], None, "reward_scaling") is None

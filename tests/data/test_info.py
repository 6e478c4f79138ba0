"""What `describe` says about a dataset worked out by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tether.data.files.d4rl import read_d4rl
from tether.data.info import describe


def test_describe(write_hdf5):
    facts = describe(read_d4rl(write_hdf5(next_observations=None)))
    assert json.loads(json.dumps(facts)) == facts
    assert (facts["transitions"], facts["episodes"], facts["observation_size"], facts["action_size"]) == (3, 2, 2, 1)
    assert (facts["action_low"], facts["action_high"]) == ([-1.0], [1.0])
    # Returns 3 and 7; lengths 2 and 1, as the last row was dropped.
    assert facts["episode_return"] == {
        "mean": 5.0,
        "std": 2.0,
        "min": 3.0,
        "first_quartile": 4.0,
        "median": 5.0,
        "third_quartile": 6.0,
        "max": 7.0,
    }
    assert (facts["episode_length"]["mean"], facts["episode_length"]["max"]) == (1.5, 2.0)
    assert facts["terminated_share"] == facts["truncated_share"] == pytest.approx(1 / 3)
    assert facts["reward"] == {"min": 1.0, "max": 3.0, "constant": False}
    assert (facts["notes"]["rows_dropped"], facts["notes"]["action_entries_clipped"]) == (1, 0)
    assert facts["normalised_score"] is None
    # Rewards 1, 2 and 3 become 1/3, 2/3 and 1: the first episode is worth (1 + 0.99 x 2) / 3, the second 1.
    assert facts["discounted_return"] == {
        "mean": pytest.approx((2.98 / 3 + 1) / 2),
        "std": pytest.approx((1 - 2.98 / 3) / 2, rel=1e-4),
        "discount": 0.99,
        "scaling": "divide",
    }
    # One episode of 1, 2 terminates, one of 3 goes on for ever: the second is worth more before and after.
    assert facts["reward_scaling"]["auto"] == "divide"
    assert facts["reward_scaling"]["order_kept"] == {"range": pytest.approx(1.0), "divide": pytest.approx(1.0)}


def test_normalised_score_of_a_known_task(write_hdf5):
    observations = np.zeros((4, 11))
    columns = {"observations": observations, "next_observations": observations, "actions": np.zeros((4, 3))}
    # Two episodes of two steps with returns -20.272305 (score 0) and 3234.3 (score 100).
    rewards = np.array([-20.272305, 0.0, 3234.3, 0.0])
    facts = describe(read_d4rl(write_hdf5("hopper.hdf5", rewards=rewards, **columns)))
    score = facts["normalised_score"]
    assert score["mean"] == pytest.approx(50.0, abs=1e-4)
    assert score["std"] == pytest.approx(50.0, abs=1e-4)
    # Divided by 3234.3, as the default agent has it: -20.27 / 3234.3 and 1.
    assert facts["discounted_return"]["scaling"] == "divide"
    assert facts["discounted_return"]["mean"] == pytest.approx((1 - 20.272305 / 3234.3) / 2)


def test_constant_rewards_are_said(write_hdf5):
    assert describe(read_d4rl(write_hdf5(rewards=np.zeros(4))))["reward"]["constant"]

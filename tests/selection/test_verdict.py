"""What measures come to, by hand, and the words for them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from problems import SPEC, as_dataset, constant_reward

from tether.data.rewards import RewardScale
from tether.selection import measures
from tether.selection.bench import Bench, Measured
from tether.selection.candidates import own_error
from tether.selection.choosing import Ranked, best, reasons
from tether.selection.measures import Estimate, over_members_and_starts
from tether.selection.verdict import about_actions, about_bench, about_values
from tether.types import Batch

SHARP = {"uniform": 0.99}


def measured(values: Any = ((10.0, 10.0), (10.0, 10.0)), **changes: Any) -> Measured:
    return Measured(
        **{"values": np.array(values), "value_at_rows": 0.0, "outside": 0.05, "novelty": 1.0, "distance": 0.1} | changes
    )


def test_an_interval_is_over_members_and_starts():
    # Means of members 2 and 4: std sqrt(2), times 12.71 for two of them.
    # Means of starts 2 and 4: std sqrt(2) / sqrt(2), times 1.96.
    found = over_members_and_starts(np.array([[1.0, 3.0], [3.0, 5.0]]))
    half = np.hypot(12.71 * np.sqrt(2.0), 1.96)
    np.testing.assert_allclose([found.mean, found.low, found.high], [3.0, 3.0 - half, 3.0 + half])
    # Compared start by start and member by member, what both have in common drops out.
    gain = measured([[2.0, 4.0], [4.0, 6.0]]).gain_over(measured([[1.0, 3.0], [3.0, 5.0]]))
    assert gain == Estimate(1.0, 1.0, 1.0)


def test_recorded_actions_have_a_twentieth_outside_and_far_ones_all():
    recorded = np.arange(1_000.0)
    assert measures.outside_share(recorded, recorded) == 0.05
    assert measures.outside_share(recorded + 1_000.0, recorded) == 1.0


def test_distance_is_in_half_ranges_and_of_choices_the_share_that_differs():
    data = as_dataset(constant_reward())  # bounds (-1, 1) and (0, 4): half ranges 1 and 2
    recorded = np.zeros((3, 2))
    assert measures.distance(recorded + np.array([1.0, 2.0]), recorded, data) == 2.0
    choices = SimpleNamespace(spec=SimpleNamespace(discrete=True))
    taken = np.eye(2)[[0, 1, 0, 0]]
    assert measures.distance(taken, np.eye(2)[[0, 0, 0, 0]], choices) == 0.25  # type: ignore[arg-type]


def test_the_td_error_is_in_recorded_rewards_whatever_the_scaling():
    class Agent:
        discount = 0.5

        def value(self, state, observation, action):
            return 2.0 + 0.0 * observation[:, 0]

    rows = Batch(np.zeros((2, 2)), np.zeros((2, 2)), np.array([30.0, 50.0]), np.zeros((2, 2)), np.array([0.0, 1.0]))
    # Rewards from 10 to 50 mapped to [0, 1]: 0.5 and 1. So 2 - (0.5 + 0.5 * 2) = 0.5 and 2 - 1 = 1, each times 40.
    error = own_error(Agent(), None, RewardScale(10.0, 50.0), SPEC)  # type: ignore[arg-type]
    assert error is not None
    np.testing.assert_allclose(error(rows, rows.action), [20.0, 40.0])
    Agent.value = lambda *given: None  # type: ignore[assignment,method-assign,misc]
    assert own_error(Agent(), None, RewardScale(10.0, 50.0), SPEC) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "gain", "kinds", "words"),
    [
        ({}, Estimate(2, 1, 3), ["for", "for"], "+2 [+1, +3], more"),
        ({}, Estimate(2, -1, 5), ["for", "doubt"], "which may be nothing"),
        ({}, Estimate(-2, -3, -1), ["for", "against"], "-2 [-3, -1], less"),
        ({"outside": 0.6}, Estimate(2, 1, 3), ["against", "for"], "60% of its actions are outside the data (5% of recorded"),
        ({"cut_off": 0.5}, Estimate(2, 1, 3), ["for", "against"], "ran into the bounds of what rewards can add up to (50% of"),
        ({"moved": 0.2}, Estimate(2, 1, 3), ["for", "for", "doubt"], "still moved by 20% at the end"),
    ],
)
def test_words_for_a_policy(changes, gain, kinds, words):
    found = measured(**changes)
    findings = [*about_actions(found, SHARP), *about_values(found, gain, "cloning")]
    assert [finding.kind for finding in findings] == kinds
    assert words in " ".join(finding.text for finding in findings)


def test_a_blind_judge_says_little():
    (finding,) = about_actions(measured(outside=0.9), {"uniform": 0.55})
    assert finding.kind == "doubt"
    assert "all but blind (AUROC 0.55)" in finding.text


def test_no_value_is_believed_where_that_of_the_log_is_known_to_be_wrong():
    data = as_dataset(constant_reward())
    bench = Bench(data, data)
    right, wrong = measured(np.full((2, 8), 98.0)), measured(np.full((2, 8), 50.0))
    recorded = Estimate(100.0, 95.0, 105.0)
    assert [finding.kind for finding in about_bench(bench, right, recorded)] == ["for"]
    (finding,) = about_bench(bench, wrong, recorded)
    assert finding.kind == "against"
    assert "8 held-out episodes earned 100 [95, 105], discounted by 0.99; fitted Q evaluation says 50 [50, 50]" in finding.text


def ranked(name: str, values: Any, gain: Estimate | None, **changes: Any) -> Ranked:
    found = measured(values, **changes)
    words = [*about_actions(found, SHARP), *([] if gain is None else about_values(found, gain, "bc"))]
    return Ranked(SimpleNamespace(name=name, folder=Path(name)), found, gain, tuple(words))  # type: ignore[arg-type]


def test_the_best_is_better_for_certain_and_within_the_data_else_it_is_the_baseline():
    base = ranked("bc", np.full((2, 2), 10.0), None)
    wild = ranked("wild", np.full((2, 2), 90.0), Estimate(80, 70, 90), outside=0.9)
    vague = ranked("vague", np.full((2, 2), 20.0), Estimate(10, -5, 25))
    sound = ranked("sound", np.full((2, 2), 12.0), Estimate(2, 1, 3))
    assert best([wild, vague, sound, base]) is sound
    assert best([wild, vague, base]) is base
    assert best([wild, vague]) is None  # against the log itself
    assert "outside the data" in reasons(wild, None, "bc")[0]
    assert reasons(vague, None, "bc") == ["its value may be no more than that of bc: the difference is between -5 and +25"]

"""The kinds of actions that a bonus is judged by, and the one number that comes of it."""

from __future__ import annotations

import numpy as np
import pytest
from problems import SPEC, as_dataset, linear_behaviour, linear_policy

from tether.evaluation.discrimination import (
    NOISE_LEVELS,
    auroc,
    auroc_by_kind,
    bonus_by_kind,
    false_positives,
    histogram_by_kind,
    pairs_by_kind,
)


@pytest.mark.parametrize(
    ("known", "unknown", "chance"),
    [
        ([0.0, 1.0], [2.0, 3.0], 1.0),
        ([2.0, 3.0], [0.0, 1.0], 0.0),
        ([1.0, 3.0], [2.0, 4.0], 0.75),  # of the four pairs only 2 > 3 is false
        ([1.0, 2.0], [2.0, 3.0], 0.875),  # 2 against 2 counts half
        ([1.0, 1.0, 1.0], [1.0], 0.5),
        ([0.0], [1.0, 1.0, -1.0, 0.0], 0.625),  # 1, 1, 0 and a half, of four
    ],
)
def test_auroc(known, unknown, chance):
    assert auroc(np.array(known), np.array(unknown)) == pytest.approx(chance)


@pytest.fixture(scope="module")
def dataset():
    return as_dataset(linear_behaviour())


def test_every_kind_is_paired_with_the_same_observations(dataset):
    observation, kinds = pairs_by_kind(dataset)
    assert list(kinds) == ["data", "shuffled", "uniform", *(f"noise {level:g}" for level in NOISE_LEVELS)]
    assert {actions.shape for actions in kinds.values()} == {(dataset.size, 2)}
    np.testing.assert_allclose(kinds["data"], linear_policy(observation), rtol=1e-5)


def test_shuffled_actions_are_those_of_other_rows(dataset):
    _, kinds = pairs_by_kind(dataset)
    assert not (kinds["shuffled"] == kinds["data"]).all(axis=1).any()
    np.testing.assert_array_equal(np.sort(kinds["shuffled"], axis=0), np.sort(kinds["data"], axis=0))


def test_uniform_actions_fill_the_bounds(dataset):
    uniform = pairs_by_kind(dataset)[1]["uniform"]
    np.testing.assert_allclose(uniform.min(axis=0), SPEC.action_low, atol=0.05)
    np.testing.assert_allclose(uniform.max(axis=0), SPEC.action_high, atol=0.05)


def test_noise_is_in_half_action_ranges_and_stays_within_the_bounds(dataset):
    _, kinds = pairs_by_kind(dataset)
    for level in NOISE_LEVELS:
        noisy = kinds[f"noise {level:g}"]
        assert (noisy >= SPEC.action_low).all()
        assert (noisy <= SPEC.action_high).all()
    # Half ranges are 1 and 2; at 0.05 the bounds are too far off to matter.
    np.testing.assert_allclose((kinds["noise 0.05"] - kinds["data"]).std(axis=0), [0.05, 0.1], rtol=0.1)


def test_a_large_dataset_is_sampled_and_a_seed_decides_the_sample(dataset):
    few, kinds = pairs_by_kind(dataset, seed=1, most=20)
    assert len(few) == len(kinds["noise 1"]) == 20
    np.testing.assert_array_equal(few, pairs_by_kind(dataset, seed=1, most=20)[0])
    assert not np.array_equal(few, pairs_by_kind(dataset, seed=2, most=20)[0])


def test_a_perfect_bonus_tells_all_kinds_apart_and_a_constant_one_none(dataset):
    def distance(observation: np.ndarray, action: np.ndarray) -> np.ndarray:
        return np.abs(action - linear_policy(observation)).sum(axis=1)

    perfect = auroc_by_kind(bonus_by_kind(distance, dataset))
    assert set(perfect) == set(pairs_by_kind(dataset)[1]) - {"data"}
    assert min(perfect.values()) > 0.99
    blind = auroc_by_kind(bonus_by_kind(lambda observation, action: np.ones(len(action)), dataset))
    assert set(blind.values()) == {0.5}


def test_false_positives_are_the_known_at_or_above_what_catches_the_unknown():
    unknown = np.arange(1.0, 101.0)  # 95 of 100 are at 6 or above
    known = np.array([0.0, 5.0, 5.9, 6.0, 200.0])
    assert false_positives(known, unknown) == 0.4
    assert false_positives(known, unknown, recall=1.0) == 0.8


def test_a_histogram_has_the_shares_of_each_kind_over_common_bins():
    # From 0 to 4 in 40 bins of 0.1: of the data a half each in the 1st and the 11th, of uniform all in the last.
    bonuses = {"data": np.array([0.05, 1.05]), "uniform": np.full(4, 4.0), "noise 0.1": np.zeros(2)}
    found = histogram_by_kind(bonuses)
    assert list(found["shares"]) == ["data", "uniform"]
    np.testing.assert_allclose(found["edges"], np.linspace(0.0, 4.0, 41), atol=1e-9)
    assert [(place, share) for place, share in enumerate(found["shares"]["data"]) if share] == [(0, 0.5), (10, 0.5)]
    assert [(place, share) for place, share in enumerate(found["shares"]["uniform"]) if share] == [(39, 1.0)]


def test_a_histogram_over_decades_has_bins_by_ratio_and_none_is_made_of_what_is_not_finite():
    found = histogram_by_kind({"data": np.full(10, 0.01), "uniform": np.full(10, 100.0)})
    edges = np.array(found["edges"])
    np.testing.assert_allclose(edges[1:] / edges[:-1], 10.0 ** (4 / 40), rtol=1e-4)
    assert histogram_by_kind({"data": np.array([np.inf])}) == {}

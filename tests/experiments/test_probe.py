"""The probe against bonuses whose lowest place is known."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from problems import SPEC, Bowl, as_dataset, bowl_state, linear_behaviour, linear_policy

from tether.experiments import probe
from tether.experiments.probe import Distances, distances
from tether.policies import act
from tether.training.fit import FitReport, FittedBonus

DATASET = as_dataset(linear_behaviour())


def bowl(centre: np.ndarray) -> FittedBonus:
    return FittedBonus(Bowl(), bowl_state(steepness=1.0, centre=centre), SPEC, FitReport(0, 0.0))


def test_shares_run_from_cloning_to_chance():
    assert Distances(probe=0.5, cloning=0.5, uniform=2.5).share == 0.0
    assert Distances(probe=2.5, cloning=0.5, uniform=2.5).share == 1.0
    assert Distances(probe=1.0, cloning=0.5, uniform=2.5).share == 0.25


def test_the_probe_ends_where_the_bonus_is_lowest_and_cloning_where_the_data_is():
    seen: list[int] = []
    centre = np.array([0.25, 3.0])
    probed = probe.probe(bowl(centre), DATASET, 1_200, 0, seen.append)
    cloned = probe.clone(DATASET, 1_200, 0, lambda step: None)
    observation = np.asarray(DATASET.transitions.observation)
    np.testing.assert_allclose(np.asarray(act(probed, observation)).mean(axis=0), centre, atol=0.1)
    np.testing.assert_allclose(act(cloned, observation), linear_policy(observation), atol=0.25)
    assert seen == [500, 1_000, 1_200]
    found = distances(probed, cloned, DATASET, 0)
    # (0.1 + 0.5 s_1 - 0.25)^2 + (2 - s_2 - 3)^2 with s uniform in [-1, 1]: 0.0225 + 0.25/3 + 1 + 1/3 = 1.439.
    assert found.probe == pytest.approx(1.439, abs=0.15)
    assert found.cloning < 0.02
    # Uniform in [-1, 1] x [0, 4]: variance 1/3 + 4/3, from a mean of (0.1, 2): 0.01, from a spread of 1/12 + 1/3.
    assert found.uniform == pytest.approx(1 / 3 + 4 / 3 + 0.01 + 1 / 12 + 1 / 3, abs=0.2)


def test_a_probe_depends_on_its_seed_only():
    first, again, other = (probe.probe(bowl(np.array([0.0, 1.0])), DATASET, 20, seed, lambda step: None) for seed in (0, 0, 1))
    jax.tree.map(np.testing.assert_array_equal, first, again)
    assert not np.array_equal(first.network.weights[0], other.network.weights[0])

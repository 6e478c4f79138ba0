"""The measurements measure what they say. No number here depends on how fast the machine is."""

from __future__ import annotations

import numpy as np
import pytest

from tether.benchmark import speed


@pytest.fixture(autouse=True)
def small_product(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(speed, "PRODUCT_SIZE", 64)


def test_a_measurement_is_consistent_in_itself():
    calls: list[float] = []
    measured = speed._measure("sums", lambda: calls.append(sum(range(10_000))), 4, 2e6, repetitions=3, rows=50)
    assert len(calls) == 4  # the first one would hold the compilation
    assert (measured.name, measured.rows, measured.gflop_per_step) == ("sums", 50, 0.002)
    assert len(measured.all_steps_per_second) == 3
    assert measured.steps_per_second == max(measured.all_steps_per_second) > 0
    assert measured.gflop_per_second == pytest.approx(0.002 * measured.steps_per_second)
    assert measured.share_of_limit == pytest.approx(measured.gflop_per_second / measured.limit_gflop_per_second)
    assert measured.compile_seconds >= 0


def test_rows_are_those_of_the_paper_and_all_different():
    rows = speed.random_transitions(20)
    assert rows.observation.shape == rows.next_observation.shape == (20, 17)
    assert rows.action.shape == (20, 6)
    assert np.abs(rows.action).max() <= 1.0
    assert 0.0 <= rows.reward.min() < rows.reward.max() <= 1.0
    assert len(np.unique(np.asarray(rows.observation), axis=0)) == 20


def test_the_surroundings_are_named():
    assert {"device", "platform", "devices", "versions"} == speed.surroundings().keys()
    assert speed.peak_memory_bytes() > 2**20
    assert speed.product_limit(1) > 0

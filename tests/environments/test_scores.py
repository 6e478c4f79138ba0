"""Normalised scores by environment id."""

from __future__ import annotations

import numpy as np

from tether.environments.scores import normalised_score


def test_hopper_has_one_reference_for_both_versions():
    for env_id in ("Hopper-v4", "Hopper-v5"):
        np.testing.assert_allclose(normalised_score(np.array([-20.272305, 3234.3]), env_id), [0.0, 100.0])


def test_pen_differs_from_hopper():
    np.testing.assert_allclose(normalised_score(np.array([96.262799, 3076.8331017826877]), "AdroitHandPen-v1"), [0.0, 100.0])


def test_an_id_that_only_begins_like_a_task_has_no_reference():
    for env_id in ("door-v0", "door-open-v3", "hammer-v3", "hopper_envs:MyDoor-v0"):
        assert normalised_score(np.array([100.0, 200.0]), env_id) is None


def test_no_reference():
    assert normalised_score(np.array([1.0]), "InvertedDoublePendulum-v5") is None
    assert normalised_score(np.array([1.0]), None) is None

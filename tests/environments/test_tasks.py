"""The table of tasks: what finds them, and SPEC's numbers."""

from __future__ import annotations

import numpy as np
import pytest

from tether.environments.tasks import TASKS, find_task


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("hopper", "hopper"),
        ("Hopper-v4", "hopper"),
        ("Hopper-v5", "hopper"),
        ("hopper_medium_replay-v1", "hopper"),
        ("walker2d-medium-expert", "walker2d"),
        ("HalfCheetah-v4", "halfcheetah"),
        ("AdroitHandPen-v1", "pen"),
        ("pen-human-v1", "pen"),
        ("relocate-v0_demos_clipped", "relocate"),
    ],
)
def test_found(name, task):
    assert find_task(name) is TASKS[task]


@pytest.mark.parametrize("name", [None, "", "InvertedDoublePendulum-v5", "Hopper-v3", "pendulum", "antmaze-umaze-v0"])
def test_not_found(name):
    assert find_task(name) is None


def test_horizons():
    assert {name: task.horizon for name, task in TASKS.items()} == {
        "halfcheetah": 1000,
        "walker2d": 1000,
        "hopper": 1000,
        "pen": 100,
        "hammer": 200,
        "door": 200,
        "relocate": 200,
    }


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_references_are_0_and_100(task):
    middle = (task.score_0 + task.score_100) / 2
    np.testing.assert_allclose(task.normalised_score([task.score_0, middle, task.score_100]), [0, 50, 100], atol=1e-12)

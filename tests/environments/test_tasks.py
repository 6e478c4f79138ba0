"""The table of tasks: what finds them, and SPEC's numbers."""

from __future__ import annotations

import numpy as np
import pytest

from tether.environments.tasks import TASKS, find_task, task_of_dataset


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
def test_a_datasets_name_begins_with_its_task(name, task):
    assert task_of_dataset(name) is TASKS[task]


@pytest.mark.parametrize("name", ["", "InvertedDoublePendulum-v5", "Hopper-v3", "pendulum", "antmaze-umaze-v0"])
def test_a_dataset_of_no_task(name):
    assert task_of_dataset(name) is None


@pytest.mark.parametrize(
    ("env_id", "task"),
    [
        ("Hopper-v4", "hopper"),
        ("Hopper-v5", "hopper"),
        ("HalfCheetah-v4", "halfcheetah"),
        ("AdroitHandPen-v1", "pen"),
        ("hopper-medium-v2", "hopper"),  # D4RL's own ids
        ("walker2d-medium-replay-v0", "walker2d"),
        ("pen-human-v1", "pen"),
    ],
)
def test_an_environment_of_a_task(env_id, task):
    assert find_task(env_id) is TASKS[task]


@pytest.mark.parametrize(
    "env_id",
    [
        None,
        "",
        "InvertedDoublePendulum-v5",
        "Hopper-v3",
        "antmaze-umaze-v0",
        "door-v0",
        "door-open-v3",  # Meta-World's
        "hammer-v3",
        "hopper_envs:MyDoor-v0",
        "my_envs:door-v0",
        "my_envs/door-v0",
        "hopper-medium-v2-mine",
    ],
)
def test_an_environment_of_no_task_whatever_its_id_begins_with(env_id):
    assert find_task(env_id) is None


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

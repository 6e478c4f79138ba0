"""What is said of data and environment before a training begins."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from problems import as_dataset, constant_reward

from tether.data.dataset import LoadNotes
from tether.training.preparing import say_clipping, say_episodes


@pytest.mark.parametrize(("high", "told"), [(4.0, 0), (3.0, 1), (5.0, 0)])
def test_an_environment_that_allows_less_is_told_of(high: float, told: int):
    """The data's actions are within (-1, 1) and (0, 4)."""
    limits, said = (np.float32([-1.0, 0.0]), np.float32([1.0, high])), []
    checked: Any = SimpleNamespace(
        dataset=as_dataset(constant_reward()), env_id="Mine-v0", evaluator=SimpleNamespace(limits=limits)
    )
    say_clipping(checked, said.append)
    assert [line.startswith("warning: Mine-v0 takes actions of ") for line in said] == [True] * told


def test_guessed_episodes_and_clipped_actions_are_told():
    data, said = as_dataset(constant_reward(), episodes=8), []
    say_episodes(data, said.append)
    assert said == []
    notes = LoadNotes(episode_ends="inferred", action_entries_clipped=3)
    say_episodes(replace(data, notes=notes), said.append)
    length = data.size // 8
    assert said == [
        f"problem does not say where episodes end (timeouts); found are 8 of {length:,} to {length:,} rows",
        "3 action entries of problem were outside the bounds and are clipped to them",
    ]
    said.clear()
    say_episodes(replace(data, notes=notes, episode_ends=np.arange(1, data.size + 1)), said.append)
    assert said[1].startswith("warning: most of these episodes have one row: next_observations is hardly ever")

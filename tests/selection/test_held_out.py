"""Held-out episodes: who has seen them, and whether they are of the same columns."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from problems import named_log as log

import tether
from tether.data.transforms import concatenate, filter_by_return, split_episodes, subsample
from tether.errors import TetherError
from tether.selection.commands import _discount, _held_out


def told(held_out: tether.Dataset, learnt: tether.Dataset) -> list[str]:
    said: list[str] = []
    run: Any = SimpleNamespace(sha256=learnt.sha256)
    assert _held_out(held_out, learnt, [run], said.append) is held_out
    return said


def test_what_was_cut_from_the_log_is_told_however_many_steps_lie_between():
    whole = log()
    part = filter_by_return(subsample(whole, episodes=6), best_share=0.5)
    assert told(part, whole) == [
        "warning: arrays was cut from what the runs learnt from, so they have seen it, which flatters them"
    ]


@pytest.mark.parametrize("made", [lambda d, e: concatenate([d, e]), lambda d, e: filter_by_return(d, best_share=0.5)])
def test_what_the_log_was_made_of_is_told(made: Any):
    whole, other = log(0), log(1)
    assert told(whole, made(whole, other)) == [
        "warning: what the runs learnt from was made of arrays, so they have seen it, or part of it, which flatters them"
    ]


def test_the_halves_of_a_split_are_in_order():
    train, held_out = split_episodes(log(), 0.5, seed=0)
    assert told(held_out, train) == []


def test_columns_in_another_order_are_refused():
    with pytest.raises(TetherError, match="has other columns than"):
        told(log(1, ("speed", "heat")), log(0))


def run(agent: str, discount: float) -> Any:
    return SimpleNamespace(agent=agent, discount=discount)


def test_cloning_is_valued_as_the_others_are():
    assert _discount([run("bc", 0.99), run("tethered", 0.995)], None) == 0.995
    assert _discount([run("bc", 0.99)], None) == 0.99
    assert _discount([run("bc", 0.99), run("tethered", 0.995), run("td3", 0.99)], 0.9) == 0.9
    with pytest.raises(TetherError, match=r"the runs have discounts from 0\.99 to 0\.995; say by which to value all: --discount"):
        _discount([run("td3", 0.99), run("tethered", 0.995)], None)

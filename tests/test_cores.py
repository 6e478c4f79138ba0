"""Cores are claimed by one worker at a time, whichever sweep it belongs to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tether import cores
from tether.cores import claimed, unclaimed
from tether.sweep.workers import Processes, Slots


@pytest.fixture(autouse=True)
def four_cores(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Claims of this test alone: sweeps of others on this machine have theirs elsewhere."""
    monkeypatch.setattr(cores, "available_cores", lambda: [4, 5, 6, 7])
    monkeypatch.setattr(cores.tempfile, "gettempdir", lambda: str(tmp_path))


def test_a_core_is_claimed_once_while_there_are_others():
    with claimed(1) as first, claimed(2) as second, claimed(1) as third:
        assert (first, second, third) == ((4,), (5, 6), (7,))


def test_the_preferred_come_first_if_they_are_free():
    with claimed(1, [6]) as first, claimed(2, [6, 7]) as second:
        assert (first, second) == ((6,), (7, 4))


def test_where_too_few_are_free_some_are_shared_and_the_preferred_are_nearest():
    with claimed(3), claimed(2, [6, 7]) as shared, claimed(1, [5]) as own:
        assert (shared, own) == ((7, 6), (5,))


def test_a_sweep_says_that_another_has_its_cores_too():
    slots = Slots(3, 1, ((4,), (5,), (6,)))
    assert str(Processes(slots)) == "3 workers of 1 thread each"
    with claimed(1):  # three others are free
        assert unclaimed() == 3
        assert str(Processes(slots)) == "3 workers of 1 thread each"
    with claimed(2):
        assert (
            str(Processes(slots)) == "3 workers of 1 thread each; a sweep under way has 1 of the 3 cores too, so both are slower"
        )


def test_a_claim_ends_with_its_block():
    for _ in range(2):
        with claimed(4) as every:
            assert every == (4, 5, 6, 7)


def test_a_claim_ends_with_its_process(tmp_path: Path):
    code = f"""
import os, tempfile
from tether import cores
cores.available_cores, tempfile.tempdir = lambda: [4, 5, 6, 7], {str(tmp_path)!r}
with cores.claimed(1) as mine:
    print(mine, flush=True)
    input()
    os._exit(1)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "(4,)\n"
        with claimed(1) as beside:
            assert beside == (5,)
        other.communicate("\n")
    with claimed(1) as after:
        assert after == (4,)

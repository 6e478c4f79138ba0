"""Small actors for the lab: what it finds is the same, in a third of the time."""

from __future__ import annotations

from functools import partial

import pytest
from problems import small

from tether import BC, TD3
from tether.experiments import probe


@pytest.fixture(autouse=True)
def small_actors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "probe", partial(probe.probe, like=small(TD3)))
    monkeypatch.setattr(probe, "clone", partial(probe.clone, agent=small(BC)))

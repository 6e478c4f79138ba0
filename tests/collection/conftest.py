"""A training small enough for tests: networks of 16, blocks of 100 steps, the first of them uniform."""

from __future__ import annotations

import pytest

from tether import TD3
from tether.collection.online import OnlineSettings


@pytest.fixture(scope="session")
def tiny_online() -> OnlineSettings:
    agent = TD3(hidden_sizes=(16, 16), batch_size=8)
    return OnlineSettings("InvertedPendulum-v5", seed=3, warmup=100, evaluate_every=100, episodes=2, agent=agent)

"""Every test of the theory is in float64, and only those."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import pytest


@pytest.fixture(autouse=True, scope="module")
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield

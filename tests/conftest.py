"""Settings and fixtures for every test: strict JAX, the shared data where it is there, a cache of the test's own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("JAX_NUMPY_RANK_PROMOTION", "raise")
os.environ.setdefault("JAX_DEBUG_KEY_REUSE", "true")  # a key used twice is an error, where it can be seen


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The development data beside the repository. Users do not have it."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("needs ../shared/data, which is not part of the repository")
    return folder


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits go to a folder that all tests share and no user does, so that a fit is made once a session."""
    root = tmp_path_factory.getbasetemp() / "tether-cache"
    monkeypatch.setenv("TETHER_CACHE", str(root))

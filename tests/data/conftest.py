"""Small HDF5 files in the D4RL layout, written column by column."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

WriteHdf5 = Callable[..., Path]


@pytest.fixture
def write_hdf5(tmp_path: Path) -> WriteHdf5:
    """`write_hdf5(observations=[[0], [1]], rewards=[1, 2])`: six columns by default, each replaced, added or (None) left out."""

    def write(name: str = "log.hdf5", env_id: Any = None, **columns: Any) -> Path:
        path = tmp_path / name
        with h5py.File(path, "w") as file:
            for column, values in (_four_rows() | columns).items():
                if values is not None:
                    file[column] = values
            if env_id is not None:
                file.attrs["env_id"] = env_id
        return path

    return write


def _four_rows() -> dict[str, Any]:
    """Two episodes of two steps: the first terminates, the second times out."""
    return {
        "observations": np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], dtype=np.float32),
        "actions": np.array([[0.1], [0.2], [0.3], [0.4]], dtype=np.float32),
        "rewards": np.array([1.0, 2.0, 3.0, 4.0], dtype=np.float32),
        "next_observations": np.array([[0.0, 1.0], [0.0, 2.0], [1.0, 1.0], [1.0, 2.0]], dtype=np.float32),
        "terminals": np.array([False, True, False, False]),
        "timeouts": np.array([False, False, False, True]),
    }

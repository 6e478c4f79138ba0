"""A process that reads the files named on its input and says what came of each; it may crash, hang or run out of memory.

`python guarded_reader.py` prints one JSON object a line: `outcome` is "dataset", with a `digest` of all that was read, "refused",
with the `message` of a TetherError, or "wrong", with a `message`, for anything else; `memory` is its peak so far, in bytes.
"""

from __future__ import annotations

import hashlib
import json
import resource
import sys
import traceback
from pathlib import Path

import numpy as np

from tether.data import Dataset, load_dataset
from tether.data.info import describe
from tether.errors import TetherError


def read(path: str) -> dict[str, str]:
    try:
        dataset = load_dataset(path)
        check(dataset)
        describe(dataset)
    except TetherError as error:
        sound = str(error).isprintable() and len(str(error)) < 1_000
        return {"outcome": "refused" if sound else "wrong", "message": str(error)}
    except Exception:
        return {"outcome": "wrong", "message": traceback.format_exc()}
    return {"outcome": "dataset", "digest": digest(dataset)}


def peak_memory() -> int:
    """Bytes. The peak that getrusage gives is handed down from the process that started this one, which may have run for long."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def check(dataset: Dataset) -> None:
    """All that holds of any dataset, whatever file it came from."""
    rows, size = dataset.transitions, dataset.size
    assert size >= 1
    assert all(column.dtype == np.float32 and len(column) == size and np.isfinite(column).all() for column in rows)
    assert rows.observation.shape == rows.next_observation.shape == (size, dataset.spec.observation_size)
    assert rows.action.shape == (size, dataset.spec.action_size)
    low, high = np.float32(dataset.spec.action_low), np.float32(dataset.spec.action_high)
    assert (low < high).all()
    assert ((rows.action >= low) & (rows.action <= high)).all()
    assert set(np.unique(rows.terminated)) <= {0.0, 1.0}
    np.testing.assert_array_equal(np.flatnonzero(dataset.truncated | (rows.terminated > 0)), dataset.episode_ends - 1)
    assert not (dataset.truncated & (rows.terminated > 0)).any()
    assert dataset.episode_ends[-1] == size
    assert dataset.episode_returns.shape == dataset.episode_ends.shape
    assert np.isfinite(dataset.episode_returns).all()
    assert dataset.notes.rows_read == size + dataset.notes.rows_dropped
    json.dumps(dataset.provenance)


def digest(dataset: Dataset) -> str:
    content = hashlib.sha256()
    for column in (*dataset.transitions, dataset.truncated, dataset.episode_ends, dataset.episode_returns):
        content.update(repr(column.shape).encode() + np.ascontiguousarray(column).tobytes())
    content.update(repr((dataset.spec, dataset.env_id, dataset.provenance)).encode())
    return content.hexdigest()


if __name__ == "__main__":
    address_space = 4 * 2**30
    resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        answer: dict[str, str | int] = {**read(line.rstrip("\n"))}
        answer["memory"] = peak_memory()
        print(json.dumps(answer), flush=True)

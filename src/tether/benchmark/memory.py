"""Rows on disk against rows in memory: two processes that take turns, the one on disk with less memory than the rows take.

The limit is on the memory that the process itself asks for (RLIMIT_DATA): what it has when JAX is warm, and a share of the size
of the columns more. It does not limit the system's page cache, so the `cold` measurement drops the columns from that before
every epoch: all rows are then read from the disk each time, which is worse than any limit.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from tether.benchmark.speed import SPEC
from tether.data.dataset import Dataset
from tether.data.files.mapped import map_d4rl
from tether.errors import TetherError

EPISODE = 1_000  # rows
BLOCK = 100_000  # rows written at once
EPOCHS = 3  # timed in one turn, after one that is not: as each is trained on, the rows of the next are gathered
EPOCH_STEPS = 1_000
KINDS = ("memory", "disk", "cold")


@dataclass(frozen=True)
class Comparison:
    """Steps a second of every turn, by kind, and what the limited process had."""

    rows: int
    column_bytes: int
    steps_per_second: dict[str, list[float]]
    limited: dict[str, Any] = field(default_factory=dict)

    def ratio(self, kind: str) -> float:
        """The median turn over the median turn in memory."""
        return float(np.median(self.steps_per_second[kind]) / np.median(self.steps_per_second["memory"]))


def write_rows(path: Path, rows: int) -> Iterator[int]:
    """A D4RL file of random rows of walker2d's size, in blocks; gives the number of rows written so far."""
    random = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        widths = {"observations": SPEC.observation_size, "actions": SPEC.action_size, "next_observations": SPEC.observation_size}
        for name, width in widths.items():
            file.create_dataset(name, (rows, width), np.float32)
        for name, kind in (("rewards", np.float32), ("terminals", bool), ("timeouts", bool)):
            file.create_dataset(name, (rows,), kind)
        for start in range(0, rows, BLOCK):
            block = slice(start, min(start + BLOCK, rows))
            count = block.stop - start
            for name, width in widths.items():
                file[name][block] = np.clip(random.standard_normal((count, width), dtype=np.float32), -1, 1)
            file["terminals"][block] = np.zeros(count, dtype=bool)
            file["rewards"][block] = random.random(count, dtype=np.float32)
            file["timeouts"][block] = np.arange(start, block.stop) % EPISODE == EPISODE - 1
            yield block.stop


def compare(path: Path, rows: int, turns: int, share: float) -> Iterator[Comparison]:
    """Measure in turns; what is known so far after each. `share` of the columns' size is what the limited process may have."""
    rates: dict[str, list[float]] = {kind: [] for kind in KINDS}
    size = rows * 4 * (2 * SPEC.observation_size + SPEC.action_size + 2)
    with _worker(path, "memory", 0) as in_memory, _worker(path, "disk", round(share * size)) as on_disk:
        for _ in range(turns):
            rates["memory"].append(in_memory("measure")["rate"])
            rates["disk"].append(on_disk("measure")["rate"])
            rates["cold"].append(on_disk("cold")["rate"])
            yield Comparison(rows, size, rates, on_disk("about"))


@contextmanager
def _worker(path: Path, kind: str, extra: int) -> Iterator[Any]:
    """A process of its own that answers each word with one JSON object."""
    command = [sys.executable, "-m", "tether.benchmark.memory", str(path), kind, str(extra)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        answers = process.stdout

        def ask(word: str) -> dict[str, Any]:
            print(word, file=process.stdin, flush=True)
            answer = answers.readline()
            if not answer:
                raise TetherError(f"the process that measures rows {kind} ended with code {process.wait()}")
            return json.loads(answer)

        ask("ready")
        yield ask
        process.stdin.close()


def _serve(path: Path, kind: str, extra: int) -> None:
    """Answer one word a line on standard input, until it ends."""
    from tether.agents.td3 import TD3
    from tether.data.files.d4rl import read_d4rl
    from tether.training.lesson import Lesson

    dataset = read_d4rl(path) if kind == "memory" else map_d4rl(path)

    def lesson() -> Lesson:
        return Lesson(TD3(), dataset, None, seed=0, steps=2**31 - EPOCH_STEPS)

    kept = lesson() if kind == "memory" else None
    step, state = 0, lesson().fresh()

    def measure(epochs: int, cold: bool) -> float:
        nonlocal step, state
        current = kept or lesson()
        running, ends = current.epochs(state, step, EPOCH_STEPS), []
        for _ in range(1 + epochs):
            if cold:
                drop_from_cache(dataset)
            step, state, _ = next(running)
            ends.append(time.perf_counter())
        current.close()
        return epochs * EPOCH_STEPS / (ends[-1] - ends[0])

    measure(1, False)  # compiles
    about: dict[str, Any] = {"before_bytes": _status("VmData")}
    if extra:
        about["limit_bytes"] = about["before_bytes"] + extra
        resource.setrlimit(resource.RLIMIT_DATA, (about["limit_bytes"], about["limit_bytes"]))
        about["the_rows_in_memory"] = _try_in_memory(dataset)
    for line in sys.stdin:
        word = line.strip()
        answer: dict[str, Any] = {}
        if word in ("measure", "cold"):
            answer = {"rate": measure(EPOCHS, word == "cold")}
        elif word == "about":
            answer = about | {
                "now_bytes": _status("VmData"),
                "anonymous_bytes": _status("RssAnon"),
                "read_from_disk_bytes": _status("read_bytes", "io"),
            }
        print(json.dumps(answer), flush=True)


def drop_from_cache(dataset: Dataset) -> None:
    """Let the system forget the pages of columns on disk, so that they are read from the disk again."""
    import mmap

    for column in dataset.transitions:
        if isinstance(column, np.memmap):
            column._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]
            descriptor = os.open(str(column.filename), os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def _try_in_memory(dataset: Dataset) -> str:
    """What comes of holding all rows under the limit; `do not fit` shows that the limit is one."""
    try:
        held = [np.array(column) for column in dataset.transitions]
    except MemoryError:
        return "do not fit"
    return f"fit: {sum(column.nbytes for column in held):,} bytes"


def _status(name: str, page: str = "status") -> int:
    """Bytes, from what Linux says of this process."""
    for line in Path(f"/proc/self/{page}").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * (1024 if line.endswith("kB") else 1)
    raise TetherError(f"this system does not say {name}; rows on disk can be measured on Linux only")


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))

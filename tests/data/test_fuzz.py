"""Nothing breaks the reader: thousands of damaged files, each of which is a sound dataset or one error with a message.

Files are read in a process of its own with limits on time and memory, so that a crash of HDF5 itself is seen, and the file kept.
"""

from __future__ import annotations

import json
import random
import select
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from mutations import STRUCTURAL, with_changed_bytes

from tether.data import load_dataset
from tether.data.files.writing import save_dataset
from tether.data.transforms import subsample

SECONDS = 20.0  # for one file; an ordinary one of this size takes 0.01
MEMORY = 300e6  # bytes that reading may add to the process: the files have less than 1 MB
SMALL = ("hopper_medium", "hopper_random-v1", "hopper_medium_replay-v1")

# Structural changes after which a file reads as before, and those after which it is another sound dataset.
SAME = {"type float64", "type float128", "many attributes", "provenance that is empty"}
READ = SAME | {"type float16", "type int8", "type uint64", "type bool", "columns swapped: terminals, timeouts", "all terminal"}
READ |= {"provenance nested deeply", "provenance of no JSON"}


class GuardedReader:
    """Reads files in another process, which is started anew when it dies."""

    def __init__(self, kept: Path) -> None:
        self._kept = kept
        self._process: subprocess.Popen[str] | None = None

    def __call__(self, path: Path) -> dict[str, Any]:
        process = self._process = self._process or self._start()
        assert process.stdin
        assert process.stdout
        process.stdin.write(f"{path}\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], SECONDS)
        line = process.stdout.readline() if ready else ""
        if line:
            answer = json.loads(line)
            if answer["memory"] - self._memory > MEMORY:
                self.close()  # the peak never goes down: the next file gets a fresh process
                answer |= {"outcome": "wrong", "message": f"took {answer['memory'] - self._memory:,} bytes"}
        else:
            self.close()
            answer = {"outcome": "wrong", "message": f"ended with {process.returncode}" if ready else f"took {SECONDS} s"}
        if answer["outcome"] == "wrong":
            self._kept.mkdir(exist_ok=True)
            answer["kept"] = shutil.copy(path, self._kept / f"{len(list(self._kept.iterdir()))}-{path.name}")
        return answer

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _start(self) -> subprocess.Popen[str]:
        command = [sys.executable, str(Path(__file__).with_name("guarded_reader.py"))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._memory = 0
        self._memory = self(self.warm_up)["memory"] if self.warm_up else 0
        return self._process

    warm_up: Path | None = None  # a sound file, for what importing and a first reading take


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory, own_file: Path) -> Iterator[GuardedReader]:
    reader = GuardedReader(tmp_path_factory.mktemp("fuzz") / "kept")
    reader.warm_up = own_file
    yield reader
    reader.close()


@pytest.fixture(scope="module")
def own_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small file as Tether writes it."""
    path = tmp_path_factory.mktemp("own") / "own.hdf5"
    save_dataset(subsample(load_dataset("halfcheetah-mixed-tether"), transitions=40), path)
    return path


def damaged(path: Path, folder: Path, count: int, seed: int) -> Iterator[Path]:
    rng, content = random.Random(seed), path.read_bytes()
    for _ in range(count):
        changed = folder / path.name  # the name says which task it is
        changed.write_bytes(with_changed_bytes(content, rng))
        yield changed


def assert_sound(read: GuardedReader, path: Path, folder: Path, count: int, seed: int) -> Counter[str]:
    """Read damaged copies; how many were refused, read as the original is, and read as something else."""
    original, seen = read(path)["digest"], Counter[str]()
    for number, changed in enumerate(damaged(path, folder, count, seed)):
        answer = read(changed)
        assert answer["outcome"] != "wrong", (number, answer)
        same = answer.get("digest") == original
        seen["same" if same else "other" if answer["outcome"] == "dataset" else "refused"] += 1
    return seen


@pytest.mark.parametrize("name", SMALL)
def test_changed_bytes_of_real_files(shared_data, read, tmp_path, name):
    seen = assert_sound(read, shared_data / "d4rl_excerpts" / f"{name}.hdf5", tmp_path, count=120, seed=0)
    assert min(seen["refused"], seen["same"]) > 10  # or the changes are all too gross, or too fine


def test_changed_bytes_of_our_own_files_are_never_read_as_other_data(own_file, read, tmp_path):
    seen = assert_sound(read, own_file, tmp_path, count=200, seed=0)
    assert seen["other"] == 0
    assert min(seen["refused"], seen["same"]) > 10


@pytest.mark.parametrize("name", SMALL)
def test_other_contents_of_real_files(shared_data, read, tmp_path, name):
    """Each structural change is refused, or what it makes is a dataset all the same."""
    path = shared_data / "d4rl_excerpts" / f"{name}.hdf5"
    original = read(path)["digest"]
    for what, damage in STRUCTURAL.items():
        changed = tmp_path / path.name
        shutil.copy(path, changed)
        changed.chmod(0o644)
        with h5py.File(changed, "r+") as file:
            damage(file)
        answer = read(changed)
        assert answer["outcome"] == ("dataset" if what in READ else "refused"), (what, answer)
        assert (answer.get("digest") == original) == (what in SAME), (what, answer)


@pytest.mark.slow
def test_thousands_of_changed_files(shared_data, own_file, read, tmp_path):
    for seed, path in enumerate([*sorted((shared_data / "d4rl_excerpts").glob("*.hdf5")), own_file]):
        seen = assert_sound(read, path, tmp_path, count=1_000, seed=2_000 + seed)
        print(path.name, dict(seen))


@pytest.mark.slow
def test_every_byte_of_our_own_file(own_file, read, tmp_path):
    original, content = read(own_file)["digest"], own_file.read_bytes()
    rng = np.random.default_rng(0)
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1 << rng.integers(8)
        (tmp_path / own_file.name).write_bytes(changed)
        answer = read(tmp_path / own_file.name)
        assert answer["outcome"] == "refused" or answer.get("digest") == original, (place, answer)

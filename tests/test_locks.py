"""One process after the other, and nobody left waiting for the dead."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tether import storage
from tether.errors import TetherError
from tether.locks import is_held, one_at_a_time

COUNTING = """
import sys, time
from pathlib import Path
from tether.locks import one_at_a_time

counter = Path(sys.argv[2])
for _ in range(25):
    with one_at_a_time(Path(sys.argv[1])):
        number = int(counter.read_text())
        time.sleep(0.001)
        counter.write_text(str(number + 1))
"""


def test_nobody_is_let_in_beside_another(tmp_path: Path):
    counter = tmp_path / "counter"
    counter.write_text("0")
    arguments = [sys.executable, "-c", COUNTING, str(tmp_path / "lock"), str(counter)]
    surroundings = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    processes = [subprocess.Popen(arguments, env=surroundings) for _ in range(3)]
    assert [process.wait(timeout=60) for process in processes] == [0, 0, 0]
    assert counter.read_text() == "75"  # three times 25: no count was lost to another that read the same number
    assert not (tmp_path / "lock").exists()


def test_a_lock_that_cannot_be_written_is_an_error(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(TetherError, match=r"^cannot write .*file/lock: "), one_at_a_time(tmp_path / "file" / "lock"):
        pass


def test_a_folder_is_held_while_somebody_is_at_work_in_it(tmp_path: Path):
    assert not is_held(tmp_path / "nowhere")
    with storage.exclusive(tmp_path):
        assert is_held(tmp_path)
    assert not is_held(tmp_path)

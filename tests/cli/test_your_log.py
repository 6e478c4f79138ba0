"""docs/your-log.md, command by command: from a messy log to a policy in a control loop."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tether.cli import main
from tether.data import load_dataset

pytest.importorskip("pyarrow", reason="needs the extra tables")

ROOT = Path(__file__).resolve().parents[2]


def documented() -> list[list[str]]:
    """Every command of the page, in its order."""
    page = (ROOT / "docs" / "your-log.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    return [shlex.split(line) for block in blocks for line in block.replace("\\\n", " ").splitlines()]


def run_as_a_user(command: list[str]) -> str:
    """In a process without the tests' settings of JAX and XLA: unoptimised, the training would take half an hour."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XLA_", "JAX_"))}
    called = ["-m", *command] if command[0] == "tether" else [str(ROOT / command[1]), *command[2:]]
    done = subprocess.run([sys.executable, *called], env=kept, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_messy_log_is_imported_as_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    """Six runs of a shift, of 200 rows each. The third of the night goes through the hour that comes twice, as one episode."""
    monkeypatch.chdir(tmp_path)
    make, bring_in, *_ = documented()
    monkeypatch.setattr(sys, "argv", [*make[1:], "--runs", "6"])
    runpy.run_path(str(ROOT / make[1]), run_name="__main__")
    assert main(bring_in[1:]) == 0
    said = capsys.readouterr().out
    for text in ("encoded as utf-16", "10 incomplete rows dropped", "60 rows repeat another", "15 rows have the time of another"):
        assert text in said
    dataset = load_dataset("bench.hdf5")
    # 18 runs; in each shift a dropout of three rows cuts one; the cut last line of the night ends its run.
    assert len(dataset.episode_ends) == 18 + 3
    assert dataset.size == 18 * 200 - 10 - (18 + 3)
    without_zone = [word for word in bring_in[1:] if word not in ("--time-zone", "Europe/Berlin")]
    assert main([*without_zone, "--overwrite"]) == 2
    assert "bank_nacht.csv, row 501 (line 502): the time goes back by an hour" in capsys.readouterr().err


@pytest.mark.slow
def test_the_whole_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    *earlier, loop = [run_as_a_user(command) for command in documented()]
    said = "".join(earlier)
    assert "--bonus auto takes" in said
    assert "NO BONUS TELLS" not in said
    assert "without a simulator: " in said
    assert "Drehzahl [mrad/s] -> Moment [Nm]" in loop
    returned = float(re.search(r"^as it was logged: return (\S+) ±", loop, re.MULTILINE)[1])
    assert returned > -219.0  # the log's own
    usual, broken = (float(share) for share in re.findall(r"at most 0.05 in (\d+)%", loop))
    assert usual < 25.0 < broken  # in per cent of the steps
    assert (tmp_path / "loop.png").read_bytes().startswith(b"\x89PNG")

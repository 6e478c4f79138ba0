"""`tether data import`, as docs/data.md types it, on the log that the example makes."""

from __future__ import annotations

import contextlib
import io
import json
import re
import runpy
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

from tether.cli import main
from tether.data import load_dataset

pytest.importorskip("pyarrow", reason="needs the extra tables")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two shifts of six runs from examples/pendulum_log.py."""
    folder = tmp_path_factory.mktemp("logs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["pendulum_log.py", str(folder), "--shifts", "2", "--runs", "6"])
        runpy.run_path(str(ROOT / "examples" / "pendulum_log.py"), run_name="__main__")
    return folder


def documented() -> list[str]:
    """The arguments of the import that the page shows, for logs/ into bench.hdf5."""
    page = (ROOT / "docs" / "data.md").read_text()
    command = re.search(r"^tether (data import logs/ (?:.*\\\n)*.*)$", page, re.MULTILINE)
    assert command is not None
    return shlex.split(command.group(1).replace("\\\n", " "))


@pytest.fixture(scope="module")
def bench(logs: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder that the documented import was made in, and what it said. Once for all tests: it draws a page."""
    folder = tmp_path_factory.mktemp("bench")
    (folder / "logs").symlink_to(logs)
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(said):
        patch.chdir(folder)
        assert main(documented()) == 0
    return folder, said.getvalue()


def test_the_documented_import_works(bench: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, capsys):
    folder, shown = bench
    monkeypatch.chdir(folder)
    # In each shift: three rows of a sensor that dropped out, twenty rows written twice, a pause in one run.
    for text in ("6 incomplete rows dropped", "40 rows repeat", "2 gaps in time", "N m", "bench.report.md"):
        assert text in shown
    dataset = load_dataset("bench.hdf5")
    # Twelve runs of 200 rows, less six; in each shift the dropout and the pause cut one; each piece loses its last row.
    assert len(dataset.episode_ends) == 12 + 4
    assert dataset.size == 12 * 200 - 6 - 16
    assert (dataset.spec.action_low, dataset.env_id) == ((-2.0,), "Pendulum-v1")
    assert np.abs(dataset.transitions.action).max() <= 2.0
    assert (folder / "bench.report.png").read_bytes().startswith(b"\x89PNG")
    assert main(["data", "info", "bench.hdf5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["provenance"]["operation"] == "import"


def test_the_successors_are_what_the_pendulum_did(bench: tuple[Path, str]):
    """Every transition obeys Pendulum-v1's equations: no two rows stand beside each other that were not."""
    rows = load_dataset(bench[0] / "bench.hdf5").transitions
    angle, speed, torque = np.arctan2(rows.observation[:, 1], rows.observation[:, 0]), rows.observation[:, 2], rows.action[:, 0]
    expected = np.clip(speed + (15.0 * np.sin(angle) + 3.0 * torque) * 0.05, -8.0, 8.0)  # g = 10, m = l = 1, dt = 0.05
    np.testing.assert_allclose(rows.next_observation[:, 2], expected, atol=1e-4)


def test_a_policy_knows_its_columns_and_their_units(bench: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Trained on a part of an import, its actions are torques, and its file says which number of an observation is which."""
    import tether

    monkeypatch.chdir(tmp_path)
    assert main(["data", "filter", str(bench[0] / "bench.hdf5"), "--best-share", "0.5", "--out", "best.hdf5"]) == 0
    agent = tether.BC(hidden_sizes=(8, 8), batch_size=16)
    policy = tether.train(agent, tether.load_dataset("best.hdf5"), steps=2, epoch_steps=2)
    policy.save("policy.safetensors")
    policy = tether.load_policy("policy.safetensors")
    assert policy.about["columns"]["observation"] == ["arm_cos", "arm_sin", "arm_speed"]
    assert policy.about["columns"]["action"] == ["motor_torque"]
    assert (policy.spec.action_low, policy.spec.action_high) == ((-2.0,), (2.0,))


def test_a_refused_import_writes_nothing(logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").symlink_to(logs)
    arguments = [argument for argument in documented() if argument != "--drop-incomplete-rows"]
    assert main(arguments) == 2
    assert "shift_0.parquet, row 251: column 'arm_speed' is empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]


def test_nothing_is_replaced_unasked(logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").symlink_to(logs)
    (tmp_path / "bench.hdf5").write_text("mine")
    assert main(documented()) == 2
    assert "bench.hdf5 is there already" in capsys.readouterr().err
    assert (tmp_path / "bench.hdf5").read_text() == "mine"
    assert main([*documented(), "--overwrite"]) == 0
    assert main([*documented(), "--out", "bench.csv"]) == 2
    assert "must end in .hdf5" in capsys.readouterr().err


def test_without_the_library_it_says_what_to_install(logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").symlink_to(logs)
    assert main(documented()) == 2
    assert "pip install 'tether-rl[tables]'" in capsys.readouterr().err

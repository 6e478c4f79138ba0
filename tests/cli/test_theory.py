"""`tether theory`: a table, a JSON and three figures; anything violated is exit code 1, anything mistyped exit code 2."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest

from tether import cli
from tether.cli import theory
from tether.theory import statements, study
from tether.theory.statements import STATEMENTS, Statement

FILES = {"theory.json", "convergence.png", "offline.png", "gridworld.png"}
FAMILY = "garnets of 3 states, 3 actions"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of everything a little."""
    sizes = study.StudySizes(mdps=3, states=4, episodes=(1, 2), bonus_weights=(0.3, 1.0), middle_episodes=2)
    monkeypatch.setattr(study, "StudySizes", lambda: sizes)
    monkeypatch.setattr(study, "GRIDWORLD_DATASETS", 2)
    monkeypatch.setattr(theory, "MDPS", 3)
    monkeypatch.setattr(statements, "FAMILIES", {FAMILY: statements.FAMILIES[FAMILY]})


def written(folder: Path) -> dict[str, Any]:
    assert {path.name for path in folder.iterdir()} - {".lock"} == FILES
    for path in folder.glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG\r\n")
    return json.loads((folder / "theory.json").read_text())


@pytest.mark.slow
def test_one_statement_that_does_not_hold_fails_the_command(
    small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setitem(STATEMENTS, "same_q", Statement("Q' = Q + b", tolerance=-1.0))
    assert cli.main(["theory", "--out", str(tmp_path / "new"), "--markdown"]) == 1
    shown = capsys.readouterr()
    found = written(tmp_path / "new")
    assert [row["name"] for row in found["statements"]] == list(STATEMENTS)
    assert {row["mdps"] for row in found["statements"]} == {3}
    assert [row["name"] for row in found["statements"] if not row["holds"]] == ["same_q"]
    assert found["counts"][FAMILY]["decisions_compared"] == 3 * 3 * 200
    assert shown.out.startswith("| statement ")
    assert shown.out.count(" yes |\n") == len(STATEMENTS) - 1
    assert shown.out.count(" NO |\n") == 1
    assert "policies: 1,800 decisions compared, 0 differ" in shown.out
    assert "parts/s" in shown.err
    assert shown.err.splitlines()[-1].startswith("error: same_q is violated (Q' = Q + b): off by ")
    assert jnp.zeros(()).dtype == jnp.float32  # 64 bits have ended with the command


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seed", "-1"], "error: --seed is -1; it must be from 0 to 4294967295\n"),
        (["--seed", "4294967296"], "error: --seed is 4294967296; it must be from 0 to 4294967295\n"),
    ],
)
def test_a_seed_that_cannot_be_is_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]):
    assert cli.main(["theory", *arguments]) == 2
    assert capsys.readouterr() == ("", message)


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "file").write_text("")
    assert cli.main(["theory", "--out", str(tmp_path / "file")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: cannot write to {tmp_path / 'file'}")
    assert err.count("\n") == 1


@pytest.mark.slow
def test_the_whole_command_finds_what_is_committed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Rounding may differ between machines; what was found may not."""
    assert cli.main(["theory", "--out", str(tmp_path)]) == 0
    assert "statement" in capsys.readouterr().out
    committed = json.loads((Path(__file__).resolve().parents[2] / "results" / "theory" / "theory.json").read_text())
    found = written(tmp_path)
    assert [row["mdps"] for row in found["statements"]] == [row["mdps"] for row in committed["statements"]]
    for extrapolation, rows in committed["offline"]["by_extrapolation"].items():
        for row, other in zip(rows, found["offline"]["by_extrapolation"][extrapolation], strict=True):
            for method in row:
                assert other[method]["regret"]["mean"] == pytest.approx(row[method]["regret"]["mean"], abs=1e-6)

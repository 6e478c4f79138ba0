"""Runs without an environment have a table of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tether.cli import main
from tether.report.gathered import Group
from tether.report.unevaluated import unevaluated_lines
from tether.runs.reading import Run

BLIND = {"score": None, "score_by_policy": {}, "bonus": {"auroc": {"uniform": 0.75}}}


def test_what_is_known_stands_beside_the_runs_that_were_evaluated(
    make_run: Callable[..., Run], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    make_run("seen")
    run = make_run("plant", evaluations=[], result=BLIND, env_id=None)
    groups = {"plant": Group("plant", "mine", "td3", "cvae", (run, run))}
    assert unevaluated_lines(groups)[1] == ["plant (2 seeds)", "2,000", "-", "20", "0.2", "0.750"]
    assert main(["report", str(tmp_path), "--markdown"]) == 0
    shown = capsys.readouterr().out
    assert "not evaluated, for want of an environment" in shown
    assert shown.index("| plant") < shown.index("| seen")
    assert main(["report", str(run.path)]) == 0
    assert "0.750" in capsys.readouterr().out

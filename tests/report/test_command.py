"""Flags of `tether report` that do not go together are refused: none is passed over without a word."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from written import write_run

from tether import cli
from tether.report import curves
from tether.runs.reading import Run


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--statistics", "--curves", "c.png", "--tasks"], "leave --tasks, --curves out, or ask for them without it"),
        (["--statistics", "--policies"], "leave --policies out"),
        (["--intervals", "i.png", "--values", "v.png"], "--intervals compares methods over tasks and seeds by itself"),
        (["--policies", "--policy", "online"], "so --policy online would be ignored"),
        (["--html", "page.html", "--markdown"], "are each the whole answer"),
        (["--csv", "--markdown"], "are each the whole answer"),
        (["--score", "lsat"], "there is no score 'lsat'; there is: last, last_ten, best, lowest_of_five"),
        (["--tasks", "--score", "lsat"], "there is no score 'lsat'"),
        (["--score", "lowest_of_five"], "--score lowest_of_five would be ignored"),
        (["--tasks", "--score", "best"], "--score best would be ignored"),
        (["--csv", "--score", "best"], "--score best would be ignored"),
        (
            ["--html", "page.html", "--score", "lowest_of_five"],
            "there is no score 'lowest_of_five'; there is: last, last_ten, best",
        ),
    ],
)
def test_what_would_be_ignored_is_refused(
    flags: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "runs", "mine", "bc-none", 0, 1.0)
    assert cli.main(["report", "runs", *flags]) == 2
    out, said = capsys.readouterr()
    assert told in said
    assert out == ""
    assert [place.name for place in tmp_path.iterdir()] == ["runs"]


def test_the_picture_is_of_the_policy_of_the_table(
    make_run: Callable[..., Run], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    make_run("a", result={"dataset": {"name": "mine", "env_id": None}})
    drawn = []
    monkeypatch.setattr(curves, "save_figure", lambda figure, path: drawn.append(figure))
    assert cli.main(["report", str(tmp_path), "--policy", "target", "--curves", "c.png"]) == 0
    assert "c.png: 1 runs over training, scores of the policy target" in capsys.readouterr().out
    assert np.asarray(drawn[0].axes[0].lines[0].get_xydata()).tolist() == [[1000, 500], [2000, 650]]

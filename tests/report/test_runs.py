"""A run folder is read as it was written, finished or not, and anything else is refused by name."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tether.errors import TetherError
from tether.report.runs import Run, read_run
from tether.storage import write_json

MakeRun = Callable[..., Run]


def test_a_finished_run_has_its_records_by_kind(make_run: MakeRun):
    run = make_run()
    assert run.name == "hopper-s0"
    assert run.env_id == "Hopper-v4"
    assert run.config == {"agent": {"discount": 0.99}, "evaluation": {"policy": "online"}}
    assert run.fit == [{"fit_step": 1000, "bonus/loss": 0.7}]
    steps, losses = run.series("critic/loss")
    np.testing.assert_array_equal(steps, [1000, 2000])
    np.testing.assert_array_equal(losses, [0.5, 0.25])
    assert [len(column) for column in run.series("critic/lost")] == [0, 0]


def test_returns_are_of_the_policy_that_is_the_runs_own_or_named(make_run: MakeRun):
    steps, returns = make_run().returns()
    np.testing.assert_array_equal(steps, [1000, 2000])
    np.testing.assert_array_equal(returns, [[100, 300], [400, 800]])
    np.testing.assert_array_equal(make_run("other", result={"policy": "target"}).returns()[1], [[500, 500], [600, 700]])
    np.testing.assert_array_equal(make_run("third").returns("target")[1], [[500, 500], [600, 700]])
    with pytest.raises(TetherError, match=r"hopper-s0 has no policy targte; did you mean target\?"):
        make_run().returns("targte")


def test_scores_are_normalised_where_a_reference_is_known(make_run: MakeRun):
    scores = make_run(
        evaluations=[{"step": 5, "evaluation": {"online": {"returns": [-20.272305, 3234.3, 1607.0138475]}}}]
    ).scores()
    assert scores is not None
    np.testing.assert_allclose(scores[1], [[0.0, 100.0, 50.0]], atol=1e-9)
    assert make_run("unknown", env_id="Cheese-v0").scores() is None
    assert make_run("nameless", env_id=None).scores() is None


def test_an_unfinished_run_is_read_as_far_as_it_got(make_run: MakeRun):
    run = make_run(finished=False)
    assert run.result is None
    assert run.policy == "online"
    assert run.config == {"agent": {"discount": 0.99}, "evaluation": {"policy": "online"}}
    assert run.scores() is None
    np.testing.assert_array_equal(run.returns()[0], [1000, 2000])
    assert read_run(run.path, env_id="Hopper-v4").scores() is not None


def test_a_run_that_has_only_just_begun_is_empty(tmp_path: Path):
    write_json(tmp_path / "config.json", {})
    run = read_run(tmp_path)
    assert (run.training, run.evaluations, run.fit) == ([], [], [])
    assert run.returns()[1] == []


def test_a_result_alone_is_enough(make_run: MakeRun):
    path = make_run().path
    (path / "config.json").unlink()
    (path / "metrics.jsonl").unlink()
    assert read_run(path).config == {"agent": {"discount": 0.99}, "evaluation": {"policy": "online"}}


def test_what_is_not_a_run_is_refused_by_name(tmp_path: Path, make_run: MakeRun):
    with pytest.raises(TetherError, match=r"there is no run folder .*absent"):
        read_run(tmp_path / "absent")
    (tmp_path / "empty").mkdir()
    with pytest.raises(TetherError, match=r"empty is not a run folder: it has neither config\.json nor result\.json"):
        read_run(tmp_path / "empty")
    with pytest.raises(TetherError, match=r"newer/result\.json has format version 2, this Tether reads version 1"):
        make_run("newer", result={"format_version": 2})
    shutil.rmtree(tmp_path / "newer")
    write_json(tmp_path / "newer" / "result.json", {"score": 3})
    with pytest.raises(TetherError, match=r"newer/result\.json is not the result of a Tether run"):
        read_run(tmp_path / "newer")


def test_reports_import_no_agents_no_bonuses_and_no_jax():
    script = """
import sys
import tether.report.curves, tether.report.histograms, tether.report.progress, tether.report.runs, tether.report.tables
print([name for name in ("jax", "tether.agents", "tether.bonuses", "tether.training") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"

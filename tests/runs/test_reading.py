"""A run folder is read as it was written, finished or not, and anything else is refused by name."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tether.cli import main
from tether.errors import TetherError
from tether.runs.reading import Run, read_run
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


def test_a_run_until_a_step_is_what_it_was_then(make_run: MakeRun):
    run = make_run(env_id=None).within(until=1000)
    np.testing.assert_array_equal(run.series("critic/loss")[0], [1000])
    np.testing.assert_array_equal(run.returns()[1], [[100, 300]])
    assert run.result is not None
    once = {"mean": 200.0, "std": 100.0}
    assert run.result["score"] == {"last": once, "last_ten": once, "best": once | {"step": 1000}}
    assert run.result["score_by_policy"]["target"]["last"] == {"mean": 500.0, "std": 0.0}
    assert make_run("b", env_id=None).within(until=2000).result["score"]["last_ten"]["mean"] == 400.0
    normalised = make_run("c").within(until=1000).result["score"]["last"]["mean"]
    assert normalised == pytest.approx(100 * (200 + 20.272305) / (3234.3 + 20.272305))
    with pytest.raises(TetherError, match=r"no evaluation at step 1,500; it has 1,000, 2,000$"):
        make_run("d").within(until=1500)
    with pytest.raises(TetherError, match="no evaluation at step 5; it has none"):
        make_run("e", evaluations=[]).within(until=5)


def test_a_run_since_a_step_leaves_out_what_came_before(make_run: MakeRun):
    run = make_run(env_id=None).within(since=2000)
    assert run.result is not None
    np.testing.assert_array_equal(run.returns()[0], [2000])
    assert run.result["score"]["last_ten"]["mean"] == 600.0  # of 400 and 800; with step 1,000 it is 400
    assert run.result["score"]["best"] == {"mean": 600.0, "std": 200.0, "step": 2000}
    np.testing.assert_array_equal(run.series("critic/loss")[0], [1000, 2000])  # what it learnt by before is still told
    whole = make_run("whole", env_id=None)
    assert whole.within() is whole
    with pytest.raises(TetherError, match="no evaluation at step 1; it has 1,000, 2,000"):
        make_run("b").within(since=1)
    with pytest.raises(TetherError, match="since step 2,000 and until step 1,000; turn the two round"):
        make_run("c").within(since=2000, until=1000)


def test_the_command_compares_at_a_step_that_both_runs_have(make_run: MakeRun, tmp_path: Path, capsys):
    make_run("short/s0", evaluations=[{"step": 1000, "evaluation": {"online": {"returns": [1.0, 3.0]}}}], env_id=None)
    make_run("long/s0", env_id=None)
    assert main(["report", str(tmp_path), "--until", "1000"]) == 0
    shown = capsys.readouterr().out
    assert "2.0 ± 1.0 (step 1,000)" in shown
    assert "200.0 ± 100.0 (step 1,000)" in shown
    assert main(["report", str(tmp_path), "--until", "2000"]) == 2
    assert "short/s0 has no evaluation at step 2,000; it has 1,000" in capsys.readouterr().err.replace("\n", " ")


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
import tether.report.curves, tether.report.histograms, tether.progress, tether.runs.reading, tether.report.tables
print([name for name in ("jax", "tether.agents", "tether.bonuses", "tether.training") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"

"""`tether select` and `tether verdict`, as a user meets them."""

from __future__ import annotations

import json
import re
import shutil
from functools import partial
from pathlib import Path

import pytest

from tether.cli import main
from tether.selection.fqe import FittedQ

BEFORE = Path(__file__).parents[1] / "runs" / "written_before"
LOG = BEFORE / "pendulum.hdf5"


@pytest.fixture(scope="module")
def held_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("split")
    file = folder / "held-out.hdf5"
    assert (
        main(["data", "split", str(LOG), "--train", str(folder / "train.hdf5"), "--held-out", str(file), "--share", "0.3"]) == 0
    )
    return file


@pytest.fixture(autouse=True)
def small_networks(monkeypatch: pytest.MonkeyPatch):
    """Most of these tests' time would be compiling four critics of two layers."""
    monkeypatch.setattr("tether.selection.commands.FittedQ", partial(FittedQ, members=2, hidden_sizes=(8,), batch_size=32))
    monkeypatch.setattr("tether.selection.bench.CLONE_STEPS", 10)


QUICK = ["--log", str(LOG), "--steps", "20", "--bonus", "count"]


def test_runs_are_compared_and_none_is_chosen_that_is_not_better(held_out, tmp_path, capsys):
    runs, out = [str(BEFORE / "td3-cvae"), str(BEFORE / "bc")], tmp_path / "selection.json"
    assert main(["select", *runs, "--dataset", str(held_out), *QUICK, "--out", str(out)]) == 0
    told = capsys.readouterr()
    assert f"the baseline is {BEFORE / 'bc'}" in told.out
    assert re.search(r"│ 1 (td3|bc) +│", told.out)
    assert re.search(rf"^(use )?[12], {re.escape(str(BEFORE / 'td3-cvae'))}:?$", told.out, re.MULTILINE)
    assert "was cut from what the runs learnt from, so they have seen it" in told.out
    assert "evaluating" in told.err
    found = json.loads(out.read_text())
    assert {run["agent"] for run in found["runs"]} == {"td3", "bc"}
    assert [run["gain"] is None for run in found["runs"] if run["agent"] == "bc"] == [True]
    # What was measured is kept: the second time nothing is evaluated, and the numbers are the same.
    assert main(["select", *runs, "--dataset", str(held_out), *QUICK, "--json"]) == 0
    again = capsys.readouterr()
    assert "evaluating" not in again.err
    assert json.loads(again.out) == found


def test_a_verdict_is_in_words_and_in_the_run(held_out, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(BEFORE / "td3-cvae", run)
    assert main(["verdict", str(run), "--dataset", str(held_out), *QUICK]) == 0
    told = capsys.readouterr().out
    kept = json.loads((run / "verdict.json").read_text())
    assert f"without a simulator: {kept['advice']}" in told
    assert "against a clone of the log" in told
    assert kept["held_out"]["learnt_from"] is False
    assert kept["judge"]["name"] == "count"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["{td3}"],
            "no held-out episodes to compare on; give --dataset HELDOUT.hdf5. To have some, split the data before training",
        ),
        (["{td3}", "--dataset", "{held_out}"], "learnt from it, so give where it is: --log DATA"),
        (["{td3}", "--dataset", "{log}", "--log", "{log}"], "is what the runs learnt from; to compare them, hold episodes out"),
        (["{td3}", "{dqn}", "--dataset", "{held_out}"], "is of another task than"),
        (["{td3}", "--dataset", "{cartpole}", "--log", "{log}"], "cartpole is of another task than pendulum: it has 4 numbers"),
        (["{unfinished}", "--dataset", "{held_out}"], "is not finished; give the `tether train` command of it again"),
        (["{td3}", "--dataset", "{held_out}", "--baseline", "{bc}"], "is none of the runs to choose from"),
        (["{gone}", "--dataset", "{held_out}"], "there is no run folder"),
        (["{empty}", "--dataset", "{held_out}"], "there is no finished run in"),
        (["{td3}", "--dataset", "{held_out}", "--log", "{log}", "--bonus", "none"], "the bonus none is the same everywhere"),
        (["{td3}", "--dataset", "{held_out}", "--log", "{log}", "--steps", "0"], "--steps is 0; it must be at least 1"),
        (["{td3}", "--dataset", "{held_out}", "--log", "{log}", "--discount", "1"], "--discount is 1; it must be"),
    ],
)
def test_mistakes_are_named(arguments, message, held_out, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    places = {
        "td3": BEFORE / "td3-cvae",
        "bc": BEFORE / "bc",
        "dqn": BEFORE / "dqn-count-exact",
        "log": LOG,
        "held_out": held_out,
    }
    places |= {"cartpole": BEFORE / "cartpole.hdf5", "unfinished": BEFORE / "td3-cvae-interrupted", "gone": tmp_path / "gone"}
    places |= {"empty": tmp_path / "empty"}
    assert main(["select", *(part.format(**places) for part in arguments)]) == 2
    assert message in capsys.readouterr().err

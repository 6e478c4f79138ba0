"""What a plan's files tell of its runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from scripted import planned

from tether.storage import read_json, write_json
from tether.sweep.head import is_to_do
from tether.sweep.records import DIVERGED, FAILED, WAITING, Records, how_far, last_progress

FIT = "fitting the bonus: 3,000/100,000 steps  0:00:11  283 steps/s  0:05:43 left  kl 0.017  held-out 0.08\n"
TRAINING = "s32: 12,000/60,000 steps  0:05:38  20.8 steps/s  0:38:30 left  score -8.93  critic loss 2.38  Q 89.9\n"


@pytest.mark.parametrize(
    ("log", "told"),
    [
        ("", ""),
        ("rewards are left as they are\n", ""),
        ("s32: 0/60,000 steps  0:00:10\n", "step 0/60,000"),
        (FIT, "fitting the bonus 3,000/100,000, 0:05:43 left"),
        (FIT + TRAINING, "step 12,000/60,000, 0:38:30 left, score -8.93"),
        (TRAINING + "a warning: 3/4 of it\n", "step 12,000/60,000, 0:38:30 left, score -8.93"),
        (FIT + TRAINING[:40], "fitting the bonus 3,000/100,000, 0:05:43 left"),  # a line that is being written
    ],
)
def test_the_last_line_of_a_log_that_tells_how_far_a_run_is(tmp_path: Path, log: str, told: str):
    path = tmp_path / "s32.log"
    assert last_progress(path) == ""
    path.write_text(log)
    assert last_progress(path) == told


def test_what_an_earlier_sitting_said_is_left_out(tmp_path: Path):
    path = tmp_path / "s32.log"
    path.write_text(TRAINING)
    before = path.stat().st_size
    assert last_progress(path, before) == ""
    path.write_text(TRAINING + FIT)
    assert last_progress(path, before) == "fitting the bonus 3,000/100,000, 0:05:43 left"


@pytest.mark.parametrize(
    ("log", "told"),
    [
        ("", "step 13,000/60,000"),
        (FIT, "step 13,000/60,000"),  # the fit is over, and the log has no line of the training yet
        (FIT + TRAINING, "step 13,000/60,000, 0:38:30 left, score -8.93"),
    ],
)
def test_the_folder_of_a_run_knows_its_step_best(tmp_path: Path, log: str, told: str):
    (run,) = planned(tmp_path, "steps = 60_000\n")
    path = tmp_path / "s0.log"
    path.write_text(log)
    assert how_far(run, path) == (last_progress(path) or "reading, or waiting for a fit")
    run.folder.mkdir(parents=True)
    (run.folder / "metrics.jsonl").write_text('{"step": 13000, "critic/q": 1.0}\n')
    assert how_far(run, path) == told
    assert how_far(run, None) == "step 13,000/60,000"


def test_a_failure_of_other_settings_or_data_is_not_the_runs(tmp_path: Path):
    """Variant b diverged at a learning rate of 0.1: at 0.001 it has never run, so it is to be made."""
    plan = "[variants.b]\nagent.learning_rate_critic = {}\n"
    records = Records(tmp_path / "runs")
    (fast,) = planned(tmp_path, plan.format(0.1))
    (slow,) = planned(tmp_path, plan.format(0.001))
    assert fast.name == slow.name
    fast, slow = (replace(run, data=replace(run.data, sha256="a1")) for run in (fast, slow))
    records.fail(fast, DIVERGED, "critic/loss is nan", tmp_path / "log")

    assert (records.look(fast).state, records.look(fast).kind) == (FAILED, DIVERGED)
    assert not is_to_do(records.look(fast), retry=False)
    assert records.look(slow).state == WAITING
    assert is_to_do(records.look(slow), retry=False)
    assert records.look(replace(fast, data=replace(fast.data, sha256="b2"))).state == WAITING
    assert records.look(replace(fast, data=replace(fast.data, sha256=""))).state == FAILED  # the data is not here to be compared


def test_a_failure_from_before_records_had_settings_still_counts(tmp_path: Path):
    records = Records(tmp_path / "runs")
    (run,) = planned(tmp_path, "")
    write_json(records.failure(run), {"run": run.name, "kind": DIVERGED, "reason": "critic/loss is nan", "log": "log"})
    assert records.look(run).kind == DIVERGED


def test_a_failure_with_a_setting_that_is_no_more_is_of_other_settings(tmp_path: Path):
    records = Records(tmp_path / "runs")
    (run,) = planned(tmp_path, "")
    records.fail(run, DIVERGED, "critic/loss is nan", tmp_path / "log")
    record = read_json(records.failure(run))
    record["config"]["agent"]["of_the_future"] = 1
    write_json(records.failure(run), record)
    assert records.look(run).state == WAITING

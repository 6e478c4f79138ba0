"""A fit is made once, goes on where it stopped, and is judged by episodes it never saw."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pendulum import small_config
from problems import SPEC, as_dataset, two_blobs, with_one_setting_changed

from tether import CVAE, RND, storage
from tether.bonuses import NoBonus
from tether.data import Dataset, load_dataset
from tether.data.transforms import split_episodes
from tether.errors import TetherError
from tether.evaluation.discrimination import auroc_by_kind, bonus_by_kind, histogram_by_kind
from tether.locks import one_at_a_time
from tether.training.fit import PIECE, FitReport, FittedBonus, cache_folder, epoch_steps, fit_bonus, fit_name, steps_done

EPOCHS = [*range(300, 3001, 300)]  # tenths of a fit that is shorter than five thousand steps


@pytest.fixture(scope="module")
def dataset(pendulum_file: Path) -> Dataset:
    return load_dataset(pendulum_file)


@pytest.fixture(scope="module")
def bonus(pendulum_file: Path) -> CVAE:
    """Ten epochs of fit, being short: the bonus of every small run."""
    bonus = small_config(pendulum_file).bonus
    assert isinstance(bonus, CVAE)
    return bonus


@pytest.fixture(scope="module")
def unbroken(bonus: CVAE, dataset: Dataset) -> FittedBonus:
    return fit_bonus(bonus, dataset)


def bits(fitted: FittedBonus) -> dict[str, bytes]:
    return {name: tensor.tobytes() for name, tensor in storage.flatten_tree(fitted.state).items()}


def untimed(report: FitReport) -> FitReport:
    return replace(report, seconds=0.0)


# The fit


def test_a_fit_reports_each_of_its_epochs(unbroken: FittedBonus):
    report = unbroken.report
    assert report.steps == 3000
    assert [record["fit_step"] for record in report.history] == EPOCHS
    for record in report.history:
        assert set(record) == {"fit_step", "bonus/loss", "bonus/reconstruction", "bonus/kl", "bonus/held_out"}
    assert report.history[-1]["bonus/loss"] < report.history[0]["bonus/loss"]
    assert report.seconds > 0


def test_a_fit_is_judged_on_the_episodes_it_did_not_see(unbroken: FittedBonus, bonus: CVAE, dataset: Dataset):
    _, held_out = split_episodes(dataset, bonus.held_out_share, bonus.seed)
    found = bonus_by_kind(unbroken.novelty, held_out)
    assert unbroken.report.held_out_mean == float(np.mean(found["data"]))
    assert unbroken.report.auroc == auroc_by_kind(found)
    assert unbroken.report.summary()["histogram"] == histogram_by_kind(found)
    assert set(unbroken.report.auroc) == {
        "shuffled",
        "uniform",
        *(f"noise {level}" for level in ("0.05", "0.1", "0.25", "0.5", "1")),
    }


def test_a_fit_without_a_cache_writes_nothing(
    unbroken: FittedBonus, bonus: CVAE, dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TETHER_CACHE", str(tmp_path))
    assert bits(fit_bonus(bonus, dataset)) == bits(unbroken)
    assert list(tmp_path.iterdir()) == []


def test_a_bonus_with_nothing_to_fit_is_not_cached(dataset: Dataset, tmp_path: Path):
    fitted = fit_bonus(NoBonus(), dataset, tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert fitted.report == FitReport(0, 0.0)
    assert not fitted.report.looks_short
    np.testing.assert_array_equal(
        fitted.novelty(dataset.transitions.observation[:3], dataset.transitions.action[:3]), np.zeros(3)
    )


def test_a_fit_that_leaves_all_bounds_is_an_error_and_is_not_kept(bonus: CVAE, dataset: Dataset, tmp_path: Path):
    # The metrics of the one step are from before its update: only the weights show what it did.
    with pytest.raises(
        TetherError, match=r"the fit of the bonus left all bounds at step 1 \(.*; try a lower bonus.learning_rate$"
    ):
        fit_bonus(replace(bonus, steps=1, learning_rate=float("inf")), dataset, tmp_path)
    assert list(tmp_path.iterdir()) == []


# The cache


def test_the_same_fit_is_taken_from_the_cache(unbroken: FittedBonus, bonus: CVAE, dataset: Dataset, tmp_path: Path):
    first = fit_bonus(bonus, dataset, tmp_path)
    (place,) = tmp_path.iterdir()
    assert place.name == f"{fit_name(bonus, dataset)}.safetensors"
    written = place.stat().st_mtime_ns
    epochs: list[int] = []
    second = fit_bonus(bonus, dataset, tmp_path, lambda step, record: epochs.append(step))
    assert epochs == []
    assert place.stat().st_mtime_ns == written
    assert bits(second) == bits(first) == bits(unbroken)
    assert second.report == first.report
    assert untimed(first.report) == untimed(unbroken.report)


@pytest.mark.parametrize("stop", [300, 3000])
def test_an_interrupted_fit_goes_on_where_it_stopped(
    unbroken: FittedBonus, bonus: CVAE, dataset: Dataset, tmp_path: Path, stop: int
):
    def interrupt(step: int, record: dict[str, float]) -> None:
        if step == stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_bonus(bonus, dataset, tmp_path, interrupt)
    assert steps_done(bonus, dataset, tmp_path) == stop
    epochs: list[int] = []
    fitted = fit_bonus(bonus, dataset, tmp_path, lambda step, record: epochs.append(step))
    assert epochs == [step for step in EPOCHS if step > stop]
    assert bits(fitted) == bits(unbroken)
    assert untimed(fitted.report) == untimed(unbroken.report)
    assert [path.name for path in tmp_path.iterdir()] == [f"{fit_name(bonus, dataset)}.safetensors"]
    assert steps_done(bonus, dataset, tmp_path) == bonus.steps


def test_every_setting_of_the_bonus_makes_another_fit(bonus: CVAE, dataset: Dataset):
    names = [fit_name(other, dataset) for other in (bonus, NoBonus(), *with_one_setting_changed(bonus).values())]
    assert len({*names}) == len(names)
    assert all(name.startswith("cvae-") for name in names[:1] + names[2:])


def test_other_data_makes_another_fit(bonus: CVAE, dataset: Dataset):
    spec = dataset.spec
    others = [
        replace(dataset, sha256="0" * 64),
        replace(dataset, spec=replace(spec, action_high=(2.0,))),
        split_episodes(dataset, 0.5, seed=0)[0],
    ]
    rows = dataset.transitions
    others += [  # changed in a notebook: what the file was is not what they are
        replace(dataset, transitions=rows._replace(observation=rows.observation * 2)),
        replace(dataset, transitions=rows._replace(action=np.clip(rows.action, -0.5, 0.5))),
        replace(dataset, transitions=rows._replace(next_observation=rows.next_observation + 1)),
        replace(dataset, episode_returns=dataset.episode_returns[::-1] + 1),
    ]
    names = {fit_name(bonus, data) for data in (dataset, *others)}
    assert len(names) == 8


def test_a_name_depends_on_nothing_else(bonus: CVAE, dataset: Dataset):
    assert fit_name(bonus, dataset) == fit_name(bonus, replace(dataset, name="renamed", env_id=None))


def test_where_fits_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("TETHER_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path / "bonuses"
    monkeypatch.delenv("TETHER_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "tether" / "bonuses"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "tether" / "bonuses"


@pytest.mark.parametrize("suffix", [".safetensors", ".partial.safetensors"])
@pytest.mark.parametrize("content", ["cut", "foreign", "without report", "other shapes"])
def test_a_file_that_is_no_fit_says_what_to_delete(
    unbroken: FittedBonus, bonus: CVAE, dataset: Dataset, tmp_path: Path, suffix: str, content: str
):
    place = tmp_path / f"{fit_name(bonus, dataset)}{suffix}"
    report = {"report": json.dumps({"steps": 1000, "seconds": 1.0})}
    if content == "foreign":
        place.write_text("not tensors at all, and longer than eight bytes")
    elif content == "other shapes":
        storage.write_tensors(place, {"weights": np.zeros(3)}, report)
    else:
        storage.write_tensors(place, storage.flatten_tree(unbroken.state), {} if content == "without report" else report)
    if content == "cut":
        place.write_bytes(place.read_bytes()[:-10])
    before = place.read_bytes()
    with pytest.raises(TetherError, match=r"delete .* and the bonus is fitted anew$") as raised:
        fit_bonus(bonus, dataset, tmp_path)
    assert str(place) in str(raised.value)
    assert place.read_bytes() == before
    if suffix == ".partial.safetensors" and content != "other shapes":  # whose report is sound
        with pytest.raises(TetherError, match=r"delete .* and the bonus is fitted anew$"):
            steps_done(bonus, dataset, tmp_path)


# Scores


def test_scores_come_in_pieces_of_one_size(unbroken: FittedBonus, dataset: Dataset):
    rows = np.resize(np.arange(dataset.size), PIECE + 900)
    observation, action = dataset.transitions.observation[rows], dataset.transitions.action[rows]
    scores = unbroken.novelty(observation, action)
    assert scores.shape == (PIECE + 900,)
    assert (scores >= 0).all()
    np.testing.assert_array_equal(scores[:PIECE], unbroken.novelty(observation[:PIECE], action[:PIECE]))
    # The first rows come again at the start of the second piece, and meet other latents there.
    again = PIECE // dataset.size * dataset.size + dataset.size
    assert not np.array_equal(scores[again:], scores[: len(scores) - again])


def test_scores_depend_on_the_seed_alone(unbroken: FittedBonus, dataset: Dataset):
    pairs = dataset.transitions.observation[:10], dataset.transitions.action[:10]
    np.testing.assert_array_equal(unbroken.novelty(*pairs), unbroken.novelty(*pairs, seed=0))
    assert not np.array_equal(unbroken.novelty(*pairs), unbroken.novelty(*pairs, seed=1))


def test_no_pairs_have_no_scores(unbroken: FittedBonus):
    assert unbroken.novelty(np.zeros((0, 9)), np.zeros((0, 1))).shape == (0,)


def test_scoring_compiles_once_whatever_the_number_of_pairs(unbroken: FittedBonus):
    from tether.training import fit

    unbroken.novelty(np.zeros((1, 9)), np.zeros((1, 1)))
    before = fit._bonus_of_piece._cache_size()
    for rows in (2, 3, PIECE, PIECE + 1):
        unbroken.novelty(np.zeros((rows, 9)), np.zeros((rows, 1)))
    assert fit._bonus_of_piece._cache_size() == before


# When a fit looks too short


def history(*scores: float) -> FitReport:
    return FitReport(1000 * len(scores), 1.0, [{"fit_step": 0, "bonus/held_out": score} for score in scores])


@pytest.mark.parametrize(
    ("report", "short"),
    [
        (history(5, 4, 3, 2, 1), True),  # the last fifth is 1, the one before 2
        (history(9, 7, 5, 1, 1), False),
        (history(1, 1, 1, 1, 0.96), False),  # a gain of 4 %, and 5 % is the limit
        (history(1, 1, 1, 1, 0.94), True),
        (history(1, 1, 1, 1, 3), False),  # overfitting is something else
        (history(*[1.0] * 6, 1.2, 0.8, 0.7, 1.3), False),  # means of two: both are 1
        (history(*[1.0] * 8, 0.5, 0.5), True),
        (history(1, 1, 1, 1), True),  # less than five steps
        (FitReport(0, 0.0), False),
        (FitReport(50_000, 1.0, [{"fit_step": 1000, "bonus/loss": 1.0}] * 50), False),  # nothing was held out: nobody knows
    ],
)
def test_a_fit_looks_short_while_its_held_out_score_falls(report: FitReport, short: bool):
    assert report.looks_short is short


@pytest.mark.parametrize(
    ("steps", "every"), [(50_000, 1_000), (5_000, 1_000), (4_999, 500), (1_000, 100), (11, 2), (3, 1), (0, 1)]
)
def test_a_short_fit_is_looked_at_more_often(steps: int, every: int):
    assert epoch_steps(RND(steps=steps)) == every


@pytest.mark.slow
def test_how_often_it_is_looked_at_does_not_change_a_fit(monkeypatch: pytest.MonkeyPatch):
    bonus = RND(steps=100, predictor_sizes=(16,), target_sizes=(16,), batch_size=64)
    often = fit_bonus(bonus, as_dataset(two_blobs()))
    monkeypatch.setattr("tether.training.fit.epoch_steps", lambda bonus: 1_000)
    once = fit_bonus(bonus, as_dataset(two_blobs()))
    assert (len(often.report.history), len(once.report.history)) == (10, 1)
    assert bits(often) == bits(once)
    assert often.report.auroc == once.report.auroc


@pytest.mark.parametrize(("learning_rate", "short"), [(1e-6, False), (2e-4, True)])
def test_whether_a_short_fit_was_cut_short_is_measured(learning_rate: float, short: bool):
    """Of one that hardly learns the bonus falls by nothing, of the other by a good part each tenth of the fit."""
    bonus = RND(
        steps=100, predictor_sizes=(16,), target_sizes=(16,), batch_size=64, learning_rate=learning_rate, divide_by_std=False
    )
    report = fit_bonus(bonus, as_dataset(two_blobs())).report
    assert len(report.history) == 10
    assert report.looks_short is short


@pytest.mark.parametrize(
    ("auroc", "blind"),
    [
        ({"uniform": 0.54, "noise 1": 0.7}, True),  # a log of one torque, seen by the CVAE
        ({"uniform": 0.86, "shuffled": 0.5}, False),  # one action for all observations: shuffled ones are the same
        ({"uniform": 0.9, "other": 0.55}, True),  # choices
        ({}, False),  # not judged
    ],
)
def test_a_bonus_that_cannot_tell_actions_apart_is_blind(auroc: dict[str, float], blind: bool):
    assert FitReport(1000, 1.0, auroc=auroc).looks_blind is blind


def test_a_fit_says_what_it_is():
    fitted = FittedBonus(NoBonus(), None, SPEC, FitReport(0, 0.0))
    assert repr(fitted) == "NoBonus(), fitted in 0 steps"
    report = FitReport(1000, 1.0, [{"bonus/held_out": 1.0}], held_out_mean=0.25, auroc={"uniform": 0.55, "shuffled": 0.5})
    assert repr(replace(fitted, report=report)) == (
        "NoBonus(), fitted in 1,000 steps\n"
        "  on held-out pairs: mean 0.25; AUROC against uniform 0.550, shuffled 0.500\n"
        "  it was still getting better at its end\n"
        "  it is all but blind"
    )


# What the name of a fit knows of the code


def test_a_changed_bonus_is_fitted_anew(bonus: CVAE, dataset: Dataset, monkeypatch: pytest.MonkeyPatch):
    before = fit_name(bonus, dataset)
    monkeypatch.setattr("tether.training.fit.code_version", lambda kind: f"another {kind.__name__}")
    assert fit_name(bonus, dataset) != before


# Two who want the same fit


FITTING = """
import json, sys, time
from pathlib import Path
from pendulum import small_config
from tether.data import load_dataset
from tether.training.fit import fit_bonus

epochs, waits = [], []
def on_epoch(step, record):
    epochs.append(step)
    print("epoch", flush=True)
    time.sleep(float(sys.argv[3]))
def on_wait():
    if not waits:
        print("waiting", flush=True)
    waits.append(1)
fitted = fit_bonus(small_config(Path(sys.argv[1])).bonus, load_dataset(sys.argv[1]), Path(sys.argv[2]), on_epoch, on_wait)
print(json.dumps({"epochs": epochs, "waited": bool(waits), "mean": fitted.report.held_out_mean}), flush=True)
"""


@contextmanager
def start_fit(pendulum_file: Path, cache: Path, seconds_an_epoch: float) -> Iterator[subprocess.Popen[str]]:
    arguments = [sys.executable, "-c", FITTING, str(pendulum_file), str(cache), str(seconds_an_epoch)]
    surroundings = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=surroundings) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.slow  # that a run waits is in test_run.py
def test_one_fits_and_the_other_waits_and_reads_or_goes_on_if_the_first_dies(
    pendulum_file: Path, unbroken: FittedBonus, tmp_path: Path
):
    with start_fit(pendulum_file, tmp_path, 600.0) as doomed:
        assert doomed.stdout
        assert doomed.stdout.readline() == "epoch\n"  # one epoch is on disk, and it holds the lock
        with start_fit(pendulum_file, tmp_path, 0.3) as second, start_fit(pendulum_file, tmp_path, 0.3) as third:
            assert second.stdout
            assert third.stdout
            assert (second.stdout.readline(), third.stdout.readline()) == ("waiting\n", "waiting\n")
            doomed.kill()
            outputs = [process.communicate(timeout=120)[0] for process in (second, third)]
    found = sorted((json.loads(output.splitlines()[-1]) for output in outputs), key=lambda one: len(one["epochs"]))
    # One of the two went on from the first epoch, and the other made none.
    assert [one["epochs"] for one in found] == [[], EPOCHS[1:]]
    assert [one["waited"] for one in found] == [True, True]
    assert {one["mean"] for one in found} == {unbroken.report.held_out_mean}


def test_whoever_waits_for_a_fit_can_give_up(bonus: CVAE, dataset: Dataset, tmp_path: Path):
    def give_up() -> None:
        raise KeyboardInterrupt

    lock = (tmp_path / f"{fit_name(bonus, dataset)}.safetensors").with_suffix(".lock")
    with one_at_a_time(lock), pytest.raises(KeyboardInterrupt):
        fit_bonus(bonus, dataset, tmp_path, on_wait=give_up)
    assert list(tmp_path.iterdir()) == []

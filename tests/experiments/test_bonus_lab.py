"""The lab on a small dataset: what it asks of each bonus, what it leaves, and what it does not do twice."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from problems import ROWS, SPEC, as_dataset, transitions, two_blobs

from tether import CVAE, RND, Count
from tether.errors import TetherError
from tether.experiments.bonus_lab import Finding, parse_entries, run_lab, weight_ratios
from tether.report.slices import Slice
from tether.training.fit import fit_bonus
from tether.types import discrete_spec

DATASET = as_dataset(two_blobs())
TINY = "cvae:hidden_sizes=16x16:steps=200:learning_rate=3e-3,count:bits=10"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TETHER_CACHE", str(tmp_path / "cache"))


def test_a_list_of_bonuses_with_settings_of_their_own():
    entries = parse_entries("cvae, rnd:embedding_size=8:predictor_sizes=64x32x16, count", seed=3)
    assert [entry.label for entry in entries] == ["cvae", "rnd:embedding_size=8:predictor_sizes=64x32x16", "count"]
    assert [entry.bonus for entry in entries] == [
        CVAE(seed=3),
        RND(seed=3, embedding_size=8, predictor_sizes=(64, 32, 16)),
        Count(seed=3),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cave", "there is no bonus 'cave' for the lab; did you mean cvae?"),
        ("none", "there is no bonus 'none' for the lab"),
        ("cvae:elbow=sum", "no setting cvae.elbow; did you mean cvae.elbo?"),
        ("cvae:elbo=some", "cvae.elbo is 'some'; it takes mean or sum"),
        ("cvae:elbo", "write it as NAME=VALUE"),
        ("rnd,rnd", "a bonus is named twice"),
        ("rnd:predictor_sizes=64,64", "commas are between bonuses, so sizes are written 256x256"),
    ],
)
def test_a_list_that_cannot_be_read_is_one_message(text: str, message: str):
    with pytest.raises(TetherError) as raised:
        parse_entries(text, seed=0)
    assert message in str(raised.value)


def test_weights_are_compared_by_what_a_uniform_action_costs():
    """Gaps of 2, 0.5 and -1: the second needs four times the first's weights, the third has no weights that would do."""

    def finding(data: list[float], uniform: list[float]) -> Finding:
        scores = {"data": np.array(data), "uniform": np.array(uniform)}
        return Finding("any", {}, scores, Slice([], np.zeros(0), {}))

    findings = [finding([0.0, 2.0], [3.0, 3.0]), finding([0.25], [0.5, 1.0]), finding([1.0], [0.0])]
    assert weight_ratios(findings) == [1.0, 4.0, None]


def test_what_the_lab_finds_and_that_it_finds_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    said: list[str] = []
    cvae, count = run_lab(parse_entries(TINY, 0), DATASET, tmp_path / "lab", probe_steps=600, seed=0, say=said.append)
    assert said == [f"1 of 2: {cvae.label}", "2 of 2: count:bits=10"]

    uniform, near = (cvae.record["kinds"][kind] for kind in ("uniform", "noise 0.05"))
    assert uniform["auroc"] > 0.9 > near["auroc"]
    assert uniform["false_positives"] < near["false_positives"]
    assert "auroc" not in cvae.record["kinds"]["data"]
    assert cvae.record["kinds"]["data"]["q05"] <= cvae.record["kinds"]["data"]["q50"] <= cvae.record["kinds"]["data"]["q95"]
    assert cvae.record["probe"]["share"] < 0.2  # the bonus leads where the data is
    assert cvae.record["pairs_per_second"] > 0.0
    assert count.record["probe"] is None  # nothing to follow
    assert cvae.record["sampling"]["std_of_a_draw"] > 0.0 == count.record["sampling"]["std_of_a_draw"]
    assert count.record["sampling"]["auroc_noise_0.25_one_draw"] == count.record["sampling"]["auroc_noise_0.25_mean_of_draws"]
    assert list(cvae.slice.marks) == ["recorded action", "behaviour cloning", "probe: led by the bonus alone"]
    assert list(count.slice.marks) == ["recorded action", "behaviour cloning"]
    assert cvae.slice.bonus.shape == (41, 41)
    # Along axis 1 runs the first action in [-1, 1], along axis 0 the second in [0, 4]; low near what was recorded.
    second, first = np.unravel_index(cvae.slice.bonus.argmin(), cvae.slice.bonus.shape)
    recorded = cvae.slice.marks["recorded action"]
    assert abs(cvae.slice.axes[0][first] - recorded[0]) < 0.4
    assert abs(cvae.slice.axes[1][second] - recorded[1]) < 0.8

    monkeypatch.setattr("tether.experiments.bonus_lab.fit_bonus", lambda *_: pytest.fail("fitted again"))
    again = run_lab(parse_entries(TINY, 0), DATASET, tmp_path / "lab", probe_steps=600, seed=0, say=said.append)
    assert said[2:] == [f"1 of 2: {cvae.label} is done already", "2 of 2: count:bits=10 is done already"]
    assert [json.dumps(finding.record) for finding in again] == [json.dumps(cvae.record), json.dumps(count.record)]
    assert list(again[0].bonuses) == list(cvae.bonuses)
    np.testing.assert_array_equal(again[0].bonuses["data"], cvae.bonuses["data"])


@pytest.mark.slow
def test_a_lab_that_asks_for_something_else_starts_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    entries = parse_entries("count:bits=6", 0)
    run_lab(entries, DATASET, tmp_path, probe_steps=2, seed=0, say=lambda text: None)
    fits: list[int] = []

    def counted(*arguments):
        fits.append(1)
        return fit_bonus(*arguments)

    monkeypatch.setattr("tether.experiments.bonus_lab.fit_bonus", counted)
    run_lab(entries, DATASET, tmp_path, probe_steps=4, seed=0, say=lambda text: None)
    assert fits == [1]


@pytest.mark.slow
def test_choices_are_probed_by_the_lowest_bonus_and_shown_at_several_observations(tmp_path: Path):
    # Two observations only. At the one choice 0 was always taken, at the other choice 2; choice 1 never.
    side = np.arange(ROWS) % 2
    observation = np.repeat(2.0 * side[:, None] - 1.0, SPEC.observation_size, axis=1)
    rows = transitions(np.eye(3)[2 * side], 0.0, 0.0, observation)
    dataset = as_dataset(rows, spec=discrete_spec(SPEC.observation_size, 3))
    entries = parse_entries("count-exact", 0)
    (found,) = run_lab(entries, dataset, tmp_path, probe_steps=300, seed=0, say=lambda text: None)
    assert entries[0].bonus.held_out_share == 0.05  # what it is judged by it has not counted
    assert list(found.bonuses) == ["data", "shuffled", "uniform", "other"]
    assert found.record["kinds"]["other"] == found.record["kinds"]["other"] | {"auroc": 1.0, "false_positives": 0.0}
    assert found.record["sampling"]["auroc_other_one_draw"] == 1.0
    # One-hot rows that differ are at a squared distance of 2, and two in three uniform choices differ.
    assert (found.record["probe"]["probe"], found.record["probe"]["cloning"]) == (0.0, 0.0)
    assert found.record["probe"]["uniform"] == pytest.approx(4 / 3, abs=0.15)
    assert found.slice.discrete
    assert found.slice.bonus.shape == (12, 3)
    np.testing.assert_array_equal(found.slice.bonus.argmin(axis=1), found.slice.marks["recorded action"])
    (again,) = run_lab(entries, dataset, tmp_path, probe_steps=300, seed=0, say=lambda text: None)
    assert again.slice.discrete
    for label, chosen in found.slice.marks.items():
        np.testing.assert_array_equal(again.slice.marks[label], chosen)

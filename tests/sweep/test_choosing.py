"""The winner, from scores that are worked out by hand, and the final runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tether.errors import TetherError
from tether.sweep.choosing import final_runs, find_winners
from tether.sweep.expansion import Data, PlannedRun, expand
from tether.sweep.plan import Plan, read_plan
from tether.sweep.records import DIVERGED, DONE, FAILED, WAITING, Known

HOPPER = Data("hopper-medium-v2", "hopper-medium-v2", "Hopper-v4")
WALKER = Data("walker2d-medium-v2", "walker2d-medium-v2", "Walker2d-v4")
PEN = Data("pen-human-v1", "pen-human-v1", "AdroitHandPen-v1")

TEXT = """
preset = "paper"
datasets = ["hopper-medium-v2", "walker2d-medium-v2", "pen-human-v1"]
seeds = [0, 1]
[variants.low]
agent.bonus_weight_actor = 1
[variants.high]
agent.bonus_weight_actor = 10
[variants.cloning]
agent = "bc"
[choose]
by = "{by}"
per = "{per}"
[final]
seeds = [10, 11]
"""

# By dataset and variant, of seeds 0 and 1: the last score. That of the last ten is the same, turned round.
LAST = {
    ("hopper-medium-v2", "low"): (10.0, 30.0),  # mean 20
    ("hopper-medium-v2", "high"): (25.0, 25.0),  # mean 25
    ("walker2d-medium-v2", "low"): (60.0, 60.0),  # mean 60; locomotion: (20 + 60) / 2 = 40
    ("walker2d-medium-v2", "high"): (40.0, 50.0),  # mean 45; locomotion: (25 + 45) / 2 = 35
    ("pen-human-v1", "low"): (5.0, 5.0),  # all: (20 + 60 + 5) / 3 = 28.33
    ("pen-human-v1", "high"): (50.0, 52.0),  # all: (25 + 45 + 51) / 3 = 40.33
}


def plan_of(folder: Path, per: str, by: str = "last") -> tuple[Plan, list[PlannedRun]]:
    path = folder / "plan.toml"
    path.write_text(TEXT.format(per=per, by=by))
    plan = read_plan(path)
    return plan, expand(plan, (HOPPER, WALKER, PEN))


def scored(runs: list[PlannedRun]) -> dict[str, Known]:
    known = {}
    for run in runs:
        mean = 1.0 if run.agent == "bc" else LAST[run.data.name, run.variant][run.config.seed]
        score = {"last": {"mean": mean}, "last_ten": {"mean": -mean}}
        result = {
            "policy": "target",
            "score_unit": "normalised",
            "score_by_policy": {"target": score, "online": {"last": {"mean": 0.0}}},
        }
        known[run.name] = Known(DONE, result=result)
    return known


def winners(plan: Plan, runs: list[PlannedRun], known: dict[str, Known]) -> dict[str, str]:
    found = find_winners(plan, runs, known)
    assert found is not None
    return {winner.scope: winner.variant for winner in found if winner.method == "td3-cvae"}


def test_the_best_mean_of_seeds_wins_by_dataset_by_group_or_over_all(tmp_path: Path):
    plan, runs = plan_of(tmp_path, "dataset")
    assert winners(plan, runs, scored(runs)) == {HOPPER.name: "high", WALKER.name: "low", PEN.name: "high"}
    plan, runs = plan_of(tmp_path, "group")
    assert winners(plan, runs, scored(runs)) == {"locomotion": "low", "manipulation": "high"}
    found = find_winners(plan, runs, scored(runs)) or []
    assert found[0].scores == {"low": 40.0, "high": 35.0}
    assert found[0].episodes == 2 * 2 * 2 * 10  # datasets, variants and seeds, at ten episodes
    plan, runs = plan_of(tmp_path, "all")
    assert winners(plan, runs, scored(runs)) == {"all": "high"}
    plan, runs = plan_of(tmp_path, "all", "last_ten")
    assert winners(plan, runs, scored(runs)) == {"all": "low"}
    assert (find_winners(plan, runs, scored(runs)) or [])[0].episodes == 3 * 2 * 2 * 10 * 10  # ten evaluations of each


def test_nothing_is_chosen_before_every_run_has_ended(tmp_path: Path):
    plan, runs = plan_of(tmp_path, "group")
    known = scored(runs)
    for state in (Known(WAITING), Known(FAILED, reason="cannot write: No space left on device", kind="error")):
        known[runs[3].name] = state
        assert find_winners(plan, runs, known) is None


def test_a_variant_with_a_diverged_run_does_not_win_by_leaving_it_out(tmp_path: Path):
    plan, runs = plan_of(tmp_path, "dataset")
    known = scored(runs)
    bad = next(run for run in runs if (run.data, run.variant, run.config.seed) == (HOPPER, "high", 0))
    known[bad.name] = Known(FAILED, reason="critic/loss is nan", kind=DIVERGED)
    assert winners(plan, runs, known)[HOPPER.name] == "low"
    other = next(run for run in runs if (run.data, run.variant, run.config.seed) == (HOPPER, "low", 1))
    known[other.name] = Known(FAILED, reason="critic/loss is nan", kind=DIVERGED)
    found = find_winners(plan, runs, known) or []
    assert [winner.variant for winner in found if winner.scope == HOPPER.name] == [None, "cloning"]
    finals = final_runs(plan, (HOPPER, WALKER, PEN), found)
    assert {run.agent for run in finals if run.data is HOPPER} == {"bc"}


def test_final_runs_have_the_chosen_settings_and_fresh_seeds(tmp_path: Path):
    plan, runs = plan_of(tmp_path, "group")
    found = find_winners(plan, runs, scored(runs)) or []
    final = final_runs(plan, (HOPPER, WALKER, PEN), found)
    assert len(final) == 3 * 2 * 2  # datasets, methods (cloning has one variant, which needs no choice) and seeds
    assert {run.config.seed for run in final} == {10, 11}
    chosen = {(run.data.name, run.config.agent.bonus_weight_actor) for run in final if run.agent == "td3"}
    assert chosen == {(HOPPER.name, 1.0), (WALKER.name, 1.0), (PEN.name, 10.0)}
    assert final[0].folder == plan.out / "final" / HOPPER.name / "td3-cvae" / "low" / "s10"
    assert runs[0].folder == plan.out / "search" / HOPPER.name / "td3-cvae" / "low" / "s0"


def test_returns_and_normalised_scores_have_no_common_mean(tmp_path: Path):
    plan, runs = plan_of(tmp_path, "all")
    known = scored(runs)
    for run in runs:
        if run.data is PEN:
            known[run.name] = Known(DONE, result=(known[run.name].result or {}) | {"score_unit": "return"})
    with pytest.raises(TetherError, match=r'^all has normalised scores and returns, .*; choose.per = "dataset" would do$'):
        find_winners(plan, runs, known)

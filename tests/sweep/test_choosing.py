"""The winner, from scores that are worked out by hand, and the final runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tether import cli
from tether.errors import TetherError
from tether.sweep.account import winner_lines
from tether.sweep.choosing import check_comparable, final_runs, find_winners
from tether.sweep.expansion import Data, PlannedRun, expand
from tether.sweep.head import Sweep
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


def result_of(mean: float) -> dict[str, Any]:
    score = {"last": {"mean": mean}, "last_ten": {"mean": -mean}}
    by_policy = {"target": score, "online": {"last": {"mean": 0.0}}}
    return {"policy": "target", "score_unit": "normalised", "score_by_policy": by_policy}


def scored(runs: list[PlannedRun]) -> dict[str, Known]:
    known = {}
    for run in runs:
        mean = 1.0 if run.agent == "bc" else LAST[run.data.name, run.variant][run.config.seed]
        known[run.name] = Known(DONE, result=result_of(mean))
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


def test_a_lone_variant_all_of_whose_runs_diverged_has_no_final_runs(tmp_path: Path):
    plan, runs = plan_of(tmp_path, "dataset")
    known = scored(runs)
    mine = [run for run in runs if run.agent == "bc" and run.data is HOPPER]
    known[mine[0].name] = Known(FAILED, reason="critic/loss is nan", kind=DIVERGED)
    found = {winner.scope: winner for winner in find_winners(plan, runs, known) or [] if winner.method == "bc-none"}
    assert found[HOPPER.name].variant == "cloning"  # on the other seed it can be trained, and there is nothing else to choose
    known[mine[1].name] = Known(FAILED, reason="critic/loss is nan", kind=DIVERGED)
    winners = find_winners(plan, runs, known) or []
    found = {winner.scope: winner for winner in winners if winner.method == "bc-none"}
    assert (found[HOPPER.name].variant, found[WALKER.name].variant) == (None, "cloning")
    assert {run.agent for run in final_runs(plan, (HOPPER, WALKER, PEN), winners) if run.data is HOPPER} == {"td3"}
    (line,) = (line for line in winner_lines(Sweep(plan, (), runs, known, winners)) if "bc-none" in line)
    assert line == "chosen   bc-none on hopper-medium-v2: nothing, since every run of its only variant diverged"


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


# What competes must have been run on the same


def competing(folder: Path, choose: str, variants: str) -> tuple[Plan, list[PlannedRun]]:
    path = folder / "plan.toml"
    begin = f'preset = "paper"\ndatasets = ["{HOPPER.name}", "{WALKER.name}"]\nseeds = [0, 1]\n'
    path.write_text(f"{begin}{variants}[choose]\n{choose}")
    plan = read_plan(path)
    return plan, expand(plan, (HOPPER, WALKER))


ON_HOPPER_ALONE = f'[variants.a]\n[variants.b]\nagent.discount = 0.9\ndatasets = ["{HOPPER.name}"]\n'
ON_SEED_1_ALONE = "[variants.a]\n[variants.b]\nagent.discount = 0.9\nseeds = [1]\n"
ON_BOTH = f'[variants.a]\n[variants.b]\nagent.discount = 0.9\nseeds = [1]\ndatasets = ["{HOPPER.name}"]\n'
ON_OTHER_SEEDS = "[variants.a]\nseeds = [0]\n[variants.b]\nagent.discount = 0.9\nseeds = [1]\n"


@pytest.mark.parametrize(
    ("choose", "variants", "refused"),
    [
        (
            'per = "group"',
            ON_HOPPER_ALONE,
            'variant b has no run on walker2d-medium-v2, where a has; choose.per = "dataset" would do',
        ),
        (
            'per = "all"',
            f'[variants.a]\ndatasets = ["{HOPPER.name}"]\n[variants.z]\nagent.discount = 0.9\n',
            'variant a has no run on walker2d-medium-v2, where z has; choose.per = "dataset" would do',
        ),
        (
            'per = "dataset"',
            ON_SEED_1_ALONE,
            "variant b has no run on hopper-medium-v2 with seed 0, where a has; choose.seeds = [1] would do",
        ),
        (
            'per = "group"',
            ON_BOTH,
            "variant b has no run on hopper-medium-v2 with seed 0, where a has; "
            'choose.per = "dataset" and choose.seeds = [1] would do',
        ),
        (
            'per = "dataset"\nseeds = [0]',  # of which b has none
            ON_SEED_1_ALONE,
            "variant b has no run on hopper-medium-v2 with seed 0, where a has; choose.seeds = [1] would do",
        ),
        # Nothing would do but other seeds.
        ('per = "dataset"', ON_OTHER_SEEDS, "variant b has no run on hopper-medium-v2 with seed 0, where a has"),
        (
            "seeds = [0]",
            ON_SEED_1_ALONE.replace("[variants.b]", "seeds = [1]\n[variants.b]"),
            "variants a and b compete and have no run with a seed of choose.seeds; choose.seeds = [1] would do",
        ),
    ],
)
def test_variants_that_compete_on_other_data_or_seeds_are_refused(tmp_path: Path, choose: str, variants: str, refused: str):
    plan, runs = competing(tmp_path, choose, variants)
    with pytest.raises(TetherError, match=f"^{re.escape(f'{plan.path}: choose: {refused}')}$"):
        check_comparable(plan, runs)


def test_it_is_refused_before_any_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    plan, _ = competing(tmp_path, 'per = "group"', ON_HOPPER_ALONE)
    for command in (["sweep", str(plan.path), "--dry-run"], ["sweep", str(plan.path)]):
        assert cli.main(command) == 2
        assert "choose: variant b has no run on walker2d-medium-v2" in capsys.readouterr().err


def test_by_dataset_a_variant_competes_where_it_has_runs(tmp_path: Path):
    """The one that is missing on walker2d has the higher scores on hopper: it wins there, and there alone."""
    plan, runs = competing(tmp_path, 'per = "dataset"', ON_HOPPER_ALONE)
    check_comparable(plan, runs)
    known = {run.name: Known(DONE, result=result_of(20.0 if run.variant == "b" else 10.0)) for run in runs}
    found = find_winners(plan, runs, known) or []
    assert [(winner.scope, winner.variant, winner.scores) for winner in found] == [
        (HOPPER.name, "b", {"a": 10.0, "b": 20.0}),
        (WALKER.name, "a", {}),  # without rivals
    ]


def test_a_variant_without_rivals_is_on_whatever_data_and_seeds_it_likes(tmp_path: Path):
    plan, runs = competing(tmp_path, 'per = "all"', f'[variants.a]\n[variants.b]\nagent = "bc"\ndatasets = ["{HOPPER.name}"]\n')
    check_comparable(plan, runs)
    plan, runs = competing(tmp_path, 'seeds = [0]\nper = "all"', '[variants.a]\n[variants.b]\nagent = "bc"\nseeds = [1]\n')
    check_comparable(plan, runs)
    known = {run.name: Known(DONE, result=result_of(1.0)) for run in runs}
    found = find_winners(plan, runs, known) or []
    assert [(winner.method, winner.variant) for winner in found] == [("td3-cvae", "a"), ("bc-none", "b")]

"""Which variant wins, and the final runs that follow. Chosen by scores of the simulator, so what that cost is counted.

Variants compete where they have the same agent and bonus, and only on the same data and seeds: else the plan is refused.
A variant with a run that diverged does not win while another has none: leaving that run out would flatter it. Any other failure
has to be mended first: it says nothing of the variant.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tether.errors import TetherError, did_you_mean
from tether.runs import FINAL
from tether.sweep.expansion import Data, PlannedRun, make_run, methods
from tether.sweep.plan import Choice, Plan
from tether.sweep.records import DIVERGED, DONE, Known


@dataclass(frozen=True)
class Winner:
    """The choice for one method on some datasets."""

    method: str
    scope: str  # a dataset, a group or "all"
    datasets: tuple[str, ...]
    variant: str | None  # None: every variant has a run that diverged, or one that is alone nothing else
    scores: dict[str, float] = field(default_factory=dict)  # of every variant without such a run, in the plan's order
    episodes: int = 0  # that the choice has cost
    alone: bool = False  # without rivals


def in_words(choice: Choice) -> str:
    """`the last score of policy target of seeds 0, 1, 2`."""
    policy = f" of policy {choice.policy}" if choice.policy else ""
    return f"the {choice.by.replace('_', ' ')} score{policy} of seeds {', '.join(map(str, choice.seeds))}"


def scope_of(choice: Choice, data: Data) -> str:
    return {"dataset": data.name, "group": data.group, "all": "all"}[choice.per]


def check_comparable(plan: Plan, runs: Sequence[PlannedRun]) -> None:
    """Refuse a choice among variants that were not run on the same: easier data, or luckier seeds, would win."""
    choice = plan.choose
    unequal = _unequal(choice, runs) if choice else ""
    if choice is None or not unequal:
        return
    seeds = _common_seeds(choice, runs)
    changes: list[dict[str, Any]] = [{"per": "dataset"}]
    changes += [{"seeds": seeds}, {"per": "dataset", "seeds": seeds}] if seeds else []
    works = next((change for change in changes if not _unequal(replace(choice, **change), runs)), {})
    advice = " and ".join(f"choose.{key} = {json.dumps(value)}" for key, value in works.items())
    raise plan.refusal("choose", unequal + (f"; {advice} would do" if advice else ""))


def _unequal(choice: Choice, runs: Sequence[PlannedRun]) -> str:
    """What of the variants that compete makes them unequal; empty where each has a run wherever another has."""
    for group in _by_scope(choice, runs).values():
        variants = [*dict.fromkeys(run.variant for run in group)]
        compared = [run for run in group if run.config.seed in choice.seeds]
        if len(variants) > 1 and not compared:
            return f"variants {' and '.join(variants[:2])} compete and have no run with a seed of choose.seeds"
        places = {(run.variant, run.data.name, run.config.seed) for run in group}
        for run in compared:
            without = next((name for name in variants if (name, run.data.name, run.config.seed) not in places), None)
            if without is not None:
                elsewhere = any(name == without and data == run.data.name for name, data, _ in places)
                seed = f" with seed {run.config.seed}" if elsewhere else ""
                return f"variant {without} has no run on {run.data.name}{seed}, where {run.variant} has"
    return ""


def _common_seeds(choice: Choice, runs: Sequence[PlannedRun]) -> tuple[int, ...]:
    """Of all variants that compete with others; those that the choice names, if there are such."""
    of_each = []
    for group in _by_scope(choice, runs).values():
        by_variant: dict[str, set[int]] = {}
        for run in group:
            by_variant.setdefault(run.variant, set()).add(run.config.seed)
        of_each += [*by_variant.values()] if len(by_variant) > 1 else []
    common = set.intersection(*of_each)
    return tuple(sorted(common.intersection(choice.seeds) or common))


def _by_scope(choice: Choice, runs: Iterable[PlannedRun]) -> dict[tuple[str, str], list[PlannedRun]]:
    """The runs of each method in each scope: its variants are what is chosen among."""
    found: dict[tuple[str, str], list[PlannedRun]] = {}
    for run in runs:
        found.setdefault((run.method, scope_of(choice, run.data)), []).append(run)
    return found


def find_winners(plan: Plan, runs: Sequence[PlannedRun], known: dict[str, Known]) -> list[Winner] | None:
    """One for every method and scope; None while a run that is compared is neither done nor diverged."""
    choice = plan.choose
    if choice is None:
        raise TetherError(f'{plan.path} has no [choose]; by = "last" and per = "group" there would do')
    compared = {
        place: [run for run in group if run.config.seed in choice.seeds] or group  # one without rivals may have other seeds
        for place, group in _by_scope(choice, runs).items()
    }
    ended = {name for name, one in known.items() if one.state == DONE or one.kind == DIVERGED}
    if any(run.name not in ended for group in compared.values() for run in group):
        return None
    return [_winner(choice, method, scope, group, known) for (method, scope), group in compared.items()]


def _winner(choice: Choice, method: str, scope: str, runs: list[PlannedRun], known: dict[str, Known]) -> Winner:
    variants = list(dict.fromkeys(run.variant for run in runs))
    datasets = tuple(dict.fromkeys(run.data.name for run in runs))
    if len(variants) == 1:
        trained = any(known[run.name].state == DONE for run in runs)
        return Winner(method, scope, datasets, variants[0] if trained else None, alone=True)
    scores: dict[str, float] = {}
    for variant in variants:
        mine = [run for run in runs if run.variant == variant]
        if all(known[run.name].state == DONE for run in mine):
            by_data = [[score_of(choice, run, known) for run in mine if run.data.name == name] for name in datasets]
            scores[variant] = float(np.mean([np.mean(seeds) for seeds in by_data]))
    units = {(known[run.name].result or {}).get("score_unit") for run in runs if known[run.name].state == DONE}
    if len(datasets) > 1 and len(units) > 1:
        raise TetherError(
            f'{scope} has normalised scores and returns, which have no common mean; choose.per = "dataset" would do'
        )
    best = max(scores, key=lambda name: scores[name], default=None)
    return Winner(method, scope, datasets, best, scores, _episodes(choice, runs))


def score_of(choice: Choice, run: PlannedRun, known: dict[str, Known]) -> float:
    """What a finished run is compared by."""
    result = known[run.name].result or {}
    by_policy = result.get("score_by_policy") or {}
    policy = choice.policy or str(result.get("policy"))
    if not by_policy:
        raise TetherError(f"run {run.folder} was not evaluated, so nothing can be chosen by its score")
    if policy not in by_policy:
        raise TetherError(f"choose.policy is {policy!r}, which run {run.folder} has not{did_you_mean(policy, by_policy)}")
    return float(by_policy[policy][choice.by]["mean"])


def _episodes(choice: Choice, runs: list[PlannedRun]) -> int:
    """In the environment, of the evaluations that the choice looks at."""
    total = 0
    for run in runs:
        training = run.config.training
        evaluations = -(-training.steps // training.evaluate_every)
        total += run.config.evaluation.episodes * (1 if choice.by == "last" else min(10, evaluations))
    return total


def final_runs(plan: Plan, datasets: Iterable[Data], winners: list[Winner]) -> list[PlannedRun]:
    """The chosen settings on fresh seeds."""
    by_place = {(winner.method, name): winner.variant for winner in winners for name in winner.datasets}
    found = []
    for seed in plan.final_seeds:
        for data in datasets:
            for variant in plan.variants:
                for agent, bonus in methods(plan, variant):
                    if by_place.get((f"{agent}-{bonus}", data.name)) == variant.name:
                        found.append(make_run(plan, data, agent, bonus, variant, seed, plan.out / FINAL))
    return found


def number_of_final_runs(plan: Plan, runs: Sequence[PlannedRun]) -> int:
    """How many there will be, whatever is chosen."""
    return len({(run.method, run.data.name) for run in runs}) * len(plan.final_seeds)

"""measures.json from policies.json: rank correlation and regret of every measure, and the weights it would have chosen.

python results/selection/summary.py
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tether import storage
from tether.ranks import average_ranks, rank_correlation
from tether.report.tables import markdown_lines
from tether.selection.verdict import OUTSIDE

HERE = Path(__file__).parent
SOUND = 20.0  # a score below this is a policy that hardly works

Record = dict[str, Any]

# Each the higher the better; None where a policy has no such number.
MEASURES: dict[str, Callable[[Record], float | None]] = {
    "value (FQE), mean": lambda p: p["value"]["mean"],
    "value, lower bound": lambda p: p["value"]["low"],
    "gain over a clone, lower bound": lambda p: p["gain"]["low"],
    "value at all held-out observations": lambda p: p["value_at_rows"],
    "share outside the data": lambda p: -p["outside"],
    "bonus": lambda p: -p["novelty"],
    "distance": lambda p: -p["distance"],
    "TD error of its own critic": lambda p: None if p["td_error"] is None else -p["td_error"],
    "TD error of FQE": lambda p: -p["fqe_error"],
}


def main() -> None:
    found = storage.read_json(HERE / "policies.json")
    policies = found["policies"]
    tasks = list(dict.fromkeys(policy["task"] for policy in policies))
    groups = {task: [policy for policy in policies if policy["task"] == task] for task in tasks}
    for group in groups.values():
        ranks = sum(average_ranks(np.array([MEASURES[name](p) for p in group])) for name in ("value, lower bound", "distance"))
        for policy, rank in zip(group, ranks, strict=True):
            policy["combined"] = float(rank)
    measures = MEASURES | {
        "combined: ranks of lower bound and distance": lambda p: p["combined"],
        # What is advised against comes last, in the order of how far outside it is.
        "lower bound, of those within the data": lambda p: p["value"]["low"] if p["outside"] <= OUTSIDE else -1e6 * p["outside"],
    }
    rows = {name: {task: judged(group, of) for task, group in groups.items()} for name, of in measures.items()}
    sound = {
        name: {task: judged([p for p in group if p["score"] >= SOUND], of) for task, group in groups.items()}
        for name, of in measures.items()
    }
    weights = {task: weights_of(group) for task, group in groups.items()}
    chance = {}
    for task, group in groups.items():
        best = max(s(group))
        chance[task] = {"policies": len(group), "best": best, "regret_of_chance": best - float(np.mean(s(group)))}
    verdicts = {task: verdicts_of(group) for task, group in groups.items()}
    summary = {"tasks": chance, "measures": rows, "measures_among_sound": sound, "verdicts": verdicts, "weights": weights}
    storage.write_json(HERE / "measures.json", summary)
    for title, table in (("all policies", rows), (f"those that score {SOUND:g} or more", sound)):
        print(f"\n{title}\n" + markdown_lines(lines(table, tasks)))
    print("\nFQE against what was earned, discounted\n" + markdown_lines(accuracy(groups)))
    print(
        "\nchance: "
        + ", ".join(f"{task} {c['policies']} policies, regret {c['regret_of_chance']:.1f}" for task, c in chance.items())
    )
    print(
        "\nverdicts\n" + markdown_lines([["task", *ADVICE], *([task, *map(spell, v.values())] for task, v in verdicts.items())])
    )
    told = [["task, stage", "weight", "score", "value", "outside", "distance"]]
    for task, each in weights.items():
        for one in each:
            value = "{mean:.0f} [{low:.0f}, {high:.0f}]".format(**one["value"])
            numbers = [f"{one['weight']:g}", f"{one['score']:.1f}", value, f"{one['outside']:.2f}", f"{one['distance']:.2f}"]
            told.append([f"{task}, {one['stage']}", *numbers])
    print("\nweights\n" + markdown_lines(told))


ADVICE = ("do not use: outside", "do not use: worth less", "no better than a clone", "nothing against it")


def verdicts_of(group: list[Record]) -> dict[str, list[float]]:
    """The scores of policies by what `tether verdict` says of them."""
    found: dict[str, list[float]] = {name: [] for name in ADVICE}
    for policy in group:
        gain = policy["gain"]
        place = 0 if policy["outside"] > OUTSIDE else 1 if gain["high"] < 0.0 else 3 if gain["low"] > 0.0 else 2
        found[ADVICE[place]].append(policy["score"])
    return found


def spell(scores: list[float]) -> str:
    return f"{len(scores)}: {np.mean(scores):.0f} ({min(scores):.0f} to {max(scores):.0f})" if scores else "0"


def s(group: list[Record]) -> list[float]:
    return [policy["score"] for policy in group]


def judged(group: list[Record], of: Callable[[Record], float | None]) -> dict[str, float] | None:
    """Rank correlation with true scores, and by how much the best score is above that of the one it puts first."""
    known = [policy for policy in group if of(policy) is not None]
    values, scores = np.array([of(policy) for policy in known], float), np.array(s(known))
    if len(known) < 3 or np.ptp(values) == 0.0:
        return None
    return {
        "policies": len(known),
        "spearman": rank_correlation(values, scores),
        "regret": float(scores.max() - scores[np.argmax(values)]),
    }


def lines(table: dict[str, Any], tasks: list[str]) -> list[list[str]]:
    found = [["measure", *(f"{task}: {what}" for task in tasks for what in ("rho", "regret")), "mean rho", "mean regret"]]
    for name, row in table.items():
        cells, each = [], [row[task] for task in tasks]
        for one in each:
            cells += ["-", "-"] if one is None else [f"{one['spearman']:.2f}", f"{one['regret']:.1f}"]
        known = [one for one in each if one is not None]
        means = [f"{np.mean([one[what] for one in known]):.2f}" for what in ("spearman", "regret")] if known else ["-", "-"]
        found.append([name, *cells, *means])
    return found


def accuracy(groups: dict[str, list[Record]]) -> list[list[str]]:
    found = [["task", "policies", "rank correlation with discounted truth", "mean error", "within the interval"]]
    for task, group in groups.items():
        known = [policy for policy in group if policy["discounted"] is not None]
        truth, value = np.array([p["discounted"] for p in known]), np.array([p["value"]["mean"] for p in known])
        inside = np.mean([p["value"]["low"] <= p["discounted"] <= p["value"]["high"] for p in known])
        rho = rank_correlation(value, truth)
        found.append(
            [task, str(len(known)), f"{rho:.2f}", f"{np.mean(value - truth):+.1f} of {truth.mean():.0f}", f"{inside:.0%}"]
        )
    return found


def weights_of(group: list[Record]) -> list[Record]:
    """Runs that differ in the weight of the bonus in the actor alone: those of one stage of results/tether-preset."""
    found = []
    for policy in group:
        stage = next((part for part in policy["run"].split("/") if part in ("stage-1b", "stage-1e")), None)
        if stage is not None and policy["own"]:
            names = ("score", "score_error", "value", "gain", "outside", "distance")
            found.append({"stage": stage, "weight": policy["weight_actor"], **{name: policy[name] for name in names}})
    return sorted(found, key=lambda each: (each["stage"], each["weight"]))


if __name__ == "__main__":
    main()

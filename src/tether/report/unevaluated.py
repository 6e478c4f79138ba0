"""Runs that no environment has judged: what is known of them all the same."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tether.report.gathered import Group

METRICS = {"distance from the data": "actor/data_distance", "Q": "critic/q", "bonus": "actor/bonus"}


def not_evaluated(groups: Mapping[str, Group]) -> dict[str, Group]:
    """Those groups of runs of which none has a score."""
    return {label: group for label, group in groups.items() if all(run.result and not run.result["score"] for run in group.runs)}


def unevaluated_lines(groups: Mapping[str, Group]) -> list[list[str]]:
    """At the end of training, means over seeds: how far actions are from recorded ones, Q, the bonus, and what it can see."""
    lines = [["run", "steps", *METRICS, "AUROC of the bonus"]]
    for label, group in groups.items():
        runs = group.runs
        steps = {int(run.training[-1]["step"]) for run in runs if run.training}
        last = [[run.series(metric)[1][-1:] for run in runs] for metric in METRICS.values()]
        values = [np.concatenate(column) for column in last]
        aurocs = [(run.result or {}).get("bonus", {}).get("auroc", {}) for run in runs]
        seen = [auroc.get("other", auroc.get("uniform")) for auroc in aurocs]
        known = [value for value in seen if value is not None]
        lines.append(
            [
                f"{label}{group.seeds_note}",
                " and ".join(f"{step:,}" for step in sorted(steps)),
                *(f"{column.mean():.3g}" if column.size else "-" for column in values),
                f"{np.mean(known):.3f}" if known else "-",
            ]
        )
    return lines

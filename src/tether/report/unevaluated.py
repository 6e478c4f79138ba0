"""Runs that no environment has judged: what is known of them all the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tether.runs.reading import Run

METRICS = {"distance from the data": "actor/data_distance", "Q": "critic/q", "bonus": "actor/bonus"}


def not_evaluated(groups: Mapping[str, Sequence[Run]]) -> dict[str, list[Run]]:
    """Those groups of runs of which none has a score."""
    return {label: [*runs] for label, runs in groups.items() if all(run.result and not run.result["score"] for run in runs)}


def unevaluated_lines(groups: Mapping[str, Sequence[Run]]) -> list[list[str]]:
    """At the end of training, means over seeds: how far actions are from recorded ones, Q, the bonus, and what it can see."""
    lines = [["run", "steps", *METRICS, "AUROC of the bonus"]]
    for label, runs in groups.items():
        steps = {int(run.training[-1]["step"]) for run in runs if run.training}
        last = [[run.series(metric)[1][-1:] for run in runs] for metric in METRICS.values()]
        values = [np.concatenate(column) for column in last]
        aurocs = [(run.result or {}).get("bonus", {}).get("auroc", {}) for run in runs]
        seen = [auroc.get("other", auroc.get("uniform")) for auroc in aurocs]
        known = [value for value in seen if value is not None]
        lines.append(
            [
                label if len(runs) == 1 else f"{label} ({len(runs)} seeds)",
                " and ".join(f"{step:,}" for step in sorted(steps)),
                *(f"{column.mean():.3g}" if column.size else "-" for column in values),
                f"{np.mean(known):.3f}" if known else "-",
            ]
        )
    return lines

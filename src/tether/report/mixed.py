"""Whether runs that are averaged as seeds of one method are that: folders say so by their names, their settings may not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tether.report.gathered import Group
from tether.runs.reading import Run

TOLD = 3  # settings, and runs, that are named; of the others the number is
TRAINING = ("steps", "reward_penalty", "reward_scaling")  # what changes a run beside its agent and bonus
SHA = 12  # letters of a hash that are shown


def mixed_lines(groups: Sequence[Group]) -> list[str]:
    """`not seeds of one method: mix/s0 and mix/s1 differ in agent.name (td3, bc)`, and which runs have the same seed.

    Every run is compared with the first of its group. A setting that one of them does not have is no difference: it may be of
    another version.
    """
    return [line for group in groups for line in (*_others(group.runs), *_same_seed(group.runs))]


def _others(runs: Sequence[Run]) -> list[str]:
    first, *others = runs
    by_difference: dict[str, list[str]] = {}
    for run in others:
        difference = _difference(first, run)
        if difference:
            by_difference.setdefault(difference, []).append(run.path.as_posix())
    return [
        f"not seeds of one method: {first.path.as_posix()} and {_some(names)} differ in {difference}"
        for difference, names in by_difference.items()
    ]


def _same_seed(runs: Sequence[Run]) -> list[str]:
    by_seed: dict[Any, list[str]] = {}
    for run in runs:
        if "seed" in run.config:
            by_seed.setdefault(run.config["seed"], []).append(run.path.as_posix())
    return [
        f"the same seed {'twice' if len(names) == 2 else f'{len(names)} times'}: {' and '.join(names)} (seed {seed})"
        for seed, names in by_seed.items()
        if len(names) > 1
    ]


def _difference(one: Run, other: Run) -> str:
    """`agent.name (td3, bc), training.steps (1000, 2000)`. Of another agent the settings are its own, and not told."""
    mine, theirs = _settings(one), _settings(other)
    found = [name for name in mine if name in theirs and mine[name] != theirs[name]]
    renamed = tuple(f"{name.partition('.')[0]}." for name in found if name.endswith(".name"))
    told = [name for name in found if name.endswith(".name") or not name.startswith(renamed)]
    return _some([f"{name} ({mine[name]}, {theirs[name]})" for name in told])


def _settings(run: Run) -> dict[str, Any]:
    """Those that seeds of one method share, by dotted name."""
    found: dict[str, Any] = {}
    for section, name in zip(("agent", "bonus"), run.method, strict=True):
        content = run.config.get(section, {})
        # The name is that of a table: an agent that has learnt online is another.
        found |= _flat(content | ({"name": name} if "name" in content else {}), f"{section}.")
    found.pop("bonus.seed", None)  # the fit's own, which may follow the run's
    training = run.config.get("training", {})
    found |= {f"training.{name}": training[name] for name in TRAINING if name in training}
    sha256 = ((run.result or {}).get("dataset") or {}).get("sha256")
    return found | ({"the dataset's sha256": f"{sha256[:SHA]}…"} if sha256 else {})


def _flat(values: dict[str, Any], prefix: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return found


def _some(texts: Sequence[str]) -> str:
    more = [f"{len(texts) - TOLD} more"] if len(texts) > TOLD else []
    return ", ".join([*texts[:TOLD], *more])

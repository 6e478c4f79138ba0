"""The bonus lab: every bonus fitted to one dataset and asked the same questions (the paper's figures 2 and 3, and the probe).

Each bonus leaves one file, so that an interrupted lab goes on with the next one and a changed list of bonuses refits nothing.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tether import settings, storage
from tether.bonuses import BONUSES, NO_BONUS, Bonus
from tether.data.dataset import Dataset
from tether.data.transforms import split_episodes
from tether.errors import TetherError, did_you_mean
from tether.evaluation.discrimination import auroc, false_positives, pairs_by_kind
from tether.experiments import probe
from tether.policies import act
from tether.progress import progress
from tether.report.slices import Slice
from tether.training.code import code_version
from tether.training.fit import FittedBonus, cache_folder, fit_bonus, fit_name, steps_done
from tether.types import Spec

HELD_OUT_SHARE = 0.05  # of the episodes, from every bonus
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
SLICE_POINTS = 41
SLICE_ROWS = 12  # observations at which the bonus of every choice is shown
DRAWS = 16  # of a bonus that samples, as the CVAE does its latent
DRAWN_PAIRS = 2_000
RATE_ROWS = 100_000
MARKS = ("recorded action", "behaviour cloning", "probe: led by the bonus alone")

Say = Callable[[str], None]


@dataclass(frozen=True)
class Entry:
    """One bonus of the lab."""

    label: str  # as it was asked for: `cvae`, `cvae:elbo=sum`
    bonus: Bonus


@dataclass(frozen=True)
class Finding:
    """What the lab found out about one bonus."""

    label: str
    record: dict[str, Any]  # plain, as in bonus.json
    bonuses: dict[str, np.ndarray]  # by kind of action
    slice: Slice


def usual_entries(spec: Spec) -> str:
    """All bonuses; of vectors, which hardly ever repeat, without those that need repeats."""
    wanted = (name for name, kind in BONUSES.items() if name != NO_BONUS and (spec.discrete or not kind.traits.needs_repeats))
    return ",".join(wanted)


def parse_entries(text: str, seed: int) -> list[Entry]:
    """`cvae,rnd,cvae:elbo=sum`: names with commas between, each with its own settings after colons."""
    entries = []
    for label in text.split(","):
        name, *changes = label.strip().split(":")
        if name.isdigit():
            raise TetherError(f"--bonuses is {text!r}; commas are between bonuses, so sizes are written 256x256")
        if name not in BONUSES or name == NO_BONUS:
            known = [known for known in BONUSES if known != NO_BONUS]
            raise TetherError(f"there is no bonus {name!r} for the lab{did_you_mean(name, known)}")
        bonus = replace(BONUSES[name](), seed=seed)
        bonus = replace(
            bonus, held_out_share=bonus.held_out_share or HELD_OUT_SHARE
        )  # exact counts hold out nothing, and would know all
        for change in changes:
            setting, value = settings.parse(change)
            value = re.sub(r"(?<=\d)x(?=\d)", ",", value)  # sizes such as 256x256: commas are taken
            bonus = settings.changed(bonus, setting, value, name)
        entries.append(Entry(label.strip(), bonus))
    if len({entry.label for entry in entries}) < len(entries):
        raise TetherError(f"--bonuses is {text!r}; a bonus is named twice")
    return entries


def run_lab(entries: list[Entry], dataset: Dataset, folder: Path, probe_steps: int, seed: int, say: Say) -> list[Finding]:
    """Examine each bonus, or take what an earlier lab left in `folder`."""
    kept, held_out = split_episodes(dataset, HELD_OUT_SHARE, seed)
    findings = []
    cloned = None
    for number, entry in enumerate(entries, start=1):
        place = folder / "bonuses" / f"{entry.label.replace(':', '-').replace('=', '-')}.safetensors"
        identity = {"fit": fit_name(entry.bonus, dataset), "probe_steps": probe_steps, "seed": seed}
        identity["probe"] = code_version(probe.Probe)
        finding = _read(place, entry.label, identity)
        if finding is None:
            if cloned is None:
                with progress("cloning, for comparison", probe_steps) as bar:
                    cloned = probe.clone(kept, probe_steps, seed, bar.update)
            say(f"{number} of {len(entries)}: {entry.label}")
            finding = _examine(entry, dataset, kept, held_out, cloned, probe_steps, seed)
            _write(place, finding, identity)
        else:
            say(f"{number} of {len(entries)}: {entry.label} is done already")
        findings.append(finding)
    return findings


def weight_ratios(findings: list[Finding]) -> list[float | None]:
    """What to multiply the first bonus's weights by for each, so that a uniform action costs as much more than a recorded one.

    Bonuses have scales of their own, and the paper's weights are for the CVAE's. None where uniform actions cost no more.
    """
    gaps = [float(np.mean(finding.bonuses["uniform"]) - np.mean(finding.bonuses["data"])) for finding in findings]
    return [gaps[0] / gap if min(gaps[0], gap) > 0.0 else None for gap in gaps]


def _examine(
    entry: Entry, dataset: Dataset, kept: Dataset, held_out: Dataset, cloned: Any, probe_steps: int, seed: int
) -> Finding:
    start = steps_done(entry.bonus, dataset, cache_folder())
    with progress(f"fitting {entry.label}", max(entry.bonus.steps, 1), start=start) as bar:
        fitted = fit_bonus(entry.bonus, dataset, cache_folder(), lambda step, record: bar.update(step, **record))
    observation, actions = pairs_by_kind(held_out, seed)
    bonuses = {kind: fitted.novelty(observation, action, seed) for kind, action in actions.items()}
    probed = probe.led_by(fitted, kept, probe_steps, seed, f"probing {entry.label}")
    record = {
        "bonus": entry.label,
        "settings": settings.to_plain(entry.bonus),
        "kinds": {kind: _summary(bonuses["data"], values) for kind, values in bonuses.items()},
        "fit_seconds": fitted.report.seconds,
        "fit_looks_short": fitted.report.looks_short,
        "sampling": _sampling(fitted, observation, actions),
        "pairs_per_second": _scoring_rate(fitted, dataset),
        "probe": None,
    }
    if probed is not None:
        found = probe.distances(probed, cloned, held_out, seed)
        record["probe"] = asdict(found) | {"share": found.share}
    look = _choices if dataset.spec.discrete else _slice
    return Finding(entry.label, record, bonuses, look(fitted, held_out, probed, cloned, seed))


def _summary(data: np.ndarray, values: np.ndarray) -> dict[str, Any]:
    """Mean and quantiles, and how well the kind is told from the data."""
    found: dict[str, Any] = {"mean": float(np.mean(values))}
    found |= {f"q{100 * q:02.0f}": float(value) for q, value in zip(QUANTILES, np.quantile(values, QUANTILES), strict=True)}
    if values is not data:
        found |= {"auroc": auroc(data, values), "false_positives": false_positives(data, values)}
    return found


def _sampling(fitted: FittedBonus, observation: np.ndarray, actions: dict[str, np.ndarray]) -> dict[str, float]:
    """How much of a recorded pair's bonus is chance, and what averaging the chance away would do to the AUROC."""
    few = slice(0, DRAWN_PAIRS)

    def draws(kind: str) -> np.ndarray:
        return np.stack([fitted.novelty(observation[few], actions[kind][few], draw) for draw in range(DRAWS)]).astype(float)

    near = "noise 0.25" if "noise 0.25" in actions else "other"
    data, noisy = draws("data"), draws(near)
    return {
        "mean": float(data.mean()),
        "std_of_a_draw": float(data.std(axis=0).mean()),  # 0 for a bonus that does not sample
        "std_between_pairs": float(data.mean(axis=0).std()),
        f"auroc_{near.replace(' ', '_')}_one_draw": auroc(data[0], noisy[0]),
        f"auroc_{near.replace(' ', '_')}_mean_of_draws": auroc(data.mean(axis=0), noisy.mean(axis=0)),
    }


def _scoring_rate(fitted: FittedBonus, dataset: Dataset) -> float:
    """Pairs a second, of as many as the dataset has up to a limit. The first call has compiled already."""
    rows = slice(0, RATE_ROWS)
    observation, action = (np.asarray(column[rows]) for column in dataset.transitions[:2])
    began = time.perf_counter()
    fitted.novelty(observation, action)
    return len(observation) / (time.perf_counter() - began)


def _slice(fitted: FittedBonus, held_out: Dataset, probed: Any, cloned: Any, seed: int) -> Slice:
    """Around the recorded pair whose action is the most central of a few: at the bounds half the picture would be missing."""
    rows = np.random.default_rng(seed).permutation(held_out.size)[:200]
    low, high = np.asarray(held_out.spec.action_low), np.asarray(held_out.spec.action_high)
    actions = np.asarray(held_out.transitions.action)
    off_centre = np.abs((actions[rows, :2] - (low + high)[:2] / 2) / (high - low)[:2]).max(axis=1)
    row = rows[np.argmin(off_centre)]
    observation, recorded = np.asarray(held_out.transitions.observation)[row], actions[row]
    axes = [np.linspace(low[i], high[i], SLICE_POINTS) for i in range(min(2, len(low)))]
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*axes)], axis=1)
    pairs = np.tile(recorded, (len(grid), 1))
    pairs[:, : len(axes)] = grid
    observations = np.tile(observation, (len(grid), 1))
    draws = [fitted.novelty(observations, pairs, draw) for draw in range(DRAWS)]
    actors = zip(MARKS[1:], (cloned, probed), strict=True)
    led = {label: np.asarray(act(actor, observation[None, :]))[0] for label, actor in actors if actor is not None}
    marks = {MARKS[0]: recorded} | led
    return Slice(axes, np.mean(draws, axis=0).reshape((SLICE_POINTS,) * len(axes)), marks)


def _choices(fitted: FittedBonus, held_out: Dataset, probed: Any, cloned: Any, seed: int) -> Slice:
    """Every choice at a few recorded observations."""
    rows = np.random.default_rng(seed).permutation(held_out.size)[:SLICE_ROWS]
    number = held_out.spec.action_size
    observation = np.asarray(held_out.transitions.observation)[rows]
    every_choice = np.tile(np.eye(number, dtype=np.float32), (len(rows), 1))
    draws = [fitted.novelty(np.repeat(observation, number, axis=0), every_choice, draw) for draw in range(DRAWS)]
    taken = np.asarray(held_out.transitions.action)[rows], act(cloned, observation), act(probed, observation)
    marks = {label: np.argmax(np.asarray(actions), axis=1) for label, actions in zip(MARKS, taken, strict=True)}
    return Slice([np.arange(number), np.arange(len(rows))], np.mean(draws, axis=0).reshape(len(rows), number), marks, True)


def _write(place: Path, finding: Finding, identity: dict[str, Any]) -> None:
    tensors = {f"bonus/{kind}": values for kind, values in finding.bonuses.items()}
    tensors |= {f"axis/{number}": axis for number, axis in enumerate(finding.slice.axes)}
    tensors |= {"slice": finding.slice.bonus} | {f"mark/{label}": action for label, action in finding.slice.marks.items()}
    storage.write_tensors(
        place,
        tensors,
        {"record": json.dumps(finding.record), "discrete": json.dumps(finding.slice.discrete), "identity": json.dumps(identity)},
    )


def _read(place: Path, label: str, identity: dict[str, Any]) -> Finding | None:
    """What an earlier lab found, if it asked the same."""
    if not place.exists():
        return None
    tensors, metadata = storage.read_tensors(place)
    if metadata.get("identity") != json.dumps(identity):
        return None
    record = json.loads(metadata["record"])
    bonuses = {kind: tensors[f"bonus/{kind}"] for kind in record["kinds"]}
    axes = [tensors[name] for name in sorted(tensors) if name.startswith("axis/")]
    marks = {label: tensors[f"mark/{label}"] for label in MARKS if f"mark/{label}" in tensors}
    return Finding(label, record, bonuses, Slice(axes, tensors["slice"], marks, json.loads(metadata.get("discrete", "false"))))

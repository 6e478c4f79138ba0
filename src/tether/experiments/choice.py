"""`--bonus auto`: short fits of all bonuses that an agent can take, the lab's questions, and the one to train with.

AUROC alone does not tell which bonus holds an agent; where an actor goes that follows the bonus alone tells it better
(docs/bonuses.md). So: the agent's usual bonus, unless it is blind here or another leads an actor clearly nearer to the data.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np

from tether import storage
from tether.agents import AGENTS
from tether.bonuses import BONUSES, NO_BONUS, Bonus
from tether.config import make_config
from tether.data.dataset import Dataset
from tether.data.transforms import split_episodes
from tether.environments.tasks import find_task
from tether.errors import TetherError
from tether.evaluation.discrimination import pairs_by_kind
from tether.experiments import probe
from tether.presets import usual_bonus
from tether.progress import Bar, progress
from tether.settings import choose
from tether.training.code import code_version
from tether.training.fit import BLIND, FittedBonus, cache_folder, fit_bonus, fit_name, steps_done

AUTO = "auto"
SHORT_STEPS = 2_000  # of a candidate's fit; the one that is chosen is then fitted as long as ever
PROBE_STEPS = 1_000
CLEARLY = 0.05  # of the way from cloning to chance: by so much another must lead an actor nearer than the usual bonus
CALIBRATED = {"elbo": "calibrated", "measure": "bound", "kl_weight": 1.0}
WEIGHTS = ("bonus_weight_actor", "bonus_weight_critic", "bonus_weight")

Say = Callable[[str], None]


@dataclass(frozen=True)
class Candidate:
    """A bonus with settings of its own."""

    label: str  # cvae:elbo=calibrated
    name: str  # cvae
    settings: dict[str, Any]  # overrides by dotted name: bonus.elbo
    bonus: Bonus  # as short as it is fitted here


@dataclass(frozen=True)
class Verdict:
    """What was found out about one candidate. Plain numbers: it is kept as JSON."""

    label: str
    sees: float  # AUROC against uniform actions, of choices against any other
    near: float  # AUROC against recorded actions with some noise, of choices the same as `sees`
    share: float | None  # where the probe ends: 0 with cloning, 1 with chance; None where there is nothing to follow
    gap: float  # what a uniform action costs more than a recorded one
    reach: float  # squared distance of uniform actions from recorded ones, less that of cloning: the gap of an ideal CVAE


@dataclass(frozen=True)
class Choice:
    """Which one, why, and what the agent's weights are to be multiplied by for it."""

    name: str
    settings: dict[str, Any]
    label: str
    reasons: list[str]
    blind: bool
    factor: float
    verdicts: list[Verdict]


def candidates_for(
    dataset: Dataset, source: str, agent: str, preset: str, overrides: Mapping[str, Any], env_id: str | None
) -> list[Candidate]:
    """The agent's usual bonus first, then all others that offer what the agent requires."""
    traits, usual = choose(AGENTS, agent, "agent").traits, usual_bonus(preset, agent)
    if usual == NO_BONUS:
        raise TetherError(f"--bonus auto: {agent} learns without a bonus; leave it out, or name one")
    spec, names = dataset.spec, [usual, *BONUSES]
    able = [
        name
        for name in dict.fromkeys(names)
        if name != NO_BONUS
        and traits.requires <= BONUSES[name].traits.offers
        and (spec.discrete or not BONUSES[name].traits.needs_repeats)
    ]
    variants: list[tuple[str, dict[str, Any]]] = [(name, {}) for name in able]
    if "cvae" in able and not spec.discrete:
        variants.insert(able.index("cvae") + 1, ("cvae", {f"bonus.{name}": value for name, value in CALIBRATED.items()}))
    for setting in overrides:
        if setting.startswith("bonus.") and not any(setting in suited(overrides, name) for name in able):
            raise TetherError(f"--bonus auto: none of {', '.join(able)} has a setting {setting}")
    found = []
    for name, changes in variants:
        # The log of a machine has units of all sizes; the paper's tasks are left as the paper has them.
        scaled = {"bonus.normalise_observations": True} if _scales(name) and find_task(env_id) is None else {}
        config = make_config(source, env_id, agent, name, preset, overrides=scaled | changes | suited(overrides, name))
        label = name + (f":elbo={changes['bonus.elbo']}" if changes else "")
        bonus = config.bonus
        if bonus.steps > SHORT_STEPS:
            bonus = replace(bonus, steps=SHORT_STEPS)  # type: ignore[type-var]
        if not bonus.held_out_share:
            bonus = replace(bonus, held_out_share=0.05)  # type: ignore[type-var]
        found.append(Candidate(label, name, scaled | changes, bonus))
    return found


def suited(overrides: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Without settings of a bonus that this one does not have: hidden_sizes are the CVAE's and the classifier's, not RND's."""
    known = {field.name for field in fields(BONUSES[name])}
    return {
        setting: value
        for setting, value in overrides.items()
        if not setting.startswith("bonus.") or setting.split(".")[1] in known
    }


def _scales(name: str) -> bool:
    return hasattr(BONUSES[name], "normalise_observations")


def choose_bonus(candidates: Sequence[Candidate], dataset: Dataset, say: Say, seed: int = 0) -> Choice:
    """Fit, ask and decide; what was decided before about the same is read."""
    place = _place(candidates, dataset, seed)
    if place.exists():
        known = storage.read_json(place)
        say(f"--bonus auto: decided before about this data ({place})")
        verdicts = [Verdict(**plain) for plain in known["verdicts"]]
    else:
        waiting = [each for each in candidates if steps_done(each.bonus, dataset, cache_folder()) < each.bonus.steps]
        steps = sum(each.bonus.steps for each in waiting)
        say(
            f"--bonus auto tries {len(candidates)} bonuses first: {steps:,} steps of short fits ({len(waiting)} fits are not "
            f"in the cache), and {PROBE_STEPS:,} steps of an actor that follows each; minutes, and once for this data"
        )
        verdicts = _ask(candidates, dataset, seed)
        storage.write_json(place, {"verdicts": [asdict(verdict) for verdict in verdicts]})
    return decide(candidates, verdicts, dataset.spec.discrete)


def decide(candidates: Sequence[Candidate], verdicts: Sequence[Verdict], discrete: bool = False) -> Choice:
    """The first, which is the usual one, unless it is blind or another is clearly better."""
    usual, seeing = verdicts[0], [verdict for verdict in verdicts if verdict.sees >= BLIND]
    best = min(seeing, key=lambda each: (_share(each), -each.near)) if seeing else max(verdicts, key=lambda each: each.sees)
    against = "any other choice" if discrete else "uniform actions"
    if usual.sees < BLIND:
        reasons = [
            f"{usual.label}, the agent's usual one, is blind here: AUROC {usual.sees:.2f} against {against}, 0.5 is chance"
        ]
    elif _share(usual) <= _share(best) + CLEARLY:
        best, reasons = usual, []
    else:
        reasons = [f"an actor that follows {usual.label} alone ends further from the data ({_share(usual):.2f})"]
    told = f"{best.label} has AUROC {best.sees:.2f} against {against}"
    told += "" if discrete else f" and {best.near:.2f} against recorded ones with noise"
    led = (
        ""
        if best.share is None
        else f"; an actor that follows it alone ends at {best.share:.2f} (0 is with cloning, 1 with chance)"
    )
    reasons.append(told + led)
    # What the weights were chosen for is the usual bonus; where that is blind its gap means nothing, but a CVAE that sees has one
    # about as large as the distance of uniform actions (0.73 to 0.99 of it in results/bonus-lab).
    reference = usual.gap if usual.sees >= BLIND else 0.0 if discrete or candidates[0].name != "cvae" else usual.reach
    factor = 1.0 if best is usual or min(reference, best.gap) <= 0.0 else reference / best.gap
    chosen = next(each for each in candidates if each.label == best.label)
    return Choice(chosen.name, chosen.settings, chosen.label, reasons, best.sees < BLIND, factor, list(verdicts))


def _share(verdict: Verdict) -> float:
    return 1.0 if verdict.share is None else verdict.share


def _ask(candidates: Sequence[Candidate], dataset: Dataset, seed: int) -> list[Verdict]:
    kept, held_out = split_episodes(dataset, 0.05, seed)
    with progress("cloning, for comparison", PROBE_STEPS) as bar:
        cloned = probe.clone(kept, PROBE_STEPS, seed, bar.update)
    found = []
    for number, each in enumerate(candidates, start=1):
        place = f"{number} of {len(candidates)}, {each.label}"
        with progress(f"{place}: fitting", max(each.bonus.steps, 1), enabled=each.bonus.steps > 0) as bar:
            fitted = fit_bonus(each.bonus, dataset, cache_folder(), partial(_show, bar))
        found.append(_verdict(each, place, fitted, kept, held_out, cloned, seed))
    return found


def _show(bar: Bar, step: int, record: dict[str, float]) -> None:
    bar.update(step)


def _verdict(
    each: Candidate, place: str, fitted: FittedBonus, kept: Dataset, held_out: Dataset, cloned: Any, seed: int
) -> Verdict:
    observation, actions = pairs_by_kind(held_out, seed)
    mean = {kind: float(np.mean(fitted.novelty(observation, actions[kind], seed))) for kind in ("data", "uniform")}
    probed = probe.led_by(fitted, kept, PROBE_STEPS, seed, f"{place}: following")
    auroc, far = fitted.report.auroc, "other" if held_out.spec.discrete else "uniform"
    led = probe.distances(cloned if probed is None else probed, cloned, held_out, seed)
    return Verdict(
        label=each.label,
        sees=auroc[far],
        near=auroc.get("noise 0.25", auroc[far]),
        share=None if probed is None else led.share,
        gap=mean["uniform"] - mean["data"],
        reach=led.uniform - led.cloning,
    )


def _place(candidates: Sequence[Candidate], dataset: Dataset, seed: int) -> Any:
    facts: list[Any] = [[each.label, fit_name(each.bonus, dataset)] for each in candidates]
    facts += [[PROBE_STEPS, seed, code_version(probe.Probe)]]
    return storage.cache_root() / "choices" / f"{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:24]}.json"


def weighed(choice: Choice, usual: Any, agent: Any, given: Mapping[str, Any]) -> dict[str, float]:
    """The agent's weights for the chosen bonus, by dotted name; those that the user gave stay.

    `usual` is the agent as the preset has it with its usual bonus, `agent` as with the chosen one: where the preset has weights
    of their own for that, those are taken.
    """
    if choice.factor == 1.0 or any(getattr(usual, name, None) != getattr(agent, name, None) for name in WEIGHTS):
        return {}
    names = [name for name in WEIGHTS if hasattr(agent, name) and f"agent.{name}" not in given]
    return {f"agent.{name}": float(f"{choice.factor * getattr(agent, name):.4g}") for name in names if getattr(agent, name)}


def table(choice: Choice) -> list[list[str]]:
    lines = [["bonus", "AUROC: far", "near", "probe", ""]]
    for each in choice.verdicts:
        share = "-" if each.share is None else f"{each.share:.2f}"
        mark = "taken" if each.label == choice.label else "blind" if each.sees < BLIND else ""
        lines.append([each.label, f"{each.sees:.3f}", f"{each.near:.3f}", share, mark])
    return lines

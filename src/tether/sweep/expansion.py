"""From a plan to its runs: each a whole config, checked, and a folder. Nothing is trained or written here."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tether.agents import AGENTS, check_kind_of_actions
from tether.bonuses import BONUSES
from tether.config import RunConfig, make_config, to_json
from tether.data import locate
from tether.data.named.catalogue import find_known
from tether.environments.tasks import Task, find_task
from tether.errors import TetherError
from tether.presets import guessed_weights, of_its_own_paper, usual_agent, usual_bonus, whose_settings
from tether.settings import choose as choose_kind
from tether.settings import to_named
from tether.sweep.plan import Plan
from tether.sweep.variants import MOST_RUNS, Variant


@dataclass(frozen=True)
class Data:
    """A dataset of the plan. One that is known by name and not on this machine can be planned for, and not be trained on."""

    source: str  # as the plan has it
    name: str
    env_id: str | None
    sha256: str = ""
    missing: str = ""  # why it cannot be read, and what would help
    discrete: bool | None = None  # its actions are choices; None: not known

    @property
    def group(self) -> str:
        """Datasets whose settings may be chosen together; one that is of no known task is alone."""
        task = find_task(self.env_id)
        return task.group if task else self.name


@dataclass(frozen=True)
class PlannedRun:
    name: str  # the folder below the plan's
    config: RunConfig
    folder: Path
    data: Data
    agent: str
    bonus: str
    variant: str
    notes: tuple[str, ...] = ()  # what the kind of task has decided, or leaves open, in words

    @property
    def method(self) -> str:
        return f"{self.agent}-{self.bonus}"

    @property
    def fit(self) -> str | None:
        """The same for runs that share the fit of a bonus; None where there is nothing to fit."""
        if not self.config.bonus.steps:
            return None
        return json.dumps([self.data.sha256 or self.data.name, to_named(self.config.bonus, BONUSES)], sort_keys=True)


def find_data(plan: Plan, in_part: bool = False) -> tuple[Data, ...]:
    """The datasets of a plan. Only a name that nobody knows, or a file that is not there, is an error.

    Where a plan is carried out `in_part`, that may be of another part: it is said to be missing, and goes by its file's name.
    """
    found = []
    for number, source in enumerate(plan.datasets):
        try:
            data = locate(source)
            found.append(Data(source, data.name, data.env_id, data.sha256, discrete=data.discrete))
        except TetherError as error:
            known = find_known(source)
            if known is not None:
                found.append(Data(source, known.name, known.task.env_ids[0], missing=str(error), discrete=False))
            elif in_part:
                found.append(Data(source, Path(source).stem, None, missing=str(error)))
            else:
                raise plan.refusal(f"datasets[{number}]", str(error)) from error
    names = [data.name for data in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise plan.refusal("datasets", f"two are both called {twice}; their runs would go to one folder")
    return tuple(found)


def expand(plan: Plan, datasets: Iterable[Data]) -> list[PlannedRun]:
    """Every run of the plan but the final ones, by seed first: what is done early covers all that is compared."""
    stage = plan.out / "search" if plan.final_seeds else plan.out
    runs = [
        make_run(plan, data, agent, bonus, variant, seed, stage)
        for seed in plan.seeds
        for data in datasets
        for variant in plan.variants
        for agent, bonus in methods(plan, variant)
        if plan.runs_on(variant, data.source, seed)
    ]
    if len(runs) > MOST_RUNS:
        raise TetherError(f"{plan.path} stands for {len(runs):,} runs; {MOST_RUNS:,} is the most")
    policy = plan.choose.policy if plan.choose else ""
    for run in runs if policy else ():
        policies = run.config.agent.traits.policies
        if policy not in policies:
            raise plan.refusal("choose.policy", f"{run.agent} has no policy {policy!r}; it has {', '.join(policies)}")
    folders = [run.folder for run in runs]
    if len({*folders}) < len(folders):
        raise TetherError(f"{plan.path}: two runs have the folder {_first_twice(folders)}; give their variants other names")
    return runs


def twins(runs: Iterable[PlannedRun]) -> list[tuple[str, ...]]:
    """Variants that have the same settings, down to the defaults: by the first run of each."""
    first = {(run.method, run.variant): run for run in reversed([*runs])}
    found: dict[str, list[str]] = {}
    for run in reversed([*first.values()]):
        found.setdefault(json.dumps([run.data.name, to_json(run.config)], sort_keys=True), []).append(run.variant)
    return [tuple(names) for names in found.values() if len(names) > 1]


def cannot_learn(plan: Plan, run: PlannedRun) -> str:
    """Why its agent cannot learn the kind of actions that the data has, with the key of the plan; empty where it can, for all
    that is known."""
    if run.data.discrete is None:
        return ""
    try:
        check_kind_of_actions(run.config.agent, run.data.discrete, run.data.name)
    except TetherError as error:
        own = any(variant.agent and variant.name == run.variant for variant in plan.variants)
        return f"{f'variants.{run.variant}.agent' if own else 'agents'}: {error}"
    return ""


def methods(plan: Plan, variant: Variant) -> list[tuple[str, str]]:
    """Agent and bonus of every run with this variant."""
    preset = variant.preset or plan.preset
    bonuses = (variant.bonus,) if variant.bonus else plan.bonuses
    for bonus in bonuses:
        if bonus not in BONUSES and ":" not in bonus:
            key = f"variants.{variant.name}.bonus" if variant.bonus else "bonuses"
            raise plan.refusal(key, _no_such(bonus, BONUSES, "bonus"))
    agents = (variant.agent,) if variant.agent else plan.agents
    for agent in agents:
        if agent not in AGENTS and ":" not in agent:
            key = f"variants.{variant.name}.agent" if variant.agent else "agents"
            raise plan.refusal(key, _no_such(agent, AGENTS, "agent"))
    if agents:
        return [(agent, bonus) for agent in agents for bonus in bonuses or (usual_bonus(preset, agent),)]
    if bonuses:
        return [(usual_agent(preset, bonus), bonus) for bonus in bonuses]
    agent = usual_agent(preset, None)
    return [(agent, usual_bonus(preset, agent))]


def make_run(plan: Plan, data: Data, agent: str, bonus: str, variant: Variant, seed: int, stage: Path) -> PlannedRun:
    """One run. Settings of a variant go before those of the plan, these before the preset."""
    method = f"{agent}-{bonus}".replace(":", ".")  # of a part of one's own, `module:Class`
    fit = {"bonus.seed": seed} if plan.fits == "own" else {}
    overrides = _applicable(fit | plan.settings, bonus) | variant.settings
    try:
        env_id, preset = data.env_id or overrides.get("evaluation.env_id"), variant.preset or plan.preset
        config = make_config(data.source, env_id, agent, bonus, preset, seed, overrides)
    except TetherError as error:
        where = f"variant {variant.name}" if variant.settings or variant.agent or variant.bonus else "settings"
        raise TetherError(f"{plan.path}: {where}, {method} on {data.name}: {error}") from error
    folder = stage / data.name / method / variant.name / f"s{seed}"
    notes = _notes(preset, agent, bonus, find_task(env_id), overrides)
    return PlannedRun(folder.relative_to(plan.out).as_posix(), config, folder, data, agent, bonus, variant.name, notes)


def _notes(preset: str, agent: str, bonus: str, task: Task | None, asked: dict[str, Any]) -> tuple[str, ...]:
    """What `tether train` would say of such a run's settings, for many runs at once."""
    guessed = guessed_weights(preset, agent, bonus, task, asked)
    unknown = f"{guessed}; what is best there is not known: compare other weights, as variants of the plan"
    own = (*whose_settings(preset, agent, asked), *of_its_own_paper(preset, agent, bonus, task, asked))
    return (*own, *([unknown] if guessed else []))


def _applicable(settings: dict[str, Any], bonus: str) -> dict[str, Any]:
    """Without what is said of a bonus, for runs that have none: baselines stand beside what they are compared with."""
    return {name: value for name, value in settings.items() if bonus != "none" or not name.startswith("bonus.")}


def _no_such(name: str, registry: Any, kind: str) -> str:
    try:
        choose_kind(registry, name, kind)
    except TetherError as error:
        return str(error)
    raise AssertionError(name)


def _first_twice(folders: list[Path]) -> Path:
    return next(folder for folder in folders if folders.count(folder) > 1)

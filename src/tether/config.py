"""One frozen object that says all of a run: made from a preset and overrides, checked before anything is computed."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, Literal

from tether import settings
from tether.agents import AGENTS, Agent, check_bonus, critic_steps, refresh_period
from tether.agents.td3 import TD3
from tether.bonuses import BONUSES, Bonus
from tether.bonuses.cvae import CVAE
from tether.environments.tasks import find_task
from tether.errors import TetherError, did_you_mean
from tether.presets import PRESETS, rules_for, usual_agent, usual_bonus
from tether.settings import Amount, Seed, Share, Size, Steps


@dataclass(frozen=True)
class TrainingConfig:
    """How long, and how often the host looks at what the device does. All in critic steps."""

    steps: Size = 500_000  # the paper's appendix; its main text says 1,000,000
    log_every: Size = 1_000  # steps of one compiled epoch, and of one line in metrics.jsonl
    evaluate_every: Size = 5_000
    checkpoint_every: Size = 5_000
    reward_penalty: Amount = 0.0  # bonuses subtracted from each recorded reward: the paper's naive form, to compare with
    reward_scaling: Literal["auto", "range", "divide", "returns", "none"] = "auto"  # auto: the agent's own; see docs/data.md
    value_limit: Amount = (
        1e5  # stop when |Q| passes it; scaled rewards are at most 1, so a sound |Q| is below 1 / (1 - discount) = 100
    )


@dataclass(frozen=True)
class EvaluationConfig:
    """Episodes in the real environment, where there is one."""

    episodes: Size = 10
    seed: Seed = 10_000  # of the first episode's start; the same starts at every evaluation
    policy: str = ""  # the run's own; empty: the agent's main one. All are evaluated; the paper's is online
    env_id: str = ""  # empty: the dataset's own; "none": do not evaluate


@dataclass(frozen=True)
class StartConfig:
    """The run that this one went on from."""

    run: str = ""  # its folder then
    checkpoint_sha256: str = ""
    step: Steps = 0  # its last
    log: str = ""  # what was appended to its data; empty: nothing


@dataclass(frozen=True)
class OnlineConfig:
    """Learning in an environment besides the data. Steps are of the environment, of all that are stepped together."""

    env_id: str = ""
    steps: Size = 20_000  # that are learnt from as they come
    warmup: Steps = 1_000  # before the first update: of the policy, or where it is fresh uniform ones
    environments: Size = 1  # stepped together
    turn: Size = 100  # collected before as many are learnt from
    updates_per_step: Amount = 1.0  # critic steps for each step of the environment
    log_share: Share = 0.5  # of the rows of each batch, from the data; the others are from the environment
    anneal_steps: Steps = 10_000  # over which the bonus weights fall to 0
    exploration_noise: Amount = 0.1  # in half action ranges


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides what a run computes."""

    dataset: str
    agent: Agent = field(default_factory=TD3)
    bonus: Bonus = field(default_factory=CVAE)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    seed: Seed = 0
    start: StartConfig | None = None  # None: from nothing
    online: OnlineConfig | None = None  # None: from the data alone

    @property
    def epoch_steps(self) -> int:
        """Steps of one compiled epoch: as many as `log_every` allows with evaluations, checkpoints, refreshes, the end on one."""
        training, refresh = self.training, refresh_period(self.agent)
        return math.gcd(training.log_every, training.evaluate_every, training.checkpoint_every, training.steps, refresh)

    @property
    def policy(self) -> str:
        """Which of the agent's policies is the run's own."""
        return self.evaluation.policy or self.agent.traits.main_policy

    @property
    def reward_scaling(self) -> str:
        """The agent's own, unless the run asks for another."""
        asked = self.training.reward_scaling
        return self.agent.traits.reward_scaling if asked == "auto" else asked


REGISTRIES = {"agent": AGENTS, "bonus": BONUSES}
SECTIONS = ("agent", "bonus", "training", "evaluation")
GOING_ON = {"start": StartConfig, "online": OnlineConfig}  # sections that only runs of `tether finetune` have
# Of a config in a file. None is 1, where td3's reward_scaling "auto" was what "range" is now; 3 means the same as 2.
VERSION = 3


def make_config(
    dataset: str,
    env_id: str | None = None,
    agent: str | None = None,
    bonus: str | None = None,
    preset: str = PRESETS[0],
    seed: int = 0,
    overrides: dict[str, Any] | None = None,
) -> RunConfig:
    """The preset for this agent and the task of the environment, with the overrides on top.

    Without an agent it has the preset's, without a bonus the usual one of preset and agent. Overrides are by dotted name, such as
    `agent.bonus_weight_actor`; text is read as the type of the setting.
    """
    if preset not in PRESETS:
        raise TetherError(f"no preset {preset!r}{did_you_mean(preset, PRESETS)}")
    agent = agent or usual_agent(preset, bonus)
    learns = settings.choose(AGENTS, agent, "agent")()
    bonus = bonus or usual_bonus(preset, agent)
    config = RunConfig(dataset, learns, settings.choose(BONUSES, bonus, "bonus")(), seed=seed)
    rules = rules_for(preset, agent, bonus, find_task(env_id))
    chosen = {name: value for rule in rules for name, value in rule.settings.items()}
    for name, value in (chosen | (overrides or {})).items():
        config = override(config, name, value)
    check(config)
    return override(config, "evaluation.policy", config.policy)


def override(config: RunConfig, name: str, value: Any) -> RunConfig:
    """`config` with one setting changed, by its dotted name."""
    section, _, setting = name.partition(".")
    if section not in SECTIONS:
        known = [f"{known}.…" for known in SECTIONS]
        raise TetherError(f"no setting {name}{did_you_mean(section, SECTIONS)} (settings are {', '.join(known)})")
    return dataclasses.replace(config, **{section: settings.changed(getattr(config, section), setting, value, section)})


def to_json(config: RunConfig) -> dict[str, Any]:
    """Plain JSON: the agent and the bonus carry their registry name under `name`."""
    plain = settings.to_plain(config)
    plain |= {section: settings.to_named(getattr(config, section), registry) for section, registry in REGISTRIES.items()}
    plain = {name: value for name, value in plain.items() if name not in GOING_ON or value is not None}
    return plain | {"version": VERSION}


def from_json(plain: dict[str, Any]) -> RunConfig:
    """The config that `to_json` wrote. An unknown or mistyped field is an error, never passed over.

    A setting that is not there is newer than the file. It gets its default, which for a new setting is what was done before it.
    """
    kinds = {"training": TrainingConfig, "evaluation": EvaluationConfig}
    parts: dict[str, Any] = {}
    if not isinstance(plain, dict):
        raise TetherError(f"a config is a JSON object, not a {type(plain).__name__}")
    for section in SECTIONS:
        if not isinstance(plain.get(section), dict):
            raise TetherError(f"the settings of {section} are missing")
        if section in REGISTRIES:
            parts[section] = settings.from_named(plain[section], REGISTRIES[section], section)
        else:
            kind = kinds[section]
            parts[section] = settings.build(kind, settings.to_plain(kind()) | plain[section], section)
    for section, kind in GOING_ON.items():
        given = plain.get(section)
        parts[section] = None if given is None else settings.build(kind, settings.to_plain(kind()) | given, section)
    rest = {name: value for name, value in plain.items() if name not in (*parts, "dataset_sha256", "version")}
    config = _as_meant(settings.build(RunConfig, rest, "", **parts), plain.get("version", 1))
    check(config)
    return config


def _as_meant(config: RunConfig, version: Any) -> RunConfig:
    """What a config of an earlier version asked for, in the words of this one."""
    if not isinstance(version, int) or version > VERSION:
        raise TetherError(f"the config is of version {version!r}, this Tether knows those up to {VERSION}; use a newer Tether")
    if version < 2 and config.reward_scaling == "auto" and config.agent.traits.actions == ("continuous",):
        return override(config, "training.reward_scaling", "range")
    return config


def settings_of(config: RunConfig) -> dict[str, dict[str, Any]]:
    """Every setting by group, then by dotted name, for help and for comparing two configs."""
    groups: dict[str, dict[str, Any]] = {"run": {}}
    for section, values in to_json(config).items():
        if section == "version":
            continue
        if isinstance(values, dict):
            groups[section] = _flat(values, f"{section}.")
        else:
            groups["run"][section] = values
    return groups


def _flat(values: dict[str, Any], prefix: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return found


def first_difference(one: RunConfig, other: RunConfig) -> str | None:
    """`agent.discount: 0.99 here, 0.9 there`, or None where both compute the same from the same data.

    What the dataset is called does not matter: the same file may be elsewhere, and another may have its name. Its hash is
    compared where it is known. So it is with the run that this one went on from, and with what was appended to its data.
    """
    mine, theirs = ({name: value for group in settings_of(c).values() for name, value in group.items()} for c in (one, other))
    for name in [*mine, *theirs]:
        if name not in ("dataset", "start.run", "start.log") and mine.get(name) != theirs.get(name):
            return f"{name}: {mine.get(name)} here, {theirs.get(name)} there"
    return None


def check(config: RunConfig) -> None:
    """Refuse settings that no run could use, before anything is computed."""
    settings.check(config, "")
    check_bonus(config.agent, config.bonus)
    if config.policy not in config.agent.traits.policies:
        raise TetherError(f"evaluation.policy is {config.policy!r}; it takes {' or '.join(config.agent.traits.policies)}")
    training, period = config.training, critic_steps(config.agent)
    if config.epoch_steps < min(100, training.steps):
        raise TetherError(
            f"training.steps {training.steps:,}, log_every {training.log_every:,}, evaluate_every {training.evaluate_every:,} "
            f"and checkpoint_every {training.checkpoint_every:,} have no common epoch; multiples of 1,000 (or of 100) do"
        )
    if config.epoch_steps % period:
        raise TetherError(
            f"an update of the agent is {period} steps, which do not divide an epoch of {config.epoch_steps:,}; training.steps, "
            f"log_every, evaluate_every and checkpoint_every must be multiples of {period}"
        )
    if config.online is not None:
        _check_online(config, config.online)


def _check_online(config: RunConfig, online: OnlineConfig) -> None:
    """An epoch is made of whole turns, and a turn of whole updates and of as many steps in each environment."""
    updates = float(online.turn * online.updates_per_step)
    fits = (
        updates >= 1 and updates.is_integer() and config.epoch_steps % updates == 0 and updates % critic_steps(config.agent) == 0
    )
    if not fits:
        raise TetherError(
            f"a turn of {online.turn:,} steps with {online.updates_per_step:g} critic steps for each is {updates:g} of them; "
            f"that must be a multiple of {critic_steps(config.agent)} that divides an epoch of {config.epoch_steps:,}"
        )
    for name in ("turn", "warmup", "steps"):
        unit, what = (online.environments, "environments") if name == "turn" else (online.turn, "steps of a turn")
        if getattr(online, name) % unit:
            raise TetherError(f"online.{name} is {getattr(online, name):,}, which is no multiple of the {unit:,} {what}")

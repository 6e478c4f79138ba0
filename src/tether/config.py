"""One frozen object that says all of a run: made from a preset and overrides, checked before anything is computed."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, Literal

from tether import settings
from tether.agents import AGENTS, TD3, Agent
from tether.bonuses import BONUSES, CVAE, Bonus
from tether.environments.tasks import find_task
from tether.errors import TetherError, did_you_mean


@dataclass(frozen=True)
class TrainingConfig:
    """How long, and how often the host looks at what the device does. All in critic steps."""

    steps: int = 500_000  # the paper's appendix; its main text says 1,000,000
    log_every: int = 1_000  # steps of one compiled epoch, and of one line in metrics.jsonl
    evaluate_every: int = 5_000
    checkpoint_every: int = 5_000
    reward_penalty: float = 0.0  # bonuses subtracted from each recorded reward: the paper's naive form, to compare with
    reward_scaling: Literal["auto", "range", "divide"] = "auto"  # to [0, 1], or zero kept; auto: range, divide if discrete
    value_limit: float = (
        1e5  # stop when |Q| passes it; scaled rewards are at most 1, so a sound |Q| is below 1 / (1 - discount) = 100
    )


@dataclass(frozen=True)
class EvaluationConfig:
    """Episodes in the real environment, where there is one."""

    episodes: int = 10
    seed: int = 10_000  # of the first episode's start; the same starts at every evaluation
    policy: Literal["online", "target", "ema"] = "target"  # the run's own; the paper's is online; all three are evaluated
    env_id: str = ""  # empty: the dataset's own; "none": do not evaluate


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides what a run computes."""

    dataset: str
    agent: Agent = field(default_factory=TD3)
    bonus: Bonus = field(default_factory=CVAE)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    seed: int = 0

    @property
    def epoch_steps(self) -> int:
        """Steps of one compiled epoch: as many as `log_every` allows with every evaluation, checkpoint and the end on one."""
        training = self.training
        return math.gcd(training.log_every, training.evaluate_every, training.checkpoint_every, training.steps)


PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    "quick": {"training.steps": 50_000},  # the bonus keeps its whole fit
}
REGISTRIES = {"agent": AGENTS, "bonus": BONUSES}
SECTIONS = ("agent", "bonus", "training", "evaluation")

# What a setting of that name must be, wherever it is. Every other number must not be negative.
AT_LEAST_ONE = {"batch_size", "hidden_sizes", "latent_size", "actor_period", "log_every", "evaluate_every", "checkpoint_every"}
AT_LEAST_ONE |= {"training.steps", "episodes"}
BELOW_ONE = {"discount", "held_out"}
AT_MOST_ONE = {"target_mix", "ema_mix"}
SEEDS = 2**32  # JAX takes the lowest 32 bits, so a larger seed would repeat a smaller one


def make_config(
    dataset: str,
    env_id: str | None = None,
    agent: str = "td3",
    bonus: str = "cvae",
    preset: str = "paper",
    seed: int = 0,
    overrides: dict[str, Any] | None = None,
) -> RunConfig:
    """The preset, with the bonus weights of the task's group in the paper, with the overrides on top.

    Overrides are by dotted name, such as `agent.bonus_weight_actor`; text is read as the type of the setting.
    """
    if preset not in PRESETS:
        raise TetherError(f"no preset {preset!r}{did_you_mean(preset, PRESETS)}")
    config = RunConfig(dataset=dataset, agent=_choose("agent", agent)(), bonus=_choose("bonus", bonus)(), seed=seed)
    chosen = dict(PRESETS[preset])
    task = find_task(env_id)
    if task is not None and isinstance(config.agent, TD3):
        chosen["agent.bonus_weight_actor"], chosen["agent.bonus_weight_critic"] = task.bonus_weights
    for name, value in (chosen | (overrides or {})).items():
        config = override(config, name, value)
    check(config)
    return config


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
    for section in REGISTRIES:
        plain[section] = part_to_json(section, getattr(config, section))
    return plain


def part_to_json(section: str, part: Any) -> dict[str, Any]:
    """An agent or a bonus with its registry name, as `to_json` has it."""
    name = next(name for name, member in REGISTRIES[section].items() if member is type(part))
    return {"name": name, **settings.to_plain(part)}


def part_from_json(section: str, plain: dict[str, Any]) -> Any:
    """The agent or bonus that `part_to_json` wrote. A setting newer than the file gets its default."""
    given = dict(plain)
    kind = _choose(section, str(given.pop("name", None)))
    return settings.build(kind, settings.to_plain(kind()) | given, section)


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
            parts[section] = part_from_json(section, plain[section])
        else:
            kind = kinds[section]
            parts[section] = settings.build(kind, settings.to_plain(kind()) | plain[section], section)
    rest = {name: value for name, value in plain.items() if name not in SECTIONS}
    config = settings.build(RunConfig, rest, "", **parts)
    check(config)
    return config


def settings_of(config: RunConfig) -> dict[str, dict[str, Any]]:
    """Every setting by group, then by dotted name, for help and for comparing two configs."""
    groups: dict[str, dict[str, Any]] = {"run": {}}
    for section, values in to_json(config).items():
        if isinstance(values, dict):
            groups[section] = {f"{section}.{name}": value for name, value in values.items()}
        else:
            groups["run"][section] = values
    return groups


def first_difference(one: RunConfig, other: RunConfig) -> str | None:
    """`agent.discount: 0.99 here, 0.9 there`, or None where both are the same."""
    mine, theirs = ({name: value for group in settings_of(c).values() for name, value in group.items()} for c in (one, other))
    for name in [*mine, *theirs]:
        if mine.get(name) != theirs.get(name):
            return f"{name}: {mine.get(name)} here, {theirs.get(name)} there"
    return None


def check(config: RunConfig) -> None:
    """Refuse settings that no run could use, before anything is computed."""
    _check_number("seed", config.seed, "seed")
    for section in SECTIONS:
        for name, value in vars(getattr(config, section)).items():
            for number in value if isinstance(value, tuple) else (value,):
                if isinstance(number, int | float):
                    _check_number(name, number, f"{section}.{name}")
    if config.agent.follows_penalty and not config.bonus.has_action_gradient:
        with_gradient = ", ".join(name for name, kind in BONUSES.items() if kind().has_action_gradient)
        raise TetherError(
            f"this bonus has no gradient in the action for the agent to follow; choose one of {with_gradient} "
            "(its scores can still be looked at: tether bonus)"
        )
    training, period = config.training, config.agent.critic_steps
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


def _check_number(name: str, number: float, full_name: str) -> None:
    names = {name, full_name}
    if not number >= 0:  # NaN too
        raise TetherError(f"{full_name} is {number}; it must not be negative")
    if names & AT_LEAST_ONE and number < 1:
        raise TetherError(f"{full_name} is {number}; it must be at least 1")
    if names & BELOW_ONE and number >= 1:
        raise TetherError(f"{full_name} is {number}; it must be at least 0 and below 1")
    if names & AT_MOST_ONE and number > 1:
        raise TetherError(f"{full_name} is {number}; it must be at most 1")
    if name == "seed" and number >= SEEDS:
        raise TetherError(f"{full_name} is {number}; it must be below {SEEDS}")


def _choose(section: str, name: str) -> type:
    registry = REGISTRIES[section]
    if name not in registry:
        raise TetherError(f"no {section} {name!r}{did_you_mean(name, registry)}")
    return registry[name]

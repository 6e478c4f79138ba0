"""One frozen object that says all of a run: made from a preset and overrides, written to config.json, read back strictly."""

from __future__ import annotations

import dataclasses
import json
import math
import types
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from tether.agents import AGENTS, TD3, Agent
from tether.bonuses import BONUSES, CVAE, Bonus
from tether.data.tasks import find_task
from tether.errors import TetherError, did_you_mean

T = TypeVar("T")


@dataclass(frozen=True)
class TrainingConfig:
    """How long, and how often the host looks at what the device does. All in critic steps."""

    steps: int = 500_000  # the paper's appendix; its main text says 1,000,000
    log_every: int = 1_000  # steps of one compiled epoch, and of one line in metrics.jsonl
    evaluate_every: int = 5_000
    checkpoint_every: int = 5_000
    value_limit: float = 1e5  # stop when |Q| passes it; rewards are in [0, 1], so a sound Q is below 1 / (1 - discount) = 100


@dataclass(frozen=True)
class EvaluationConfig:
    """Episodes in the real environment, where there is one."""

    episodes: int = 10
    seed: int = 10_000  # of the first episode's start; the same starts at every evaluation
    policy: str = "online"  # whose score is the run's score: online (the paper's), target or ema; all are evaluated
    env_id: str | None = None  # None: the dataset's own; "none": do not evaluate


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
        """Steps of one compiled epoch: as long as `log_every` allows while every evaluation, checkpoint and the end fall on one."""
        training = self.training
        return math.gcd(training.log_every, training.evaluate_every, training.checkpoint_every, training.steps)


PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    "quick": {"training.steps": 50_000},  # the bonus keeps its whole fit: cutting that is what breaks the result
}
REGISTRIES = {"agent": AGENTS, "bonus": BONUSES}


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
    config = RunConfig(dataset=dataset, agent=_choose("agent", agent)(), bonus=_choose("bonus", bonus)(), seed=seed)
    if preset not in PRESETS:
        raise TetherError(f"no preset {preset!r}{did_you_mean(preset, PRESETS)}")
    settings = dict(PRESETS[preset])
    task = find_task(env_id)
    if task is not None and isinstance(config.agent, TD3):
        settings["agent.bonus_weight_actor"], settings["agent.bonus_weight_critic"] = task.bonus_weights
    for name, value in (settings | (overrides or {})).items():
        config = _override(config, name, value)
    _check(config)
    return config


def parse_override(text: str) -> tuple[str, str]:
    """`agent.discount=0.9` as name and text."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise TetherError(f"cannot read {text!r} as a setting; write it as NAME=VALUE, such as agent.discount=0.98")
    return name.strip(), value.strip()


def to_json(config: RunConfig) -> dict[str, Any]:
    """Plain JSON: the agent and the bonus carry their registry name under `name`."""
    plain = json.loads(json.dumps(dataclasses.asdict(config)))
    for section, registry in REGISTRIES.items():
        kind = type(getattr(config, section))
        name = next(name for name, member in registry.items() if member is kind)
        plain[section] = {"name": name, **plain[section]}
    return plain


def from_json(plain: dict[str, Any]) -> RunConfig:
    """The config that `to_json` wrote. An unknown or mistyped field is an error, never dropped."""
    sections = dict(plain)
    for section in REGISTRIES:
        given = dict(sections.get(section, {}))
        name = given.pop("name", None)
        if not isinstance(name, str):
            raise TetherError(f"{section}.name is missing")
        sections[section] = _build(_choose(section, name), given, section)
    config = _build(RunConfig, sections, "")
    _check(config)
    return config


def settings_of(config: RunConfig) -> dict[str, dict[str, Any]]:
    """Every setting by group, then by dotted name, for help and for comparing two configs."""
    groups: dict[str, dict[str, Any]] = {}
    for section, values in to_json(config).items():
        if isinstance(values, dict):
            groups[section] = {f"{section}.{name}": value for name, value in values.items()}
        else:
            groups.setdefault("run", {})[section] = values
    return groups


def first_difference(one: RunConfig, other: RunConfig) -> str | None:
    """`agent.discount: 0.99 here, 0.9 there`, or None where both are the same."""
    mine, theirs = ({name: value for group in settings_of(c).values() for name, value in group.items()} for c in (one, other))
    for name in [*mine, *theirs]:
        if mine.get(name) != theirs.get(name):
            return f"{name}: {mine.get(name)} here, {theirs.get(name)} there"
    return None


def _choose(section: str, name: str) -> type:
    registry = REGISTRIES[section]
    if name not in registry:
        raise TetherError(f"no {section} {name!r}{did_you_mean(name, registry)}")
    return registry[name]


def _override(config: RunConfig, name: str, value: Any) -> RunConfig:
    section, dot, setting = name.partition(".")
    if not dot:
        if section != "seed":
            known = [*(f"{s}.…" for s in ("agent", "bonus", "training", "evaluation")), "seed"]
            raise TetherError(f"no setting {name!r}; settings are named {', '.join(known)}")
        return dataclasses.replace(config, seed=_convert(value, int, name))
    if section not in ("agent", "bonus", "training", "evaluation"):
        raise TetherError(
            f"no group of settings {section!r}{did_you_mean(section, ('agent', 'bonus', 'training', 'evaluation'))}"
        )
    part = getattr(config, section)
    hints = get_type_hints(type(part))
    names = [f.name for f in dataclasses.fields(part)]
    if setting not in names:
        raise TetherError(f"no setting {name}{did_you_mean(name, (f'{section}.{known}' for known in names))}")
    return dataclasses.replace(config, **{section: dataclasses.replace(part, **{setting: _convert(value, hints[setting], name)})})


def _build(kind: type[T], given: dict[str, Any], where: str) -> T:
    hints = get_type_hints(kind)
    fields = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    prefix = f"{where}." if where else ""
    for name in given:
        if name not in fields:
            raise TetherError(f"no setting {prefix}{name}{did_you_mean(prefix + name, (prefix + known for known in fields))}")
    missing = [name for name in fields if name not in given]
    if missing:
        raise TetherError(f"setting {prefix}{missing[0]} is missing")
    values = {}
    for name, value in given.items():
        nested = dataclasses.is_dataclass(hints[name]) and isinstance(value, dict)
        is_built = name in REGISTRIES and not where
        values[name] = (
            value if is_built else _build(hints[name], value, name) if nested else _convert(value, hints[name], prefix + name)
        )
    return kind(**values)


def _convert(value: Any, hint: Any, name: str) -> Any:
    """`value`, which may be text, as the type of the setting, or an error that says what the setting takes."""
    origin, arguments = get_origin(hint), get_args(hint)
    try:
        if origin in (Union, types.UnionType):
            return (
                None
                if value in (None, "none", "None") and name != "evaluation.env_id"
                else _convert(value, arguments[0], name)
                if value is not None
                else None
            )
        if origin is Literal:
            if value not in arguments:
                raise TetherError(f"{name} is {value!r}{did_you_mean(str(value), map(str, arguments))}")
            return value
        if origin is tuple:
            items = [item for item in value.strip("()[] ").split(",") if item.strip()] if isinstance(value, str) else list(value)
            if arguments[-1] is not Ellipsis and len(items) != len(arguments):
                raise ValueError(f"{len(arguments)} values")
            return tuple(_convert(item, arguments[0], name) for item in items)
        if hint is bool:
            return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[str(value).lower()]
        if hint is int:
            if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
                raise ValueError
            return int(value.replace("_", "").replace(",", "")) if isinstance(value, str) else int(value)
        if hint is float:
            if isinstance(value, bool):
                raise ValueError
            return float(value)
        if not isinstance(value, str):
            raise ValueError
        return value
    except (ValueError, KeyError, TypeError) as error:
        raise TetherError(f"{name} is {value!r}; it takes {_spell(hint)}") from error


def _spell(hint: Any) -> str:
    if get_origin(hint) is tuple:
        return f"{len(get_args(hint))} numbers with commas between, such as 256,256"
    return {int: "a whole number", float: "a number", bool: "true or false", str: "text"}.get(hint, str(hint))


def _check(config: RunConfig) -> None:
    """Settings that no run could use, said before anything is computed."""
    training, agent = config.training, config.agent
    for name in ("steps", "log_every", "evaluate_every", "checkpoint_every"):
        if getattr(training, name) < 1:
            raise TetherError(f"training.{name} is {getattr(training, name)}; it must be at least 1")
    for section in ("agent", "bonus"):
        for name, value in dataclasses.asdict(getattr(config, section)).items():
            numbers = value if isinstance(value, tuple | list) else [value]
            if any(isinstance(n, int | float) and (n < 0 or math.isnan(n)) for n in numbers):
                raise TetherError(f"{section}.{name} is {value}; it must not be negative")
    for name, value in [
        ("agent.batch_size", agent.batch_size),
        ("agent.actor_period", agent.critic_steps),
        ("bonus.batch_size", config.bonus.batch_size),
    ]:
        if value < 1:
            raise TetherError(f"{name} is {value}; it must be at least 1")
    if not 0 <= getattr(agent, "discount", 0.0) < 1:
        raise TetherError(f"agent.discount is {agent.discount}; it must be at least 0 and below 1")  # type: ignore[attr-defined]
    if not 0 <= config.bonus.held_out < 1:
        raise TetherError(f"bonus.held_out is {config.bonus.held_out}; it must be at least 0 and below 1")
    if config.evaluation.episodes < 1:
        raise TetherError(f"evaluation.episodes is {config.evaluation.episodes}; it must be at least 1")
    if config.epoch_steps % agent.critic_steps or config.epoch_steps < min(100, training.steps):
        raise TetherError(
            f"training.steps {training.steps:,}, log_every {training.log_every:,}, evaluate_every {training.evaluate_every:,} and "
            f"checkpoint_every {training.checkpoint_every:,} have no common epoch; multiples of 1,000 (or of 100) do"
        )

"""A plan: one TOML file that stands for many runs. Whatever is wrong in it is said with the file, the key and what would do."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tether.errors import TetherError, did_you_mean
from tether.presets import PRESETS

SCORES = ("last", "last_ten")  # "best" would choose with the simulator that offline learning does not have
PER = ("dataset", "group", "all")
WAYS = ("grid", "random", "variants")
FITS = ("shared", "own")  # of a bonus, by all seeds of an agent or by each seed
KEYS = (
    *("name", "out", "datasets", "agents", "bonuses", "preset", "steps", "seeds", "fits", "settings"),
    *WAYS,
    *("choose", "final"),
)
MOST_RUNS = 100_000

_SAFE = re.compile(r"[A-Za-z0-9][\w.,=+-]*")  # what is the name of a folder everywhere


@dataclass(frozen=True)
class Variant:
    """Settings under a name. The name is a folder's; empty where the plan has one variant only."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    agent: str | None = None  # of a named variant, in place of the plan's agents
    bonus: str | None = None
    preset: str | None = None
    datasets: tuple[str, ...] = ()  # of the plan's, those that it is run on; none named: all
    seeds: tuple[int, ...] = ()  # the same


@dataclass(frozen=True)
class Choice:
    """How the winner among variants is found."""

    by: str = "last"
    policy: str = ""  # empty: each run's own
    per: str = "dataset"
    seeds: tuple[int, ...] = ()  # of the runs that are compared; empty: all of the plan


@dataclass(frozen=True)
class Plan:
    path: Path
    name: str
    out: Path
    datasets: tuple[str, ...]
    agents: tuple[str, ...] = ()  # none named: the preset's usual one
    bonuses: tuple[str, ...] = ()  # none named: each agent's usual one
    preset: str = PRESETS[0]
    seeds: tuple[int, ...] = (0,)
    fits: str = FITS[0]
    settings: dict[str, Any] = field(default_factory=dict)
    variants: tuple[Variant, ...] = (Variant(""),)
    choose: Choice | None = None
    final_seeds: tuple[int, ...] = ()  # of the runs with the chosen settings

    def runs_on(self, variant: Variant, dataset: str, seed: int) -> bool:
        """Whether the plan has a run of a variant on a dataset with a seed of its search."""
        return (not variant.datasets or dataset in variant.datasets) and (not variant.seeds or seed in variant.seeds)

    def refusal(self, key: str, what: str) -> TetherError:
        return TetherError(f"{self.path}: {key}: {what}")


class _Table:
    """A table of the file, whose entries are taken one by one; what is left over at the end is a mistake."""

    def __init__(self, path: Path, values: Any, known: tuple[str, ...], prefix: str = "") -> None:
        self.path, self.values, self.prefix = path, values, prefix
        if not isinstance(values, dict):
            raise self.wrong("", f"is {values!r}; it takes a table, [{prefix.rstrip('.')}]")
        for key in values:
            if key not in known:
                raise TetherError(f"{path}: no key {prefix}{key}{did_you_mean(key, known, prefix=prefix)}")

    def wrong(self, key: str, what: str) -> TetherError:
        return TetherError(f"{self.path}: {(self.prefix + key).rstrip('.')} {what}")

    def text(self, key: str, default: str, known: tuple[str, ...] = ()) -> str:
        value = self.values.get(key, default)
        if not isinstance(value, str) or (known and value not in known):
            takes = " or ".join(known) or "text"
            raise self.wrong(key, f"is {value!r}; it takes {takes}")
        return value

    def texts(self, key: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        such = {"datasets": ("hopper-medium-v2", "mine.hdf5"), "bonuses": ("density", "cvae")}.get(key, ("td3", "bc"))
        return self._list(key, default, str, f"names in quotes, such as {json.dumps(such)}")

    def seeds(self, key: str, default: tuple[int, ...] = ()) -> tuple[int, ...]:
        found = self._list(key, default, int, "whole numbers from 0 on, such as [0, 1, 2]")
        if any(not 0 <= seed < 2**32 for seed in found):
            raise self.wrong(key, f"is {list(found)}; seeds are at least 0 and below {2**32}")
        return found

    def whole(self, key: str, default: int | None = None) -> int | None:
        value = self.values.get(key, default)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
            raise self.wrong(key, f"is {value!r}; it takes a whole number")
        return value

    def _list(self, key: str, default: tuple[Any, ...], kind: type, takes: str) -> tuple[Any, ...]:
        if key not in self.values:
            return default
        value = self.values[key]
        if not isinstance(value, list) or not value or any(type(item) is not kind for item in value):
            raise self.wrong(key, f"is {value!r}; it takes a list of {takes}")
        twice = next((item for item in value if value.count(item) > 1), None)
        if twice is not None:
            raise self.wrong(key, f"has {twice!r} twice")
        return tuple(value)


def read_plan(path: Path, out: Path | None = None) -> Plan:
    """The plan in a file. `out` goes before the folder that it names."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TetherError(f"there is no plan {path}") from None
    except OSError as error:
        raise TetherError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TetherError(f"{path} is not valid TOML: {error}") from error
    table = _Table(path, content, KEYS)
    name = table.text("name", path.stem)
    if not _SAFE.fullmatch(name):
        raise table.wrong("name", f"is {name!r}; it takes letters, digits and . _ -")
    datasets = table.texts("datasets")
    if not datasets:
        raise TetherError(f'{path} names no datasets; datasets = ["halfcheetah-mixed-tether"] would do')
    settings = _flat(content.get("settings", {}), "settings", path)
    steps = table.whole("steps")
    if steps is not None:
        settings["training.steps"] = steps
    choose, final_seeds = _read_choice(path, content, seeds := table.seeds("seeds", (0,)))
    return Plan(
        path=path,
        name=name,
        out=out or Path(table.text("out", f"runs/{name}")).expanduser(),
        datasets=datasets,
        agents=table.texts("agents", Plan.agents),
        bonuses=table.texts("bonuses"),
        preset=table.text("preset", Plan.preset, PRESETS),
        seeds=seeds,
        fits=table.text("fits", Plan.fits, FITS),
        settings=settings,
        variants=_read_variants(path, content, datasets, seeds),
        choose=choose,
        final_seeds=final_seeds,
    )


def _read_choice(path: Path, content: dict[str, Any], seeds: tuple[int, ...]) -> tuple[Choice | None, tuple[int, ...]]:
    """How to choose, and the seeds of the final runs, which are none of those chosen on."""
    if "choose" not in content:
        if "final" in content:
            raise TetherError(f"{path}: [final] has the chosen settings, and there is no [choose]; {_example_choice()}")
        return None, ()
    table = _Table(path, content["choose"], ("by", "policy", "per", "seeds"), "choose.")
    choice = Choice(
        by=table.text("by", Choice.by, SCORES),
        policy=table.text("policy", ""),
        per=table.text("per", Choice.per, PER),
        seeds=table.seeds("seeds", seeds),
    )
    strange = [seed for seed in choice.seeds if seed not in seeds]
    if strange:
        raise table.wrong("seeds", f"has {strange[0]}, of which the plan has no runs; its seeds are {list(seeds)}")
    if "final" not in content:
        return choice, ()
    final = _Table(path, content["final"], ("seeds",), "final.")
    final_seeds = final.seeds("seeds")
    if not final_seeds:
        raise TetherError(f"{path}: [final] names no seeds; seeds = [10, 11, 12] would do")
    shared = [seed for seed in final_seeds if seed in seeds]
    if shared:
        raise final.wrong("seeds", f"has {shared[0]}, which the choice has seen; fresh ones are not among {list(seeds)}")
    return choice, final_seeds


def _example_choice() -> str:
    return 'by = "last" and per = "group" in [choose] would do'


def _read_variants(path: Path, content: dict[str, Any], datasets: tuple[str, ...], seeds: tuple[int, ...]) -> tuple[Variant, ...]:
    """What the runs differ in besides data, agent, bonus and seed."""
    given = [way for way in WAYS if way in content]
    if len(given) > 1:
        raise TetherError(f"{path} has both [{given[0]}] and [{given[1]}]; a plan has one of {', '.join(WAYS)}")
    if not given:
        return (Variant(""),)
    if given[0] == "variants":
        found = _named(path, content["variants"], datasets, seeds)
    else:
        found = {"grid": _grid, "random": _random}[given[0]](path, content[given[0]])
    names = [variant.name for variant in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise TetherError(f"{path}: {given[0]}: two variants are both called {twice}; they do not differ, or only past 6 digits")
    return found


def _grid(path: Path, values: Any) -> tuple[Variant, ...]:
    axes = _flat(values, "grid", path)
    for name, choices in axes.items():
        if not isinstance(choices, list) or not choices:
            raise TetherError(f"{path}: grid.{name} is {choices!r}; it takes a list of values, such as [0.1, 1, 10]")
    number = math.prod(map(len, axes.values()))
    if number > MOST_RUNS:
        raise TetherError(f"{path}: grid has {number:,} points; {MOST_RUNS:,} is the most")
    short = _short_names(list(axes))
    found = []
    for values in itertools.product(*axes.values()):
        settings = dict(zip(axes, values, strict=True))
        found.append(Variant(",".join(f"{short[name]}={_spell(value)}" for name, value in settings.items()), settings))
    return tuple(found)


def _random(path: Path, values: Any) -> tuple[Variant, ...]:
    kinds = ("uniform", "log_uniform", "choice")
    table = _Table(path, values, ("draws", "seed", *kinds), "random.")
    draws, seed = table.whole("draws"), table.whole("seed", 0)
    if not draws or draws > MOST_RUNS:
        raise table.wrong("draws", f"is {draws}; it takes a whole number from 1 to {MOST_RUNS:,}")
    axes = [(kind, *axis) for kind in kinds for axis in _flat(values.get(kind, {}), f"random.{kind}", path).items()]
    if not axes:
        raise TetherError(f"{path}: [random] draws nothing; log_uniform.agent.bonus_weight_actor = [0.1, 10] would do")
    for kind, name, of in axes:
        limits = kind != "choice"
        numbers = isinstance(of, list) and all(isinstance(item, int | float) and not isinstance(item, bool) for item in of)
        least = 0.0 if kind == "log_uniform" else -math.inf
        if limits and not (numbers and len(of) == 2 and least < of[0] < of[1] < math.inf):
            above = " above 0" if kind == "log_uniform" else ""
            raise TetherError(f"{path}: random.{kind}.{name} is {of!r}; it takes two numbers{above}, the lower first")
        if not limits and (not isinstance(of, list) or not of):
            raise TetherError(f"{path}: random.{kind}.{name} is {of!r}; it takes a list of values")
    # One generator for each setting, so that a setting more leaves the draws of the others as they are.
    streams = [random.Random(f"{seed}/{name}") for _, name, _ in axes]
    digits = len(str(draws - 1))
    return tuple(
        Variant(f"draw{number:0{digits}}", {n: _draw(r, kind, of) for r, (kind, n, of) in zip(streams, axes, strict=True)})
        for number in range(draws)
    )


def _draw(stream: random.Random, kind: str, of: list[Any]) -> Any:
    if kind == "choice":
        return stream.choice(of)
    if kind == "uniform":
        return _rounded(stream.uniform(*of))
    return _rounded(math.exp(stream.uniform(math.log(of[0]), math.log(of[1]))))


def _rounded(value: float) -> float:
    """Four digits: as good a draw, and one that people can read and type."""
    return float(f"{value:.4g}")


def _named(path: Path, values: Any, datasets: tuple[str, ...], seeds: tuple[int, ...]) -> tuple[Variant, ...]:
    if not isinstance(values, dict) or not values:
        raise TetherError(f'{path}: variants is {values!r}; it takes tables, such as [variants.cloning] with agent = "bc"')
    found = []
    for name, content in values.items():
        if not _SAFE.fullmatch(name):
            raise TetherError(f"{path}: variants.{name}: a name takes letters, digits and . _ -")
        if not isinstance(content, dict):
            raise TetherError(f"{path}: variants.{name} is {content!r}; it takes a table, [variants.{name}]")
        parts = {part: content[part] for part in ("agent", "bonus") if isinstance(content.get(part), str)}
        own = {key: content[key] for key in ("preset", "datasets", "seeds") if key in content}
        rest = {key: value for key, value in content.items() if key not in parts and key not in own}
        settings = _flat(rest, f"variants.{name}", path)
        table = _Table(path, own, ("preset", "datasets", "seeds"), f"variants.{name}.")
        mine, chosen = table.texts("datasets"), table.seeds("seeds")
        for key, strange, known in (("datasets", {*mine} - {*datasets}, datasets), ("seeds", {*chosen} - {*seeds}, seeds)):
            if strange:
                raise table.wrong(key, f"has {min(strange)!r}, which is not among the plan's: {', '.join(map(str, known))}")
        preset = table.text("preset", "", PRESETS) if "preset" in own else None
        found.append(Variant(name, settings, preset=preset, datasets=mine, seeds=chosen, **parts))
    return tuple(found)


def _flat(values: Any, where: str, path: Path) -> dict[str, Any]:
    """Settings by dotted name, whether the file has `agent.discount = 0.9`, a table `agent` or a name in quotes."""
    if not isinstance(values, dict):
        raise TetherError(f"{path}: {where} is {values!r}; it takes a table of settings, such as agent.discount = 0.98")
    return dict(_entries(values))


def _entries(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _entries(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _short_names(names: list[str]) -> dict[str, str]:
    """The last part of each name, where that is enough to tell them apart."""
    last = [name.rsplit(".", 1)[-1] for name in names]
    return {name: short if last.count(short) == 1 else name for name, short in zip(names, last, strict=True)}


def _spell(value: Any) -> str:
    """As a part of a folder's name."""
    if isinstance(value, list):
        return "x".join(map(_spell, value))
    if isinstance(value, float):
        return f"{value:g}"
    return re.sub(r"[^\w.+-]", "-", str(value).lower() if isinstance(value, bool) else str(value))

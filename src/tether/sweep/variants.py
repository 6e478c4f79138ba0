"""What the runs of a plan differ in besides data, agent, bonus and seed: a grid, random draws, or settings under a name."""

from __future__ import annotations

import itertools
import math
import random
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tether.errors import TetherError
from tether.presets import PRESETS
from tether.sweep.tables import Table, flat

WAYS = ("grid", "random", "variants")
MOST_RUNS = 100_000
SAFE = re.compile(r"[A-Za-z0-9][\w.,=+-]*")  # what is the name of a folder everywhere


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


def read_variants(path: Path, content: dict[str, Any], datasets: tuple[str, ...], seeds: tuple[int, ...]) -> tuple[Variant, ...]:
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
    axes = flat(values, "grid", path)
    if not axes:
        raise TetherError(f"{path}: [grid] has no settings; agent.bonus_weight_actor = [0.1, 1, 10] would do")
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
    table = Table(path, values, ("draws", "seed", *kinds), "random.")
    draws, seed = table.whole("draws"), table.whole("seed", 0)
    if draws is None:
        raise TetherError(f"{path}: [random] has no draws; draws = 20 would do")
    if not draws or draws > MOST_RUNS:
        raise table.wrong("draws", f"is {draws}; it takes a whole number from 1 to {MOST_RUNS:,}")
    axes = [(kind, *axis) for kind in kinds for axis in flat(values.get(kind, {}), f"random.{kind}", path).items()]
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
    # Without leading zeros, so that a draw more leaves the names of the others, and with them their runs, as they are.
    return tuple(
        Variant(f"draw{number}", {n: _draw(r, kind, of) for r, (kind, n, of) in zip(streams, axes, strict=True)})
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
        if not SAFE.fullmatch(name):
            raise TetherError(f"{path}: variants.{name}: a name takes letters, digits and . _ -")
        if not isinstance(content, dict):
            raise TetherError(f"{path}: variants.{name} is {content!r}; it takes a table, [variants.{name}]")
        for part, such in (("agent", "td3"), ("bonus", "density")):
            if not isinstance(content.get(part, ""), str | dict):
                takes = f'it takes a name in quotes, such as "{such}", or a table of settings'
                raise TetherError(f"{path}: variants.{name}.{part} is {content[part]!r}; {takes}")
        parts = {part: content[part] for part in ("agent", "bonus") if isinstance(content.get(part), str)}
        own = {key: content[key] for key in ("preset", "datasets", "seeds") if key in content}
        rest = {key: value for key, value in content.items() if key not in parts and key not in own}
        settings = flat(rest, f"variants.{name}", path)
        table = Table(path, own, ("preset", "datasets", "seeds"), f"variants.{name}.")
        mine, chosen = table.texts("datasets"), table.seeds("seeds")
        for key, strange, known in (("datasets", {*mine} - {*datasets}, datasets), ("seeds", {*chosen} - {*seeds}, seeds)):
            if strange:
                raise table.wrong(key, f"has {min(strange)!r}, which is not among the plan's: {', '.join(map(str, known))}")
        preset = table.text("preset", "", PRESETS) if "preset" in own else None
        found.append(Variant(name, settings, preset=preset, datasets=mine, seeds=chosen, **parts))
    return tuple(found)


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

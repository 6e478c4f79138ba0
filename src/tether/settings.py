"""Frozen dataclasses as settings: to and from JSON and `name=value` text, by the types of their fields.

What a number may be stands in its type, beside the field: `discount: ShareBelowOne = 0.99`. A setting may itself be a group of
settings, and is then named with a dot: `agent.optimiser.clip_norm`.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

from tether.errors import TetherError, did_you_mean
from tether.extending import address_of, at_address

T = TypeVar("T")

FORMER_NAMES = {"held_out": "held_out_share"}  # what settings were called in files of earlier versions, and are called now

_BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


@dataclass(frozen=True)
class Limits:
    """What a number of an annotated type may be. A type without them takes any number but NaN."""

    low: float
    high: float = math.inf
    below: bool = False  # `high` itself is too much

    def refusal(self, number: float) -> str | None:
        """What it must be, where it is not."""
        if self.low <= number < self.high or (number == self.high and not self.below):
            return None
        if self.high == math.inf or (number < self.low and not self.below) or (self.low == 0 and number < 0):
            return "must not be negative" if self.low == 0 else f"must be at least {self.low:g}"
        return f"must be at least {self.low:g} and below {self.high:.10g}" if self.below else f"must be at most {self.high:g}"


Size: TypeAlias = Annotated[int, Limits(1)]  # sizes, periods and numbers of things
Steps: TypeAlias = Annotated[int, Limits(0)]
Seed: TypeAlias = Annotated[int, Limits(0, 2**32, below=True)]  # JAX takes 32 bits: a larger seed would repeat a smaller one
Amount: TypeAlias = Annotated[float, Limits(0)]  # weights, rates and noise
Positive: TypeAlias = Annotated[float, Limits(1e-6)]  # what is divided by
Share: TypeAlias = Annotated[float, Limits(0, 1)]
ShareAboveZero: TypeAlias = Annotated[float, Limits(1e-3, 1)]
ShareBelowOne: TypeAlias = Annotated[float, Limits(0, 1, below=True)]


def parse(text: str) -> tuple[str, str]:
    """`agent.discount=0.9` as name and text."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise TetherError(f"cannot read {text!r} as a setting; write it as NAME=VALUE, such as agent.discount=0.98")
    return name.strip(), value.strip()


def described(kind: type) -> list[tuple[str, str, str]]:
    """Name, default and comment of every setting. The comment is the one beside the field: written once, where it is read."""
    source = {}
    for line in inspect.getsource(kind).splitlines():
        code, _, comment = line.partition("  # ")
        source[code.partition(":")[0].strip()] = comment
    found = []
    for field in dataclasses.fields(kind):
        if dataclasses.is_dataclass(field.default):
            inner = described(type(field.default))
            values = {name: _as_text(getattr(field.default, name)) for name, _, _ in inner}
            found += [(f"{field.name}.{name}", values[name], comment) for name, _, comment in inner]
        else:
            found.append((field.name, _as_text(field.default), source.get(field.name, "")))
    return found


def _as_text(value: Any) -> str:
    """As --set would take it."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def to_plain(settings: Any) -> dict[str, Any]:
    """Nested dictionaries of what JSON has."""
    return json.loads(json.dumps(dataclasses.asdict(settings)))


def to_named(part: Any, registry: Mapping[str, type]) -> dict[str, Any]:
    """The same of an agent or a bonus, with the name that its registry has for it."""
    name = next((name for name, kind in registry.items() if kind is type(part)), None)
    if name is None:
        name = address_of(type(part), "bonus" if hasattr(part, "novelty") else "agent")
    return {"name": name, **to_plain(part)}


def from_named(plain: Mapping[str, Any], registry: Mapping[str, type[T]], section: str) -> T:
    """The agent or bonus that `to_named` wrote, maybe long ago.

    A setting newer than the file gets what the class says it was `formerly`, or else its default. One that the class names as
    `gone` is passed over, and one that it has `dropped` where the file has the value that the class goes by now.
    """
    kind = choose(registry, str(plain.get("name")), section)
    defaults, past = to_plain(kind()) | getattr(kind, "formerly", {}), ("name", *getattr(kind, "gone", ()))
    dropped = getattr(kind, "dropped", {})
    given = {
        name if name in defaults else FORMER_NAMES.get(name, name): value
        for name, value in plain.items()
        if name not in past and not (name in dropped and value == dropped[name])
    }
    return build(kind, merged(defaults, given), section)


def choose(registry: Mapping[str, type[T]], name: str, section: str) -> type[T]:
    """By name, or by an address `module:Class`."""
    if ":" in name:
        return at_address(name, section)
    if name not in registry:
        raise TetherError(f"no {section} {name!r}{did_you_mean(name, registry)}")
    return registry[name]


def merged(defaults: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """`given` over `defaults`, group by group."""
    both = {name for name in given if isinstance(given[name], dict) and isinstance(defaults.get(name), dict)}
    return defaults | {name: merged(defaults[name], value) if name in both else value for name, value in given.items()}


def changed(settings: T, name: str, value: Any, where: str) -> T:
    """`settings` with one field changed, of a group in it where the name has a dot. `where` is its section's name."""
    kind = type(settings)
    first, _, rest = name.partition(".")
    known = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    if first not in known:
        now = FORMER_NAMES.get(first)
        hint = f"; it is called {where}.{now} now" if now in known else did_you_mean(first, known, prefix=f"{where}.")
        raise TetherError(f"no setting {where}.{first}{hint}")
    inner = getattr(settings, first)
    if dataclasses.is_dataclass(inner) and not dataclasses.is_dataclass(value):
        if not rest:
            names = ", ".join(f"{where}.{first}.{field.name}" for field in dataclasses.fields(inner))
            raise TetherError(f"{where}.{first} is a group of settings: {names}")
        new: Any = changed(inner, rest, value, f"{where}.{first}")
    elif rest:
        raise TetherError(f"no setting {where}.{name}: {where}.{first} is not a group of settings")
    else:
        new = convert(value, _hints(kind)[first], f"{where}.{first}")
    return dataclasses.replace(settings, **{first: new})  # type: ignore[type-var]


def build(kind: type[T], given: Mapping[str, Any], where: str, **built: Any) -> T:
    """A `kind` from exactly the fields it has, each converted; those in `built` are taken as they are."""
    hints = _hints(kind)
    prefix = f"{where}." if where else ""
    fields = [field.name for field in dataclasses.fields(kind) if field.name not in built]  # type: ignore[arg-type]
    for name in given:
        if name not in fields:
            raise TetherError(f"no setting {prefix}{name}{did_you_mean(name, fields, prefix=prefix)}")
    for name in fields:
        if name not in given:
            raise TetherError(f"setting {prefix}{name} is missing")
    return kind(**{name: convert(value, hints[name], prefix + name) for name, value in given.items()}, **built)


def check(settings: Any, where: str) -> None:
    """Refuse a value that is not of its field's type, and a number that is not within its limits."""
    prefix = f"{where}." if where else ""
    hints = _hints(type(settings))
    for field in dataclasses.fields(settings):
        value, name = getattr(settings, field.name), prefix + field.name
        if dataclasses.is_dataclass(value):
            check(value, name)
            continue
        hint = hints[field.name]
        if not _fits(value, hint):
            raise TetherError(f"{name} is {value!r}; it takes {_spell(hint, in_python=True)}")
        of_items = get_args(hint)[0] if get_origin(hint) is tuple else hint
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, int | float):
                _check_number(number, of_items, name)


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of the type already. In Python nothing has read it as that type."""
    if get_origin(hint) is Annotated:
        return _fits(value, get_args(hint)[0])
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if get_origin(hint) is tuple:
        kinds = get_args(hint)
        wanted = (kinds[0],) * max(len(value), 1) if isinstance(value, tuple) and kinds[-1] is ... else kinds
        return isinstance(value, tuple) and len(value) == len(wanted) and all(map(_fits, value, wanted))
    if hint in (int, float):
        return isinstance(value, numbers.Integral if hint is int else numbers.Real) and not isinstance(value, bool)
    return hint not in (bool, str) or isinstance(value, hint)


def _check_number(number: float, hint: Any, name: str) -> None:
    if math.isnan(number):
        raise TetherError(f"{name} is nan; it must be a number")
    limits = next((mark for mark in getattr(hint, "__metadata__", ()) if isinstance(mark, Limits)), None)
    refusal = limits.refusal(number) if limits else None
    if refusal:
        raise TetherError(f"{name} is {number}; it {refusal}")


def _hints(kind: type) -> dict[str, Any]:
    """Read once: they are evaluated from text, and a plan of thousands of runs asks for them tens of thousands of times."""
    if kind not in _HINTS:
        _HINTS[kind] = get_type_hints(kind, include_extras=True)
    return _HINTS[kind]


_HINTS: dict[type, dict[str, Any]] = {}


def convert(value: Any, hint: Any, name: str) -> Any:
    """`value`, which may be text, as the type of the setting; an error says what the setting takes."""
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, dict):
            raise TetherError(f"{name} is {value!r}; it takes a group of settings")
        return build(hint, value, name)  # type: ignore[arg-type]
    try:
        return _converted(value, hint)
    except (ValueError, KeyError, TypeError) as error:
        raise TetherError(f"{name} is {value!r}; it takes {_spell(hint)}") from error


def _converted(value: Any, hint: Any) -> Any:
    if get_origin(hint) is Annotated:
        return _converted(value, get_args(hint)[0])
    if get_origin(hint) is Literal:
        return get_args(hint)[get_args(hint).index(value)]
    if get_origin(hint) is tuple:
        items = value.strip("()[] ").split(",") if isinstance(value, str) else list(value)
        kinds = get_args(hint)
        if kinds[-1] is ...:
            kinds = (kinds[0],) * max(len(items), 1)  # any number but none
        return tuple(_converted(item, kind) for item, kind in zip(items, kinds, strict=True))
    if hint is bool:
        return _BOOLEANS[str(value).lower()]
    if isinstance(value, bool) or (hint is str and not isinstance(value, str)):
        raise TypeError
    if hint is int and isinstance(value, float) and not value.is_integer():
        raise ValueError
    return hint(value)


def _spell(hint: Any, in_python: bool = False) -> str:
    if get_origin(hint) is Annotated:
        return _spell(get_args(hint)[0])
    if get_origin(hint) is Literal:
        return " or ".join(map(str, get_args(hint)))
    if get_origin(hint) is tuple:
        number = "" if get_args(hint)[-1] is ... else f"{len(get_args(hint))} "
        if in_python:
            return f"a tuple of {number}numbers, such as (256, 256)"
        return f"{number}numbers with a comma between, such as 256,256"
    return {int: "a whole number", float: "a number", bool: "true or false", str: "text"}[hint]

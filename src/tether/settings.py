"""Frozen dataclasses as settings: to and from JSON and `name=value` text, by the types of their fields."""

from __future__ import annotations

import dataclasses
import inspect
import json
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from tether.errors import TetherError, did_you_mean

T = TypeVar("T")

_BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


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
    return [(field.name, _as_text(field.default), source.get(field.name, "")) for field in dataclasses.fields(kind)]


def _as_text(value: Any) -> str:
    """As --set would take it."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def to_plain(settings: Any) -> dict[str, Any]:
    """Nested dictionaries of what JSON has."""
    return json.loads(json.dumps(dataclasses.asdict(settings)))


def changed(settings: T, name: str, value: Any, where: str) -> T:
    """`settings` with one field changed. `where` is its section's name, for the message of an error."""
    kind = type(settings)
    known = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    if name not in known:
        raise TetherError(f"no setting {where}.{name}{did_you_mean(name, known, prefix=f'{where}.')}")
    return dataclasses.replace(settings, **{name: convert(value, get_type_hints(kind)[name], f"{where}.{name}")})  # type: ignore[type-var]


def build(kind: type[T], given: dict[str, Any], where: str, **built: Any) -> T:
    """A `kind` from exactly the fields it has, each converted; those in `built` are taken as they are."""
    hints = get_type_hints(kind)
    prefix = f"{where}." if where else ""
    fields = [field.name for field in dataclasses.fields(kind) if field.name not in built]  # type: ignore[arg-type]
    for name in given:
        if name not in fields:
            raise TetherError(f"no setting {prefix}{name}{did_you_mean(name, fields, prefix=prefix)}")
    for name in fields:
        if name not in given:
            raise TetherError(f"setting {prefix}{name} is missing")
    return kind(**{name: convert(value, hints[name], prefix + name) for name, value in given.items()}, **built)


def convert(value: Any, hint: Any, name: str) -> Any:
    """`value`, which may be text, as the type of the setting; an error says what the setting takes."""
    try:
        return _converted(value, hint)
    except (ValueError, KeyError, TypeError) as error:
        raise TetherError(f"{name} is {value!r}; it takes {_spell(hint)}") from error


def _converted(value: Any, hint: Any) -> Any:
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


def _spell(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return " or ".join(map(str, get_args(hint)))
    if get_origin(hint) is tuple:
        number = "" if get_args(hint)[-1] is ... else f"{len(get_args(hint))} "
        return f"{number}numbers with a comma between, such as 256,256"
    return {int: "a whole number", float: "a number", bool: "true or false", str: "text"}[hint]

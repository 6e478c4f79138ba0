"""Agents and bonuses that are not Tether's own: by an address `module:Class`, by a name given here, or by an installed package.

A package names its own as entry points of the groups `tether.agents` and `tether.bonuses`. docs/extending.md shows all three.
"""

from __future__ import annotations

import dataclasses
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Any

from tether.errors import TetherError
from tether.registry import load

METHODS = {
    "agent": ("init", "update", "policies", "value"),
    "bonus": ("init", "update", "frozen", "novelty"),
}
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")


def register(parts: dict[str, type[Any]], name: str, kind: type, what: str) -> None:
    """Make it known among `parts` in this process under a name."""
    if not _NAME.fullmatch(name):
        raise TetherError(f"the {what}'s name is {name!r}; a name has small letters, digits and hyphens, such as my-{what}")
    if name in parts and parts[name] is not kind:
        raise TetherError(f"there is an {what} {name!r} already; choose another name".replace("an bonus", "a bonus"))
    _check(kind, what)
    parts[name] = kind


def add_installed(parts: dict[str, type[Any]], what: str) -> dict[str, type[Any]]:
    """The parts, and those that installed packages name. One that cannot be had is said and left out: it must not stop others."""
    for point in entry_points(group=f"tether.{'agents' if what == 'agent' else 'bonuses'}"):
        try:
            register(parts, point.name, point.load(), what)
        except Exception as error:
            warnings.warn(f"the {what} {point.name!r} of {point.value} is left out: {error}", stacklevel=2)
    return parts


def at_address(address: str, what: str) -> type[Any]:
    """What stands at `module:Class`, in an installed module or in one of the current folder."""
    module = address.partition(":")[0]
    try:
        with modules_of_the_folder():
            kind = load(address)
    except (ImportError, AttributeError, ValueError) as error:
        raise TetherError(
            f"no {what} {address!r}: {error}; {module} must be an installed module, or {module}.py in the current folder"
        ) from error
    _check(kind, what)
    return kind


@contextmanager
def modules_of_the_folder() -> Iterator[None]:
    """Modules of the current folder can be imported too: a command that is installed does not look there by itself."""
    here = os.getcwd()
    added = here not in sys.path
    if added:
        sys.path.append(here)
    try:
        yield
    finally:
        if added:
            sys.path.remove(here)


def address_of(kind: type, what: str) -> str:
    """By which it is found again in another process."""
    address = f"{kind.__module__}:{kind.__qualname__}"
    found: Any = None
    if kind.__module__ != "__main__" and "<locals>" not in address:
        try:
            found = at_address(address, what)
        except TetherError:
            found = None
    if found is not kind:
        raise TetherError(
            f"{kind.__name__} is not known by any name, and {address} does not lead to it from elsewhere; put it into a "
            f"module of its own, or give it a name: tether.register_{what}('my-{what}', {kind.__name__})"
        )
    return address


def _check(kind: Any, what: str) -> None:
    if not isinstance(kind, type) or not dataclasses.is_dataclass(kind) or not kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        raise TetherError(f"{kind!r} is no {what}: a frozen dataclass is, whose fields are its settings")
    missing = [name for name in ("traits", "batch_shape", *METHODS[what]) if not hasattr(kind, name)]
    if missing:
        raise TetherError(f"{kind.__name__} is no {what}: it lacks {', '.join(missing)}; docs/extending.md has a whole one")

"""The tables of a plan's file, read entry by entry. Whatever is wrong is said with the file, the key and what would do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tether.errors import TetherError, did_you_mean


class Table:
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
            raise self.wrong(key, f"is {value!r}; it takes a whole number, such as 10_000")
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


def flat(values: Any, where: str, path: Path) -> dict[str, Any]:
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


def quotes_advice(text: str, error: str) -> str:
    """Where a table of the file has both `agent = "bc"` and `agent.best_share = 0.1`: the latter in quotes would do."""
    place = re.match(r"Cannot overwrite a value \(at (?:line (\d+)|end of document)", error)
    if place is None:
        return ""
    lines = [line.strip() for line in text.splitlines()[: int(place[1]) if place[1] else None]]
    start = max((number for number, line in enumerate(lines) if line.startswith("[")), default=0)
    for part, name in (("agent", "an agent"), ("bonus", "a bonus")):
        named = any(re.match(rf"{part}\s*=", line) for line in lines[start:])
        setting = next((found for line in lines[start:] if (found := re.match(rf"({part}\.[\w.]+)\s*=\s*(.*)", line))), None)
        if named and setting:
            return f'; a variant with {name} has its settings in quotes, "{setting[1]}" = {setting[2]}'
    return ""

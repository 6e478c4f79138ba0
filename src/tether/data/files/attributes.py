"""The attributes of an HDF5 file as plain values. A file can say anything, so only small and plain ones are ever read."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from tether.data.bounds import are_bounds
from tether.errors import TetherError

# Attributes with a meaning of their own; all others tell where a file is from.
MEANT = ("env_id", "action_low", "action_high", "num_actions", "observation_shape")
MOST_ATTRIBUTES = 1_000
MOST_ENTRIES = 10_000
MOST_TEXT = 2**24  # bytes
DEEPEST = 300  # levels of JSON; a hundred generations of provenance


def plain_attributes(file: h5py.File, path: Path) -> dict[str, Any]:
    """Text, numbers and lists of them, by name. Text that is a JSON object is read as one. What is not plain is left out."""
    found: dict[str, Any] = {}
    few = len(file.attrs) <= MOST_ATTRIBUTES
    for name in file.attrs if few else [name for name in (*MEANT, "provenance") if name in file.attrs]:
        if not isinstance(name, str) or not name.isprintable():  # h5py gives bytes for what is no text
            continue
        attribute = file.attrs.get_id(name)
        if _is_plain(attribute):
            found[name] = _plain(file.attrs[name])
        elif name in MEANT:
            what = f"type {attribute.dtype!s:.100} and shape {attribute.shape}"
            raise TetherError(f"{path.name}: attribute {name} has {what}, which means nothing here")
    return found


def environment_of(attributes: dict[str, Any], path: Path) -> str | None:
    """The `env_id`. Gymnasium imports the module of an id like `module:Name-v0`, so a file must not name one."""
    value = attributes.get("env_id")
    if value is None:
        return None
    if not isinstance(value, str) or not is_plain_env_id(value):
        raise TetherError(f"{path.name}: attribute env_id is {value!r:.100}, expected the id of an environment such as Hopper-v4")
    return value


def is_plain_env_id(text: str) -> bool:
    """Whether making the environment imports no module that the id names."""
    return re.fullmatch(r"[\w.-]+(/[\w.-]+)?", text) is not None


def bounds_of(attributes: dict[str, Any], size: int, path: Path) -> tuple[np.ndarray, np.ndarray] | None:
    """Lowest and highest action, each (size,) float64, where the file records them."""
    if "action_low" not in attributes and "action_high" not in attributes:
        return None
    values = [attributes.get(name) for name in ("action_low", "action_high")]
    try:
        low, high = (np.asarray(value, dtype=np.float64) for value in values)
        sound = low.shape == high.shape == (size,) and bool((low < high).all())
    except (ValueError, TypeError):
        sound = False
    if not sound:
        raise TetherError(f"{path.name}: attributes action_low and action_high are no bounds of {size} numbers with low < high")
    return (low, high) if are_bounds(low, high) else None  # infinite, or the largest float: the action has none


def provenance_of(attributes: dict[str, Any]) -> dict[str, Any]:
    """What Tether wrote about how the file was made; else all that its attributes say."""
    provenance = attributes.get("provenance")
    if isinstance(provenance, dict):
        return provenance
    return {name: value for name, value in attributes.items() if name not in MEANT}


def read_provenance(path: Path) -> dict[str, Any]:
    """The provenance of a file without its columns; empty where it cannot be read."""
    try:
        with h5py.File(path, "r") as file:
            return provenance_of(plain_attributes(file, path))
    except (TetherError, OSError, RuntimeError, KeyError, ValueError, TypeError):
        return {}


def _is_plain(attribute: h5py.h5a.AttrID) -> bool:
    if attribute.get_space().get_simple_extent_type() == h5py.h5s.NULL:
        return False
    entries, dtype = math.prod(attribute.shape), attribute.dtype
    if h5py.check_string_dtype(dtype) is not None:
        return entries <= MOST_ENTRIES and entries * dtype.itemsize <= MOST_TEXT
    return dtype.kind in "fiub" and entries <= MOST_ENTRIES


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return [_plain(entry) for entry in value]
    if isinstance(value, str | bytes):
        raw = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else bytes(value)
        return _text_or_object(raw.decode("utf-8", "replace"))
    return float(value) if isinstance(value, np.floating) else value.item()  # a long double is its own item


def _text_or_object(text: str) -> Any:
    if not text.startswith("{"):
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # no JSON, or nested deeper than Python goes
        return text
    return value if _is_shallow(value) else text


def _is_shallow(value: Any) -> bool:
    """Whether whoever walks through it, or writes it, can do so by recursion."""
    level = [value]
    for _ in range(DEEPEST):
        level = [inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer)]
        level = [inner for inner in level if isinstance(inner, dict | list)]
        if not level:
            return True
    return False

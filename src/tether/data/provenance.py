"""How a dataset came to be: the operation, its arguments and the parents, each with its own provenance, back to the files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from tether.data.dataset import Dataset
from tether.errors import TetherError

RECORDED_PARTS = "observation_parts"  # in the provenance of what was read from Minari


def derivation(operation: str, arguments: dict[str, Any], parents: Sequence[Dataset]) -> dict[str, Any]:
    """The provenance of what `operation` made of `parents`: plain values, for a JSON attribute."""
    return {
        "operation": operation,
        "arguments": arguments,
        "parents": [
            {
                "name": parent.name,
                "sha256": parent.sha256,
                "env_id": parent.env_id,
                "notes": asdict(parent.notes),  # what reading it changed: the rows of a child come after that
                "provenance": parent.provenance,
            }
            for parent in parents
        ],
        "tether_version": _tether_version(),
    }


def derivation_from_files(operation: str, arguments: dict[str, Any], sha256_by_name: dict[str, str]) -> dict[str, Any]:
    """The same where the parents are files that hold no dataset yet."""
    parents = [{"name": name, "sha256": sha256, "provenance": {}} for name, sha256 in sha256_by_name.items()]
    return {"operation": operation, "arguments": arguments, "parents": parents, "tether_version": _tether_version()}


def imported_columns(provenance: dict[str, Any]) -> dict[str, Any] | None:
    """Which column of the user's tables each number of an observation and an action is; None for what was not imported.

    Also of what was split from or filtered out of an import, and of several joined where they agree.
    """
    if not _is_derivation(provenance):
        return None
    if provenance["operation"] in ("import", "arrays"):
        columns = provenance["arguments"].get("columns")
        return columns if isinstance(columns, dict) else None
    found = [imported_columns(parent["provenance"]) for parent in provenance["parents"]]
    return found[0] if found and all(columns == found[0] for columns in found) else None


def check_columns(name: str, columns: dict[str, Any] | None, other: str, others: dict[str, Any] | None) -> None:
    """Refuse two that are known to have other columns, or the same in another order. None: nobody knows."""
    if columns is not None and others is not None and columns != others:
        raise TetherError(
            f"{name} has other columns than {other}: {columns} and {others}; import it with the same, in that order"
        )


def ancestors(provenance: dict[str, Any]) -> set[str]:
    """The sha256 of all that it was made of, back to the files."""
    if not _is_derivation(provenance):
        return set()
    found = {str(parent["sha256"]) for parent in provenance["parents"]}
    return found.union(*(ancestors(parent["provenance"]) for parent in provenance["parents"]))


def drawn_singly(provenance: dict[str, Any]) -> bool:
    """Whether rows were drawn from it one by one, so that neighbours need not follow each other."""
    if not _is_derivation(provenance):
        return False
    here = provenance["operation"] == "subsample" and "transitions" in provenance["arguments"]
    return here or any(drawn_singly(parent["provenance"]) for parent in provenance["parents"])


def recorded_parts(provenance: dict[str, Any]) -> str | None:
    """The parts that observations had where they were recorded, "" for a plain vector; None where nobody knows.

    An environment that is made anew by its id must show the same: a wrapper that took observations apart is not in the id.
    """
    if not _is_derivation(provenance):
        parts = provenance.get(RECORDED_PARTS)
        return parts if isinstance(parts, str) else None
    found = [recorded_parts(parent["provenance"]) for parent in provenance["parents"]]
    return found[0] if found and all(parts == found[0] for parts in found) else None


def describe_provenance(provenance: dict[str, Any], depth: int = 0) -> list[str]:
    """One line an operation, one a parent, indented by generation; a file's own attributes on one line."""
    margin = "  " * depth
    if not _is_derivation(provenance):
        facts = ", ".join(f"{_spell(name)} {_spell(value)}" for name, value in provenance.items() if not isinstance(value, dict))
        return [f"{margin}{facts}"] if facts else []
    arguments = ", ".join(f"{_spell(name)} {_spell(value)}" for name, value in provenance["arguments"].items())
    lines = [f"{margin}{_spell(provenance['operation'])}{f' ({arguments})' if arguments else ''} of"]
    for parent in provenance["parents"]:
        lines.append(f"{margin}  {_spell(parent['name'])} {_spell(parent['sha256'])[:12]}…{_reading(parent.get('notes'))}")
        lines += describe_provenance(parent["provenance"], depth + 2)
    return lines


def _is_derivation(provenance: dict[str, Any]) -> bool:
    """Whether it has the form of `derivation`. A file can say anything."""
    parents = provenance.get("parents")
    return (
        isinstance(provenance.get("operation"), str)
        and isinstance(provenance.get("arguments"), dict)
        and isinstance(parents, list)
        and all(isinstance(p, dict) and {"name", "sha256"} <= p.keys() and isinstance(p.get("provenance"), dict) for p in parents)
    )


def _reading(notes: Any) -> str:
    """What reading the parent changed of its rows."""
    labels = {"rows_dropped": "rows dropped", "action_entries_clipped": "action entries clipped"}
    counts = {label: notes.get(name) if isinstance(notes, dict) else None for name, label in labels.items()}
    changes = ", ".join(f"{count:,} {label}" for label, count in counts.items() if isinstance(count, int) and count)
    return f" ({changes})" if changes else ""


def _spell(value: Any) -> str:
    if isinstance(value, dict):
        return "{…}"
    if isinstance(value, list):
        shown = [_spell(entry) if not isinstance(entry, list) else "[…]" for entry in value[:4]]
        return "[" + ", ".join([*shown, "…"] if len(value) > 4 else shown) + "]"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return "".join(letter if letter.isprintable() else "�" for letter in text)


def _tether_version() -> str | None:
    try:
        return version("tether-rl")
    except PackageNotFoundError:  # run from a folder of sources
        return None

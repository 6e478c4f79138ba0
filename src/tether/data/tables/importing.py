"""From tables to a dataset file: read, check, put in order, bound the actions, write, and say all that was found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tether.data.attributes import is_plain_env_id
from tether.data.bounds import action_bounds, measured_bounds
from tether.data.d4rl import sha256_of
from tether.data.provenance import derivation_from_files
from tether.data.tables.episodes import Log, RowFindings, arrange
from tether.data.tables.files import TableFile, find_files, open_table, read_table, unit_of
from tether.data.tables.roles import Roles, find_roles
from tether.data.tables.values import Values, flags, labels, numbers, times
from tether.errors import TetherError
from tether.types import Batch, Spec

if TYPE_CHECKING:
    import pyarrow

NOTHING = "none"  # as --terminated: no row is a true end


@dataclass(frozen=True)
class ImportOptions:
    """What the columns are and what to do with what does not fit."""

    observation: tuple[str, ...]
    action: tuple[str, ...]
    reward: str
    terminated: str  # a column, or NOTHING
    truncated: str | None = None
    episode: str | None = None
    time: str | None = None
    episode_ids: str | None = None  # "per-file" or "across-files"; None: an id that is in two files is an error
    max_gap: float | None = None
    drop_incomplete_rows: bool = False
    action_low: tuple[float, ...] | None = None  # one for all actions, or one each
    action_high: tuple[float, ...] | None = None
    env_id: str | None = None


class ColumnFacts(NamedTuple):
    name: str
    role: str
    type: str  # as the first file has it
    unit: str | None
    low: float
    mean: float
    high: float
    std: float


@dataclass(frozen=True)
class Imported:
    """The rows as they go into the file, and all that is to be said about them."""

    rows: Batch  # without successors: next_observation repeats the observation and is not written
    truncated: np.ndarray  # (M,) bool
    spec: Spec
    attributes: dict[str, Any]
    columns: list[ColumnFacts]
    findings: RowFindings
    assumptions: list[str]


def import_tables(given: Sequence[Path], options: ImportOptions, on_file: Callable[[int], None] = lambda done: None) -> Imported:
    """Read tables as one dataset. Nothing is written."""
    if options.env_id is not None and not is_plain_env_id(options.env_id):
        raise TetherError(f"--env-id is {options.env_id!r}, expected the id of an environment such as Hopper-v4")
    if options.max_gap is not None and options.time is None:
        raise TetherError("--max-gap is a length of time, which only --time can tell")
    paths = find_files(given)
    files = [open_table(path) for path in paths]
    terminated = None if options.terminated == NOTHING else options.terminated
    roles = find_roles(
        files, options.observation, options.action, options.reward, terminated, options.truncated, options.episode, options.time
    )
    log, types = _read(files, roles, options, on_file)
    kept = arrange(log, options.max_gap)
    observation, action, reward = log.observation[kept.order], log.action[kept.order], log.reward[kept.order]
    ends = log.terminated[kept.order]
    if not (ends | ~kept.last).any():
        raise TetherError("no row has a successor: every episode is one row that does not terminate; is --episode right?")
    low, high, bounds_from = _bounds(action, options)
    attributes = {
        "action_low": low.astype(np.float64),
        "action_high": high.astype(np.float64),
        "provenance": _provenance(paths, roles, options, bounds_from, kept.findings),
    }
    if options.env_id is not None:
        attributes["env_id"] = options.env_id
    return Imported(
        rows=Batch(observation, action, reward, observation, ends.astype(np.float32)),
        truncated=kept.last & ~ends,
        spec=Spec(observation.shape[1], tuple(low.tolist()), tuple(high.tolist())),
        attributes=attributes,
        columns=_column_facts(files[0], roles, types, observation, action, reward),
        findings=kept.findings,
        assumptions=_assumptions(roles, options, len(files), bounds_from),
    )


def _read(
    files: list[TableFile], roles: Roles, options: ImportOptions, on_file: Callable[[int], None]
) -> tuple[Log, dict[str, str]]:
    parts: list[dict[str, Values]] = []
    types: dict[str, str] = {}
    for done, file in enumerate(files, start=1):
        table = read_table(file, list(roles.by_column))
        if not table.num_rows:
            raise TetherError(f"{file.name}: has no rows")
        types = types or {name: str(table.schema.field(name).type) for name in table.schema.names}
        part = {name: _values(table, file.name, name, role) for name, role in roles.by_column.items()}
        if not options.drop_incomplete_rows:
            _refuse_incomplete(part, file.name)
        parts.append(part)
        on_file(done)

    def joined(name: str) -> np.ndarray:
        return np.concatenate([part[name].values for part in parts])

    def matrix(names: tuple[str, ...]) -> np.ndarray:
        return np.stack([joined(name).astype(np.float32) for name in names], axis=1)

    rows = [len(part[roles.reward].values) for part in parts]
    file_of = np.repeat(np.arange(len(files)), rows)
    missing = [np.logical_or.reduce([column.missing for column in part.values()]) for part in parts]
    never = np.zeros(sum(rows), dtype=bool)
    return Log(
        observation=matrix(roles.observation),
        action=matrix(roles.action),
        reward=joined(roles.reward).astype(np.float32),
        terminated=never if roles.terminated is None else joined(roles.terminated),
        truncated=never if roles.truncated is None else joined(roles.truncated),
        episode=None if roles.episode is None else _episode_numbers(parts, files, roles.episode, file_of, options.episode_ids),
        time=None if roles.time is None else np.concatenate([_filled(part[roles.time]) for part in parts]),
        incomplete=np.concatenate(missing),
        file=file_of,
        row=np.concatenate([np.arange(count) for count in rows]),
        names=tuple(file.name for file in files),
    ), types


def _values(table: pyarrow.Table, file: str, name: str, role: str) -> Values:
    convert = {"terminated": flags, "truncated": flags, "episode": labels, "time": times}.get(role, numbers)
    return convert(table.column(name), f"{file}: column {name!r}")


def _refuse_incomplete(part: dict[str, Values], file: str) -> None:
    count = int(np.logical_or.reduce([column.missing for column in part.values()]).sum())
    if not count:
        return
    row, name = min((int(np.argmax(column.missing)), name) for name, column in part.items() if column.missing.any())
    raise TetherError(
        f"{file}, row {row + 1}: column {name!r} is empty or not a finite number ({count:,} such rows in this file); mend them, "
        "or give --drop-incomplete-rows to leave them out and cut their episodes there"
    )


def _filled(column: Values) -> np.ndarray:
    """With a missing entry taken from the row before, so that a row that is to be dropped is dropped in its place."""
    known = np.maximum.accumulate(np.where(column.missing, -1, np.arange(len(column.values))))
    known[known < 0] = int(np.argmax(~column.missing))
    return column.values[known]


def _episode_numbers(
    parts: list[dict[str, Values]], files: list[TableFile], name: str, file_of: np.ndarray, scope: str | None
) -> np.ndarray:
    """(N,) one number an episode. Whether an id that two files have is one episode or two, only the user knows."""
    names, numbers = np.unique(np.concatenate([_filled(part[name]) for part in parts]), return_inverse=True)
    if scope == "across-files":
        return numbers
    if scope is None:
        first: dict[int, int] = {}
        for number, file in {*zip(numbers.tolist(), file_of.tolist(), strict=True)}:
            other = first.setdefault(number, file)
            if other != file:
                one, two = sorted((other, file))
                raise TetherError(
                    f"{files[two].name}: has an episode {str(names[number])!r}, as {files[one].name} has; say "
                    "--episode-ids per-file if they are two, --episode-ids across-files if it is one that goes on"
                )
    return np.unique(numbers + len(names) * file_of, return_inverse=True)[1]


def _bounds(action: np.ndarray, options: ImportOptions) -> tuple[np.ndarray, np.ndarray, str]:
    """Lowest and highest action, each (A,), in the log's own units, and where they are from."""
    size = action.shape[1]
    if (options.action_low is None) != (options.action_high is None):
        raise TetherError("give both --action-low and --action-high, or neither")
    if options.action_low is not None and options.action_high is not None:
        sides = []
        for name, given in (("low", options.action_low), ("high", options.action_high)):
            if len(given) not in (1, size):
                raise TetherError(f"--action-{name} has {len(given)} numbers; give one for all actions or one for each of {size}")
            sides.append(np.broadcast_to(np.asarray(given, np.float32), (size,)))
        low, high = sides
        if not (np.isfinite([low, high]).all() and (low < high).all()):
            raise TetherError("--action-low must be below --action-high for every action, and both finite")
        return low, high, "given"
    low, high, found = action_bounds(action, options.env_id)
    return (low, high, found) if found == "environment" else (*measured_bounds(action), "measured")


def _provenance(
    paths: list[Path], roles: Roles, options: ImportOptions, bounds_from: str, findings: RowFindings
) -> dict[str, Any]:
    columns = {"observation": list(roles.observation), "action": list(roles.action), **roles.singles}
    arguments = {
        "columns": columns,
        "action_bounds": bounds_from,
        "episode_ids": options.episode_ids,
        "max_gap": options.max_gap,
        "drop_incomplete_rows": options.drop_incomplete_rows,
        "found": asdict(findings),
    }
    return derivation_from_files("import", arguments, {path.name: sha256_of(path) for path in paths})


def _column_facts(
    file: TableFile, roles: Roles, types: dict[str, str], observation: np.ndarray, action: np.ndarray, reward: np.ndarray
) -> list[ColumnFacts]:
    """Of every column of numbers, over the rows that are kept."""
    every = [*((name, "observation", observation[:, i]) for i, name in enumerate(roles.observation))]
    every += [(name, "action", action[:, i]) for i, name in enumerate(roles.action)]
    every += [(roles.reward, "reward", reward)]
    return [
        ColumnFacts(
            name=name,
            role=role,
            type=types[name],
            unit=unit_of(file.schema.field(name)),
            low=float(values.min()),
            mean=float(np.mean(values, dtype=np.float64)),
            high=float(values.max()),
            std=float(np.std(values, dtype=np.float64)),
        )
        for name, role, values in every
    ]


def _assumptions(roles: Roles, options: ImportOptions, files: int, bounds_from: str) -> list[str]:
    """What the log does not say and is therefore taken for granted."""
    ends = [name for name in ("terminated", "truncated") if getattr(roles, name) is not None]
    said = []
    if roles.episode is None:
        cuts = f"after a row that is {' or '.join(ends)}, and " if ends else ""
        said.append(f"no --episode: an episode ends {cuts}with {'its file' if files == 1 else 'each file'}")
    if roles.time is None:
        said.append("no --time: rows are in order, at even steps; gaps cannot be found")
    if roles.truncated is None:
        said.append("no --truncated: an episode that does not end in a terminated row was cut off, and its last row is dropped")
    if roles.terminated is None:
        said.append("--terminated none: no row is a true end; the value of what follows is learnt from everywhere")
    wording = {
        "given": "action bounds are those given",
        "environment": f"action bounds are those of {options.env_id}",
        "measured": "action bounds are measured: the range of each action, widened by a hundredth on each side",
    }
    return [*said, f"{wording[bounds_from]}; actions stay in the log's own units, and so are the policy's"]

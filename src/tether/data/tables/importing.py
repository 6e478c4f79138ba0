"""From tables to a dataset file: read, check, put in order, bound the actions, write, and say all that was found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tether.data.choices import one_hot
from tether.data.files.attributes import is_plain_env_id
from tether.data.files.d4rl import sha256_of
from tether.data.provenance import derivation_from_files
from tether.data.tables.actions import Bounds, find_bounds, find_choices, look_like_choices
from tether.data.tables.episodes import Log, RowFindings, arrange
from tether.data.tables.files import TableFile, find_files, open_table, read_table, unit_of
from tether.data.tables.roles import Roles, find_roles
from tether.data.tables.values import Values, chosen, flags, labels, numbers, times
from tether.errors import TetherError
from tether.types import Batch, Spec, discrete_spec

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
    action_choices: tuple[str, ...] | None = None  # how many there are, or the name of each; None: those of the environment
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
    returns: np.ndarray | None = None  # (E,) of each episode, where its rows alone do not tell
    choices: tuple[str, ...] = ()  # the names of discrete actions by number; () where actions are continuous


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
    choices = find_choices(options.action_choices, options.env_id, roles.action)
    if choices and not (options.action_low is options.action_high is None):
        raise TetherError("choices have no bounds: leave out --action-low and --action-high")
    log, types = _read(files, roles, choices, options, on_file)
    kept = arrange(log, options.max_gap)
    observation, action, reward = log.observation[kept.order], log.action[kept.order], log.reward[kept.order]
    ends = log.terminated[kept.order]
    if not (ends | ~kept.last).any():
        raise TetherError("no row has a successor: every episode is one row that does not terminate; is --episode right?")
    bounds = None if choices else find_bounds(action, options.action_low, options.action_high, options.env_id)
    attributes: dict[str, Any] = {"provenance": _provenance(files, roles, options, bounds, choices, kept.findings)}
    if options.env_id is not None:
        attributes["env_id"] = options.env_id
    if bounds is None:
        spec, as_stored = discrete_spec(observation.shape[1], len(choices)), one_hot(action, len(choices), paths[0])
    else:
        spec, as_stored = Spec(observation.shape[1], tuple(bounds.low.tolist()), tuple(bounds.high.tolist())), action
        attributes |= {"action_low": bounds.low.astype(np.float64), "action_high": bounds.high.astype(np.float64)}
    return Imported(
        rows=Batch(observation, as_stored, reward, observation, ends.astype(np.float32)),
        truncated=kept.last & ~ends,
        spec=spec,
        attributes=attributes,
        columns=_column_facts(files[0], roles, types, observation, action, reward),
        findings=kept.findings,
        assumptions=[
            *_assumptions(roles, len(files), options.env_id),
            _about_choices(choices, options) if bounds is None else _about_bounds(bounds, action, options),
        ],
        returns=kept.returns,
        choices=choices,
    )


def _read(
    files: list[TableFile], roles: Roles, choices: tuple[str, ...], options: ImportOptions, on_file: Callable[[int], None]
) -> tuple[Log, dict[str, str]]:
    parts: list[dict[str, Values]] = []
    types: dict[str, str] = {}
    for done, file in enumerate(files, start=1):
        table = read_table(file, list(roles.by_column))
        if not table.num_rows:
            raise TetherError(f"{file.name}: has no rows")
        types = types or {name: str(table.schema.field(name).type) for name in table.schema.names}
        part = {name: _values(table, file.name, name, role, choices) for name, role in roles.by_column.items()}
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


def _values(table: pyarrow.Table, file: str, name: str, role: str, choices: tuple[str, ...]) -> Values:
    if role == "action" and choices:
        return chosen(table.column(name), f"{file}: column {name!r}", choices)
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


def _provenance(
    files: list[TableFile],
    roles: Roles,
    options: ImportOptions,
    bounds: Bounds | None,
    choices: tuple[str, ...],
    findings: RowFindings,
) -> dict[str, Any]:
    columns: dict[str, Any] = {"observation": list(roles.observation), "action": list(roles.action), **roles.singles}
    if choices:
        columns["choices"] = list(choices)
    named = {name: unit_of(files[0].schema.field(name)) for name in (*roles.observation, *roles.action)}
    if any(named.values()):
        columns["units"] = {name: unit for name, unit in named.items() if unit}
    arguments = {
        "columns": columns,
        **({} if bounds is None else {"action_bounds": bounds.source}),
        "episode_ids": options.episode_ids,
        "max_gap": options.max_gap,
        "drop_incomplete_rows": options.drop_incomplete_rows,
        "found": asdict(findings),
    }
    return derivation_from_files("import", arguments, {file.path.name: sha256_of(file.path) for file in files})


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


def _assumptions(roles: Roles, files: int, env_id: str | None) -> list[str]:
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
    if env_id is not None:
        said.append(f"{env_id} has its observations in this order: {', '.join(roles.observation)}")
    return said


def _about_choices(choices: tuple[str, ...], options: ImportOptions) -> str:
    source = f"those of {options.env_id}" if options.action_choices is None else "those given"
    return f"actions are {len(choices)} choices, {source}; their order is that of the policy's"


def _about_bounds(bounds: Bounds, action: np.ndarray, options: ImportOptions) -> str:
    wording = {
        "given": "action bounds are those given",
        "environment": f"action bounds are those of {options.env_id}",
        "measured": "action bounds are measured: the range of each action, widened by a hundredth on each side",
    }
    number = look_like_choices(action)
    doubt = f"; every action is a whole number, so if it is a choice, say --action-choices {number}" if number else ""
    return f"{wording[bounds.source]}; actions stay in the log's own units, and so are the policy's{doubt}"

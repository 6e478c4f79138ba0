"""From tables to a dataset file: read, check, put in order, bound the actions, write, and say all that was found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tether.data.choices import one_hot
from tether.data.files.attributes import is_plain_env_id
from tether.data.files.d4rl import sha256_of
from tether.data.provenance import derivation_from_files
from tether.data.tables.actions import Bounds, find_bounds, find_choices, look_like_choices
from tether.data.tables.dates import spell_time
from tether.data.tables.dialect import CsvOptions
from tether.data.tables.episodes import Log, RowFindings, arrange
from tether.data.tables.files import TableFile, find_files, open_table, passed_over, unit_of
from tether.data.tables.reading import ReadOptions, read_log
from tether.data.tables.roles import Roles, compare_units, find_roles
from tether.errors import TetherError
from tether.types import Batch, Spec, discrete_spec

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
    episode_ids: str | None = None  # "per-file", "across-files" or "per-stretch"; None: an id that is in two files is an error
    max_gap: float | None = None
    drop_incomplete_rows: bool = False
    action_low: tuple[float, ...] | None = None  # one for all actions, or one each
    action_high: tuple[float, ...] | None = None
    action_choices: tuple[str, ...] | None = None  # how many there are, or the name of each; None: those of the environment
    env_id: str | None = None
    written: CsvOptions = CsvOptions()  # noqa: RUF009 -- frozen
    time_format: str | None = None  # day-first, month-first, year-first or a pattern; None: guessed
    time_zone: str | None = None  # of a local clock; "none": it never changes
    duplicates: str | None = None  # "first" or "last" of different rows of one time; None: an error


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
    _check_options(options)
    paths = find_files(given)
    files = [open_table(path, options.written) for path in paths]
    terminated = None if options.terminated == NOTHING else options.terminated
    roles = find_roles(
        files, options.observation, options.action, options.reward, terminated, options.truncated, options.episode, options.time
    )
    about_units = compare_units(files, roles)
    choices = find_choices(options.action_choices, options.env_id, roles.action)
    if choices and not (options.action_low is options.action_high is None):
        raise TetherError("choices have no bounds: leave out --action-low and --action-high")
    if options.env_id is not None:
        _check_sizes(options.env_id, roles, choices)
    how = ReadOptions(
        options.written.decimal, options.time_format, options.time_zone, options.episode_ids, options.drop_incomplete_rows
    )
    read = read_log(files, roles, choices, how, on_file)
    log = read.log
    kept = arrange(log, options.max_gap, options.duplicates)
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
        columns=_column_facts(files[0], roles, read.types, observation, action, reward),
        findings=kept.findings,
        assumptions=[
            *passed_over(given),
            *_how_written(files),
            *about_units,
            *read.told,
            *_about_times(log, roles.time, kept.order),
            *_about_ids(kept.findings, roles.time),
            *_assumptions(roles, len(files), options.env_id),
            _about_choices(choices, options) if bounds is None else _about_bounds(bounds, action, options),
        ],
        returns=kept.returns,
        choices=choices,
    )


def _check_options(options: ImportOptions) -> None:
    if options.env_id is not None and not is_plain_env_id(options.env_id):
        id = options.env_id
        mend = f"; a file may not name a module to run, so say --set evaluation.env_id={id} when training" if ":" in id else ""
        raise TetherError(f"--env-id is {id!r}, expected the id of an environment such as Hopper-v4{mend}")
    if options.time is None:
        for name, value in (("max-gap", options.max_gap), ("time-format", options.time_format), ("time-zone", options.time_zone)):
            if value is not None:
                raise TetherError(f"--{name} is about time, and no --time says which column that is")
        if options.duplicates is not None:
            raise TetherError("--duplicates is about rows of one time, and no --time says which column that is")
    if options.episode is None and options.episode_ids is not None:
        raise TetherError("--episode-ids is about the ids of episodes, and no --episode says which column has them")
    if options.max_gap is not None and not options.max_gap > 0:
        raise TetherError(f"--max-gap is {options.max_gap:g}; it must be above 0")


def _check_sizes(env_id: str, roles: Roles, choices: tuple[str, ...]) -> None:
    """Refuse an environment that is not there, or not that of the log."""
    from tether.environments.making import make_environment

    actions = len(choices) or len(roles.action)
    spec = (
        discrete_spec(len(roles.observation), actions)
        if choices
        else Spec(len(roles.observation), (-1.0,) * actions, (1.0,) * actions)
    )
    try:
        make_environment(env_id, spec).close()
    except TetherError as error:
        raise TetherError(f"--env-id {env_id}: {error}".replace("the dataset has", "the log has")) from error


def _how_written(files: list[TableFile]) -> list[str]:
    """What was guessed about the files, those of one kind together."""
    by_text: dict[str, list[str]] = {}
    for file in files:
        if file.dialect is not None and file.dialect.told:
            by_text.setdefault("; ".join(file.dialect.told), []).append(file.name)
    return [f"{names[0]}{f' and {len(names) - 1} more' * (len(names) > 1)}: {text}" for text, names in by_text.items()]


def _about_times(log: Log, name: str | None, order: np.ndarray) -> list[str]:
    if log.time is None or log.time_kind not in ("clock", "moment"):
        return []
    first, last = (spell_time(float(value), log.time_kind) for value in (log.time[order].min(), log.time[order].max()))
    zone = " UTC" if log.time_kind == "moment" else " of a clock whose zone is not said"
    return [f"{name} is from {first} to {last}{zone}"]


def _about_ids(findings: RowFindings, time: str | None) -> list[str]:
    if not findings.comes_back:
        return []
    count, order = findings.comes_back, "rows" if time is None else time
    return [
        f"an episode's id that follows again after another one is the same episode, in the order of {order} ({count:,} places, "
        f"the first {findings.comes_back_at}); --episode-ids per-stretch makes every unbroken stretch an episode of its own"
    ]


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
        **{name: value for name in ("duplicates", "time_format", "time_zone") if (value := getattr(options, name)) is not None},
        **{name: value for name, value in asdict(options.written).items() if value is not None},
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

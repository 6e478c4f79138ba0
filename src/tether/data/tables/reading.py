"""The tables of a log as one: every column of every file as what it is, in the order of the files."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tether.data.tables import marks
from tether.data.tables.clocks import find_zone, past_midnight, repeated_hour, to_utc
from tether.data.tables.dates import DAY, Times, read_times, spell_time
from tether.data.tables.episodes import Log
from tether.data.tables.files import TableFile, read_table
from tether.data.tables.places import Where
from tether.data.tables.roles import Roles
from tether.data.tables.separated import Separated
from tether.data.tables.values import Values, chosen, episode_ids, flags, is_text, numbers, times
from tether.errors import TetherError


class ReadOptions(NamedTuple):
    """Of `ImportOptions`, what reading needs."""

    decimal: str | None
    time_format: str | None
    time_zone: str | None
    episode_ids: str | None
    drop_incomplete_rows: bool


class Read(NamedTuple):
    log: Log
    types: dict[str, str]  # of the columns, as the first file has them
    told: list[str]  # what was understood that could have been meant otherwise


@dataclass
class _File:
    """A file on its way: its text until it is known what that means, then its values."""

    file: TableFile
    read: Separated
    found: marks.Evidence
    decimal: str | None
    values: dict[str, Values] = field(default_factory=dict)
    times: Times | None = None

    def where(self, column: str) -> Where:
        return Where(self.file.name, column, self.read.lines)


def read_log(
    files: list[TableFile], roles: Roles, choices: tuple[str, ...], options: ReadOptions, on_file: Callable[[int], None]
) -> Read:
    """All rows. What one file leaves open (a decimal mark, the order of day and month) another may settle."""
    told: dict[str, None] = {}
    parts: list[_File] = []
    waiting: list[_File] = []
    types: dict[str, str] = {}
    for done, file in enumerate(files, start=1):
        part = _open(file, roles, options)
        types = types or _types(part)
        parts.append(part)
        if part.decimal is None:
            waiting.append(part)
        else:
            _convert(part, roles, choices, options.time_format, told)
        on_file(done)
    for part in waiting:
        part.decimal = _as_others(part, parts)
        told[f"{part.file.name}: {part.found.unclear!r} has its decimal mark where other files have it ({part.decimal})"] = None
        _convert(part, roles, choices, options.time_format, told)
    commas = [part.file.name for part in parts if part.decimal == "," and options.decimal is None]
    if commas:
        more = f" and {len(commas) - 1} more" if len(commas) > 1 else ""
        told = {f"{commas[0]}{more}: the comma is the decimal mark": None, **told}
    told |= dict.fromkeys(_about_lines(parts))
    kind = None if roles.time is None else _settle_times(parts, roles, options, told)
    for part in parts:
        if not options.drop_incomplete_rows:
            _refuse_incomplete(part)
    log = _joined(parts, roles, options, kind, told)
    if kind == "clock" and options.time_zone is None:
        _refuse_repeated_hour(log)
    return Read(log, types, list(told))


def _open(file: TableFile, roles: Roles, options: ReadOptions) -> _File:
    read = read_table(file, list(roles.by_column), options.drop_incomplete_rows)
    if not read.table.num_rows:
        raise TetherError(f"{file.name}: has no rows")
    text = [
        read.table.column(name)
        for name, role in roles.by_column.items()
        if role in ("observation", "action", "reward", "time") and is_text(read.table.column(name))
    ]
    delimiter = file.dialect.delimiter if file.dialect else ","
    if options.decimal is not None:
        return _File(file, read, marks.Evidence({}, None), options.decimal)
    found = marks.evidence(text)
    return _File(file, read, found, marks.decide(found, delimiter, file.name))


def _types(part: _File) -> dict[str, str]:
    schema = part.read.table.schema
    return {name: "text" if part.file.dialect else str(schema.field(name).type) for name in schema.names}


def _as_others(part: _File, parts: list[_File]) -> str:
    """The decimal mark of the other files that are written alike, where they agree."""
    dialect = part.file.dialect
    alike = [other for other in parts if other.found.decimal and dialect and other.file.dialect]
    decimals = {other.decimal for other in alike if other.file.dialect.delimiter == dialect.delimiter}  # type: ignore[union-attr]
    if len(decimals) != 1:
        raise marks.ask(part.found, part.file.name)
    return str(decimals.pop())


def _about_lines(parts: list[_File]) -> list[str]:
    """Of CSV files: lines that are not one row each, those of all files together."""
    said = []
    commented = [part for part in parts if part.read.comments]
    if commented:
        count = sum(part.read.comments for part in commented)
        said.append(f"{_and_more(commented)}: {count:,} comment {'lines stand' if count > 1 else 'line stands'} between rows")
    several = [part for part in parts if part.read.over_lines]
    if several:
        count, first = sum(len(part.read.over_lines) for part in several), several[0].read.over_lines[0]
        go = "quoted fields go" if count > 1 else "quoted field goes"
        said.append(f"{_and_more(several)}: {count:,} {go} over several lines, the first at line {first:,}")
    return said


def _and_more(parts: list[_File]) -> str:
    return parts[0].file.name + (f" and {len(parts) - 1} more" if len(parts) > 1 else "")


def _convert(part: _File, roles: Roles, choices: tuple[str, ...], time_format: str | None, told: dict[str, None]) -> None:
    decimal = part.decimal or "."

    def tell(text: str) -> None:
        what = text.partition(", as of")[0]  # one example will do
        if not any(known.startswith(what) for known in told):
            told[text] = None

    for name, role in roles.by_column.items():
        column, where = part.read.table.column(name), part.where(name)
        if role == "action" and choices:
            part.values[name] = chosen(column, where, choices, decimal)
        elif role in ("terminated", "truncated"):
            part.values[name] = flags(column, where, decimal)
        elif role == "episode":
            part.values[name] = episode_ids(column, where)
        elif role == "time":
            part.times = times(column, where, decimal, time_format, tell)
        else:
            part.values[name] = numbers(column, where, decimal, tell)
    kept = [name for name in part.read.table.schema.names if name == roles.time]
    part.read = part.read._replace(table=part.read.table.select(kept))  # of the rest, text is no longer needed


def _settle_times(parts: list[_File], roles: Roles, options: ReadOptions, told: dict[str, None]) -> str | None:
    """Times of all files, of one kind."""
    name = str(roles.time)
    in_text = [part for part in parts if part.times is None]
    read, guessed = read_times([(part.read.table.column(name), part.where(name)) for part in in_text], options.time_format)
    told |= dict.fromkeys(guessed)
    for part, found in zip(in_text, read, strict=True):
        part.times = found
    kinds = {part.times.kind: part.file.name for part in parts if part.times is not None}
    if len(kinds) > 1:
        words = {
            None: "numbers",
            "clock": "dates without a time zone",
            "moment": "dates with one",
            "of day": "times without a date",
        }
        listed = ", ".join(f"{words.get(kind, kind)} ({file})" for kind, file in kinds.items())
        raise TetherError(f"column {name!r} is not the same in every file: {listed}")
    kind = next(iter(kinds))
    if kind == "of day":
        what = "one" if roles.episode is None else "one of an episode"
        told[f"times have no date: where {what} falls by more than half a day, midnight has passed"] = None
    zone = None
    if options.time_zone not in (None, "none"):
        if kind != "clock":
            raise TetherError(f"--time-zone is for dates without a zone, which column {name!r} does not have")
        zone = find_zone(str(options.time_zone))
    for part in parts:
        assert part.times is not None
        if zone is not None:
            part.times, doubtful = to_utc(part.times, zone, part.where(name))
            if doubtful:
                told[f"{part.file.name}: {doubtful:,} rows are of an hour that {zone.key} has twice; taken for the first"] = None
        part.values[name] = Values(part.times.values, part.times.missing)
    return "moment" if zone is not None else kind


def _joined(parts: list[_File], roles: Roles, options: ReadOptions, kind: str | None, told: dict[str, None]) -> Log:
    def joined(name: str) -> np.ndarray:
        return np.concatenate([part.values[name].values for part in parts])

    def matrix(names: tuple[str, ...]) -> np.ndarray:
        return np.stack([joined(name).astype(np.float32) for name in names], axis=1)

    rows = [len(part.values[roles.reward].values) for part in parts]
    file_of = np.repeat(np.arange(len(parts)), rows)
    missing = [np.logical_or.reduce([column.missing for column in part.values.values()]) for part in parts]
    never = np.zeros(sum(rows), dtype=bool)
    episode, ids = (
        (None, None) if roles.episode is None else _episode_numbers(parts, roles.episode, file_of, options.episode_ids, told)
    )
    times = None if roles.time is None else _gone_on(parts, roles.time, file_of, episode, kind)
    return Log(
        observation=matrix(roles.observation),
        action=matrix(roles.action),
        reward=joined(roles.reward).astype(np.float32),
        terminated=never if roles.terminated is None else joined(roles.terminated),
        truncated=never if roles.truncated is None else joined(roles.truncated),
        episode=episode,
        time=times,
        incomplete=np.concatenate(missing),
        file=file_of,
        row=np.concatenate([np.arange(count) for count in rows]),
        names=tuple(part.file.name for part in parts),
        lines=tuple(part.read.lines for part in parts),
        time_kind=kind,
        ids=ids,
    )


def _gone_on(parts: list[_File], name: str, file_of: np.ndarray, episode: np.ndarray | None, kind: str | None) -> np.ndarray:
    """(N,) times, those of day with the days that have passed since the episode began."""
    columns = [part.values[name] for part in parts]
    if kind == "of day":
        time, missing = (np.concatenate(arrays) for arrays in zip(*columns, strict=True))
        time, rise = past_midnight(time, missing, file_of if episode is None else episode)
        begins = np.searchsorted(file_of, np.arange(len(parts)))
        if rise is not None and episode is not None:
            was, now = (spell_time(float(time[row] % DAY), kind) for row in rise)
            file = int(file_of[rise[1]])
            raise TetherError(
                f"{parts[file].where(name)} rises from {was} to {now} within an episode, in "
                f"{parts[file].where(name).at(int(rise[1] - begins[file]))}: is the newest row first, or has half a day "
                "passed? Times without a date do not tell; put the rows in the order of time, or give --time a column with dates"
            )
        columns = [Values(*pair) for pair in zip(np.split(time, begins[1:]), np.split(missing, begins[1:]), strict=True)]
    return np.concatenate([_filled(column) for column in columns])


def _refuse_incomplete(part: _File) -> None:
    columns = part.values
    count = int(np.logical_or.reduce([column.missing for column in columns.values()]).sum())
    if not count:
        return
    row, name = min((int(np.argmax(column.missing)), name) for name, column in columns.items() if column.missing.any())
    raise TetherError(
        f"{part.file.name}, {part.where(name).at(row)}: column {name!r} is empty or not a finite number ({count:,} such rows "
        "in this file); mend them, or give --drop-incomplete-rows to leave them out and cut their episodes there"
    )


def _refuse_repeated_hour(log: Log) -> None:
    assert log.time is not None
    complete = np.flatnonzero(~log.incomplete)
    found = repeated_hour(log.time[complete], (log.file if log.episode is None else log.episode)[complete])
    if found is not None:
        rows = complete[list(found)]
        was, now = (spell_time(float(value), log.time_kind) for value in log.time[rows])
        raise TetherError(
            f"{log.place(rows[1])}: the time goes back by an hour, from {was} to {now}, as a clock does where summer time ends; "
            "say where it stands, such as --time-zone Europe/Berlin, or --time-zone none if it never changes"
        )


def _filled(column: Values) -> np.ndarray:
    """With a missing entry taken from the row before, so that a row that is to be dropped is dropped in its place."""
    known = np.maximum.accumulate(np.where(column.missing, -1, np.arange(len(column.values))))
    known[known < 0] = int(np.argmax(~column.missing))
    return column.values[known]


def _episode_numbers(
    parts: list[_File], name: str, file_of: np.ndarray, scope: str | None, told: dict[str, None]
) -> tuple[np.ndarray, np.ndarray]:
    """(N,) one number an episode, and (E,) their ids. Whether an id that two files have is one episode or two, only the user
    knows."""
    names, number_of = np.unique(np.concatenate([_filled(part.values[name]) for part in parts]), return_inverse=True)
    whole = np.array([re.sub(r"^([+-]?[0-9]+)[.,]0+$", r"\1", text) for text in names.tolist()])
    if len(np.unique(whole)) < len(names):  # 7 and 7.0: programs that write tables make floats of whole numbers with gaps
        told[f"{name}: ids such as {str(names[names != whole][0])!r} are those without the decimal mark"] = None
        names, merged = np.unique(whole, return_inverse=True)
        number_of = merged[number_of]
    if scope == "across-files":
        return number_of, names
    if scope == "per-stretch":
        begins = np.concatenate([[True], (np.diff(number_of) != 0) | (np.diff(file_of) != 0)])
        return np.cumsum(begins) - 1, names[number_of[begins]]
    if scope is None:
        first: dict[int, int] = {}
        for number, file in {*zip(number_of.tolist(), file_of.tolist(), strict=True)}:
            other = first.setdefault(number, file)
            if other != file:
                one, two = (parts[place].file.name for place in sorted((other, file)))
                raise TetherError(
                    f"{two}: has an episode {str(names[number])!r}, as {one} has; say "
                    "--episode-ids per-file if they are two, --episode-ids across-files if it is one that goes on"
                )
    found, episode = np.unique(number_of + len(names) * file_of, return_inverse=True)
    return episode, names[found % len(names)]

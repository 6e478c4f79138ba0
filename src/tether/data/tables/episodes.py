"""Rows of a log as episodes: in order, without duplicates, cut where they do not go on.

A log has no successors of its own: that of a row is the next row of its episode. So what matters is that no two rows stand
beside each other that were not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tether.data.tables.dates import spell_time
from tether.data.tables.places import spell_row
from tether.errors import TetherError

IRREGULAR = 1.5  # a step in time that is longer than so many median steps is a gap


class Log(NamedTuple):
    """The rows of all files one after the other, as they were read."""

    observation: np.ndarray  # (N, O) float32
    action: np.ndarray  # (N, A) float32
    reward: np.ndarray  # (N,) float32
    terminated: np.ndarray  # (N,) bool
    truncated: np.ndarray  # (N,) bool
    episode: np.ndarray | None  # (N,) int64: equal for rows of one episode; None: the log does not say
    time: np.ndarray | None  # (N,) float64
    incomplete: np.ndarray  # (N,) bool: an entry is missing; such rows are dropped
    file: np.ndarray  # (N,) int64: which file it is from
    row: np.ndarray  # (N,) int64: its place there, from 0
    names: tuple[str, ...]  # of the files
    lines: tuple[np.ndarray | None, ...]  # of each file, the line of each row, where it is not plain
    time_kind: str | None  # see `dates.Times`
    ids: np.ndarray | None = None  # (E,) of str: what the log calls episode 0, 1, ...

    def place(self, index: int) -> str:
        """`log.csv, row 17`, counted from 1."""
        return f"{self.names[self.file[index]]}, {spell_row(int(self.row[index]), self.lines[self.file[index]])}"


@dataclass(frozen=True)
class RowFindings:
    """What was found in the rows and what was done about it."""

    rows_read: int
    incomplete_dropped: int = 0
    duplicates_dropped: int = 0
    conflicts_dropped: int = 0  # rows of the time of another, with other values, of which the user keeps one
    repeats: int = 0  # rows equal to the one before, where there is no time to tell whether they are one
    reordered: int = 0  # rows that were not where their time puts them
    median_step: float | None = None  # in the unit of the time
    gaps: int = 0  # steps longer than IRREGULAR medians
    gaps_cut: int = 0  # steps longer than what was asked for
    longest_gap: float | None = None
    longest_gap_at: str = ""  # the row after it
    after_end: int = 0  # rows of an episode that come after its end
    time_kind: str | None = None  # see `dates.Times`
    lone: int = 0  # pieces of one row that did not terminate: no successor is known, so they give no transition
    comes_back: int = 0  # places where an episode's id follows again in its file after another one
    comes_back_at: str = ""  # the first of them


class Rows(NamedTuple):
    """The rows that are kept, in order, and where each episode ends."""

    order: np.ndarray  # (M,) places in the log
    last: np.ndarray  # (M,) bool: the last row of its episode
    findings: RowFindings
    returns: np.ndarray | None = None  # (E,) float64, where an episode was cut into pieces: of the whole of it, for each piece


def arrange(log: Log, max_gap: float | None = None, keep: str | None = None) -> Rows:
    """Put rows in order and find where episodes end.

    Where the log names episodes, rows are sorted by time within each; else their order is that of the files, and a file begins
    an episode. An episode ends at a terminated or truncated row, where an incomplete row was dropped, and at a step in time
    longer than `max_gap`. Of different rows of one time, `keep` the "first" or the "last".

    A piece of an episode keeps the return of the whole, as far as it is known: by its own rewards the piece with the fewest costs
    would pass for the best episode.
    """
    order, reordered = _order(log)
    begins = _group_begins(log, order) | _after(log.terminated[order] | log.truncated[order])
    recorded = np.zeros(len(order), dtype=np.int64)  # the number of the row's episode before it is cut, by its place in the log
    recorded[order] = np.cumsum(begins) - 1
    order, begins = _without(log.incomplete[order], order, begins, cut=True)
    if not len(order):
        raise TetherError("no complete row is left")
    same = _equal_to_before(log, order)
    comes_back, comes_back_at = _comes_back(log, order, same)
    duplicates = conflicts = np.zeros_like(same)
    if log.time is not None:
        duplicates, conflicts = _duplicates(log, order, begins, same, keep)
        order, begins = _without(duplicates | conflicts, order, begins)
    findings = RowFindings(
        rows_read=len(log.reward),
        incomplete_dropped=int(log.incomplete.sum()),
        duplicates_dropped=int(duplicates.sum()),
        conflicts_dropped=int(conflicts.sum()),
        time_kind=log.time_kind,
        repeats=int((same & ~begins).sum()) if log.time is None else 0,
        reordered=reordered,
        after_end=_after_end(log, order),
        comes_back=comes_back,
        comes_back_at=comes_back_at,
    )
    uncut = begins
    begins, findings = _cut_gaps(log, order, begins, max_gap, findings)
    if log.episode is None:  # nothing but the gap tells episodes apart
        recorded = recorded * len(recorded)
        recorded[order] += np.cumsum(begins & ~uncut)
    last = np.concatenate([begins[1:], [True]])
    lone = int((begins & last & ~log.terminated[order]).sum())
    return Rows(order, last, replace(findings, lone=lone), _whole_returns(log, order, recorded, begins))


def _whole_returns(log: Log, order: np.ndarray, recorded: np.ndarray, begins: np.ndarray) -> np.ndarray | None:
    """(E,) the return of the episode of which each is a piece; None where all are whole, and the sum of their rewards says it."""
    of_piece = recorded[order[begins]]
    if len(np.unique(of_piece)) == len(of_piece) and not log.incomplete.any():
        return None
    rows = np.concatenate([order, np.flatnonzero(log.incomplete)])  # without duplicates, with what is known of dropped rows
    reward = np.nan_to_num(log.reward[rows].astype(np.float64), posinf=0.0, neginf=0.0)
    numbers, places = np.unique(recorded[rows], return_inverse=True)
    return np.bincount(places, weights=reward)[np.searchsorted(numbers, of_piece)]


def _order(log: Log) -> tuple[np.ndarray, int]:
    """Episodes by their first row, rows by time within, ties as in the files; and how many rows were not in that order."""
    rows = np.arange(len(log.reward))
    if log.episode is None:
        return rows, 0
    _, first, number = np.unique(log.episode, return_index=True, return_inverse=True)
    grouped = np.lexsort((rows, first[number]))
    if log.time is None:
        return grouped, 0
    order = np.lexsort((rows, log.time, first[number]))
    return order, int((order != grouped).sum())


def _comes_back(log: Log, order: np.ndarray, same: np.ndarray) -> tuple[int, str]:
    """How often an id follows again in its file after another one, and where first; an error where it seems to be another run.

    A logger that counts its runs from the start again gives the ids of old runs to new ones; taken for one episode, the last row
    of the old run would have the first of the new one as its successor. Machines that are logged side by side return to each
    other's ids, too, but after a row or so.
    """
    if log.episode is None:
        return 0, ""
    stretch = np.cumsum(np.concatenate([[False], (np.diff(log.episode) != 0) | (np.diff(log.file) != 0)]))
    rows = np.sort(order)
    if log.time is not None:  # a block that was written twice is no new run
        repeats = same & np.concatenate([[False], np.diff(log.time[order]) == 0]) & ~_group_begins(log, order)
        rows = np.sort(order[~repeats])
    _, first, lengths = np.unique(stretch[rows], return_index=True, return_counts=True)
    begins, ends = rows[first], first + lengths
    count, at = 0, ""
    for file in np.unique(log.file[begins]).tolist():
        here = slice(*np.searchsorted(log.file[begins], [file, file + 1]))
        episodes = log.episode[begins[here]]
        ids, earliest, seen = np.unique(episodes, return_index=True, return_counts=True)
        if len(ids) == len(episodes):
            continue
        count += len(episodes) - len(ids)
        again = int(np.argmax(~np.isin(np.arange(len(episodes)), earliest)))
        at = at or f"{_spell_id(log, int(episodes[again]))}, {log.place(begins[here][again])}"
        if np.median(lengths[here][np.isin(episodes, ids[seen > 1])]) < 2:
            continue  # machines side by side
        latest: dict[int, int] = {}  # of each episode, the latest row until now
        for row, episode, start, end in zip(begins[here].tolist(), episodes.tolist(), first[here], ends[here], strict=True):
            if episode in latest:
                _refuse_new_run(log, row, episode, latest[episode])
            candidates = np.append(rows[start:end], latest.get(episode, rows[start]))
            latest[episode] = int(candidates.max() if log.time is None else candidates[np.argmax(log.time[candidates])])
    return count, at


def _refuse_new_run(log: Log, row: int, episode: int, latest: int) -> None:
    """Unless the episode had ended, or time goes on from its latest row."""
    if log.time is None:
        if log.terminated[latest] or log.truncated[latest]:
            return
        why, mend = "no --time says whether it goes on there", "give --time if it is one that goes on"
    elif log.time[row] < log.time[latest]:
        was, now = (spell_time(float(log.time[place]), log.time_kind) for place in (latest, row))
        why, mend = f"its time goes back from {was} to {now}", "put the file in the order of its time if it is one that goes on"
    else:
        return
    raise TetherError(
        f"{log.place(row)}: episode {_spell_id(log, episode)} begins again after another one, and {why}; say --episode-ids "
        f"per-stretch if every unbroken stretch of an id is an episode, or {mend}"
    )


def _spell_id(log: Log, episode: int) -> str:
    return repr(str(episode if log.ids is None else log.ids[episode]))


def _group_begins(log: Log, order: np.ndarray) -> np.ndarray:
    """(N,) the row is the first of a named episode, or of a file where none is named."""
    group = (log.file if log.episode is None else log.episode)[order]
    return np.concatenate([[True], group[1:] != group[:-1]])


def _after(marked: np.ndarray) -> np.ndarray:
    return np.concatenate([[False], marked[:-1]])


def _without(drop: np.ndarray, order: np.ndarray, begins: np.ndarray, cut: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """The rows that stay. One that follows a dropped row begins an episode if that one did, or with `cut` in any case."""
    number = np.cumsum(~drop) - 1  # where a dropped row's begin goes: to the next that stays
    carried = np.zeros(int((~drop).sum()), dtype=bool)
    passed_on = drop & (begins | cut)
    following = number[passed_on] + 1
    carried[following[following < len(carried)]] = True
    return order[~drop], begins[~drop] | carried


def _equal_to_before(log: Log, order: np.ndarray) -> np.ndarray:
    """(M,) every entry, time aside, is that of the row before."""
    same = np.ones(len(order), dtype=bool)
    same[0] = False
    for column in (log.observation, log.action, log.reward, log.terminated, log.truncated):
        values = column[order].reshape(len(order), -1)
        same[1:] &= (values[1:] == values[:-1]).all(axis=1)
    return same


def _duplicates(
    log: Log, order: np.ndarray, begins: np.ndarray, same: np.ndarray, keep: str | None
) -> tuple[np.ndarray, np.ndarray]:
    """(M,) rows that repeat the one before, time included; and those of one time with other values that are not to be kept."""
    assert log.time is not None
    time = log.time[order]
    at_once = np.concatenate([[False], time[1:] == time[:-1]])
    duplicates = at_once & same & ~_group_begins(log, order)  # also after an end: a last row is often written twice
    conflict = at_once & ~same & ~begins
    if conflict.any() and keep is None:
        second = int(np.argmax(conflict))
        one, other = log.place(order[second - 1]), log.place(order[second])
        raise TetherError(
            f"{other}: has the time ({spell_time(float(time[second]), log.time_kind)}) and the episode of {one}, but other "
            f"values ({int(conflict.sum()):,} such rows); say which is to be kept: --duplicates first or last"
        )
    goes_on = at_once & ~begins
    contested = _of_runs(conflict, goes_on)
    dropped = contested & (np.concatenate([goes_on[1:], [False]]) if keep == "last" else goes_on)
    return duplicates & ~contested, dropped


def _of_runs(marked: np.ndarray, goes_on: np.ndarray) -> np.ndarray:
    """(M,) whether any row is marked of those that a row stands among: a run is a row and all after it that go on."""
    run = np.cumsum(~goes_on)
    return np.isin(run, run[marked])


def _cut_gaps(
    log: Log, order: np.ndarray, begins: np.ndarray, max_gap: float | None, findings: RowFindings
) -> tuple[np.ndarray, RowFindings]:
    """Find steps in time that are too long, and let episodes begin after those longer than `max_gap`."""
    if log.time is None or begins.all():
        return begins, findings
    step = np.where(begins, 0.0, np.diff(log.time[order], prepend=0.0))
    if (step < 0).any():
        index = int(np.argmax(step < 0))
        was, now = float(log.time[order[index - 1]]), float(log.time[order[index]])
        raise TetherError(
            f"{log.place(order[index])}: the time goes back from {spell_time(was, log.time_kind)} to "
            f"{spell_time(now, log.time_kind)}; if an episode begins there, say so with --episode or --truncated"
        )
    median = float(np.median(step[~begins]))
    gaps = step > IRREGULAR * median
    cut = np.zeros_like(gaps) if max_gap is None else step > max_gap
    found = replace(findings, median_step=median, gaps=int(gaps.sum()), gaps_cut=int(cut.sum()))
    if gaps.any():
        longest = int(np.argmax(step))
        found = replace(found, longest_gap=float(step[longest]), longest_gap_at=log.place(order[longest]))
    return begins | cut, found


def _after_end(log: Log, order: np.ndarray) -> int:
    """How many rows come after a terminated row of what the log says is the same episode."""
    if log.episode is None:
        return 0
    begins = _group_begins(log, order)
    ended = np.cumsum(_after(log.terminated[order]))
    return int((ended > ended[begins][np.cumsum(begins) - 1]).sum())

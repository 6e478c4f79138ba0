"""When a deployed policy left its data, and in which columns: the log of what it saw, against what it has learnt from.

The log is cut into stretches of equal length. A stretch is odd as far as its share of unusual rows is above what chance allows;
the odd shares are added up, and start anew at zero where the sum falls below it (Page's cumulative sum). When the sum reaches the
alarm, drift began where it last was zero. The sum goes no higher, so that it is soon at zero again when the oddness is over. It
ended with the last odd stretch before that, and another drift may begin.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from tether.errors import TetherError
from tether.runtime.acting import as_actions, columns_of, experience_of
from tether.runtime.experience import UNUSUAL
from tether.runtime.file import Policy
from tether.runtime.observations import as_rows
from tether.storage import read_jsonl

FEW = 100  # rows of a stretch at least: with fewer, a single odd moment would be a drift
MOST_STRETCHES = 200
TAILS = (0.005, 0.995)  # quantiles of a recorded column, outside of which one of its values is unusual
ALLOWED = 0.15  # share of unusual rows that a stretch may have: three times what the data itself has below UNUSUAL
ALARM = 2.0  # stretches' worth of unusual rows above that
LEAST = FEW * math.ceil(ALARM / (1 - ALLOWED))  # rows: with fewer, not even a log of unusual rows alone reaches the alarm
DATED = (1e8, 2.5e11)  # times that are read as seconds since 1970: from 1973 on, and as far as a calendar goes
PIECE = 4_096  # rows that are asked at once


@dataclass(frozen=True)
class Seen:
    """What the deployed policy saw, in order of time."""

    times: np.ndarray | None  # (N,) seconds or whatever the log counts in
    rows: np.ndarray  # (N, O)
    actions: np.ndarray | None  # (N, A) as the policy's; None: not in the log
    sorted_again: bool = False

    def when(self, row: int) -> str:
        """As a reader would say it: a date where the time is one, else the row."""
        place = f"row {row + 1:,} of {len(self.rows):,}"
        if self.times is None:
            return place
        time = float(self.times[row])
        if not DATED[0] <= time < DATED[1]:  # a counter, or milliseconds
            return f"time {time:.15g} ({place})"
        return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M:%S} UTC ({place})"


@dataclass(frozen=True)
class Stretch:
    """From one row to another, the second not included; `ongoing` if it lasts to the end of the log."""

    start: int
    end: int
    ongoing: bool


@dataclass(frozen=True)
class Drift:
    """What was found. `bins` are the first rows of the stretches, and the end."""

    bins: np.ndarray
    familiarity: np.ndarray  # (N,)
    unusual: np.ndarray  # (bins,) share of rows with a familiarity below `UNUSUAL`
    in_all: tuple[Stretch, ...]  # in order of time
    by_column: dict[int, tuple[Stretch, ...]]  # of columns that left the data, by when
    outside: np.ndarray  # (bins, O) share of rows in the tails of the recorded column


def read_seen(path: Path, policy: Policy) -> Seen:
    """A file of JSON lines, as `tether serve --log` writes them: `observation`, and if they are known `time` and `action`."""
    records = read_jsonl(path)
    if not records:
        raise TetherError(f"{path} has no lines; `tether serve --log` writes one for each observation")
    for number, record in enumerate(records, start=1):
        if "observation" not in record:
            raise TetherError(f"{path}, line {number}: there is no observation in it; it has {', '.join(record) or 'nothing'}")
    observations = [record["observation"] for record in records]
    if all(isinstance(seen, dict) for seen in observations):
        names = list(observations[0])
        for number, seen in enumerate(observations, start=1):
            if list(seen) != names and set(seen) != set(names):
                raise TetherError(f"{path}, line {number}: its columns are not those of line 1")
        given: Any = {name: [seen[name] for seen in observations] for name in names}
    else:
        given = observations
    try:
        rows = as_rows(given, policy.spec, columns_of(policy))
    except TetherError as error:
        raise TetherError(f"{path}: {error}") from error
    if rows.ndim != 2:
        raise TetherError(f"{path}: an observation of it is not a row of numbers")
    times = _times(path, [record.get("time") for record in records])
    actions = _actions(path, policy, [record.get("action") for record in records])
    if times is None or bool(np.all(np.diff(times) >= 0)):
        return Seen(times, rows, actions)
    order = np.argsort(times, kind="stable")
    return Seen(times[order], rows[order], None if actions is None else actions[order], sorted_again=True)


def find_drift(policy: Policy, seen: Seen, on_rows: Callable[[int], None] = lambda done: None) -> Drift:
    """In familiarity, and in each column by itself."""
    known, number = experience_of(policy), len(seen.rows)
    found = []
    for start in range(0, number, PIECE):
        piece = seen.rows[start : start + PIECE]
        actions = policy.rows_to_actions(piece) if seen.actions is None else seen.actions[start : start + PIECE]
        found.append(known.familiarity(policy.novelty(piece, actions)))
        on_rows(min(start + PIECE, number))
    familiarity = np.concatenate(found)
    stretches = int(np.clip(number // FEW, 1, MOST_STRETCHES))
    bins = np.linspace(0, number, stretches + 1).round().astype(int)
    low, high = np.quantile(known.observation, TAILS, axis=0)
    tails = (seen.rows < low) | (seen.rows > high)
    outside = _shares(tails, bins)
    unusual = _shares(familiarity < UNUSUAL, bins)
    columns = {column: drifts(outside[:, column], bins) for column in range(seen.rows.shape[1])}
    drifted = {column: found for column, found in columns.items() if found}
    by_column = dict(sorted(drifted.items(), key=lambda item: item[1][0].start))
    return Drift(bins, familiarity, unusual, drifts(unusual, bins), by_column, outside)


def drifts(shares: Sequence[float] | np.ndarray, bins: np.ndarray) -> tuple[Stretch, ...]:
    """Each from where the cumulative sum of the shares above `ALLOWED` began that reaches `ALARM`, to its last odd stretch."""
    found: list[Stretch] = []
    total, start, last, alarmed = 0.0, 0, 0, False
    for number, share in enumerate(shares):
        if total == 0.0:
            start = number
        total = min(max(total + float(share) - ALLOWED, 0.0), ALARM)
        total = 0.0 if total < 1e-9 else total  # what rounding leaves of nothing
        last = number + 1 if share > ALLOWED else last
        alarmed = alarmed or total == ALARM
        if alarmed and (total == 0.0 or number == len(shares) - 1):
            found.append(Stretch(int(bins[start]), int(bins[last]), last == len(shares)))
            alarmed = False
    return tuple(found)


def words(policy: Policy, seen: Seen, drift: Drift) -> list[str]:
    """What was found, in sentences: first whether and when, then in which columns."""
    number, told = len(seen.rows), []
    if number < LEAST:
        told.append(f"The log has {number:,} rows; with fewer than {LEAST} nothing can be said of drift.")
    unusual = drift.familiarity < UNUSUAL
    odd = f"as unusual as the oddest {UNUSUAL:.0%} of the data"
    ended = 0
    for stretch in drift.in_all:
        during, before = float(np.mean(unusual[stretch.start : stretch.end])), unusual[ended : stretch.start]
        was = f", before {float(np.mean(before)):.0%}" if len(before) else ": from the very first row on"
        end = "It lasts to the end of the log." if stretch.ongoing else f"It ended at {seen.when(stretch.end)}."
        since = "since then" if stretch.ongoing else "while it lasted"
        began = "Drift began again" if ended else "Drift began"
        told.append(f"{began} at {seen.when(stretch.start)}: {since} {during:.0%} of what it saw was {odd}{was}. {end}")
        ended = stretch.end
    if not drift.in_all and number >= LEAST:
        share, most = float(np.mean(unusual)), float(drift.unusual.max())
        told.append(f"No drift in familiarity: {share:.0%} of what it saw was {odd}, and no stretch had more than {most:.0%}.")
    told += [_of_column(policy, seen, column, stretches) for column, stretches in drift.by_column.items()]
    if not drift.by_column and number >= LEAST:
        told.append("No column left the range in which 99% of its recorded values are.")
    if seen.sorted_again:
        told.append("The lines of the log were not in order of time and were sorted.")
    return told


def _of_column(policy: Policy, seen: Seen, column: int, stretches: Sequence[Stretch]) -> str:
    names = columns_of(policy)
    name = names[column] if names else f"Number {column} (counted from 0)"
    recorded = experience_of(policy).observation[:, column]
    low, high = np.quantile(recorded, TAILS)
    values = np.concatenate([seen.rows[stretch.start : stretch.end, column] for stretch in stretches])
    out = float(np.mean((values < low) | (values > high)))
    again = f", and again, last at {seen.when(stretches[-1].start)}" if len(stretches) > 1 else ""
    return (
        f"{name} left the data at {seen.when(stretches[0].start)}{again}: {out:.0%} of its values are outside {low:.4g} to "
        f"{high:.4g}, where 99% of the recorded ones are; their median is {np.median(values):.4g}, recorded "
        f"{np.median(recorded):.4g}."
    )


def _shares(flags: np.ndarray, bins: np.ndarray) -> np.ndarray:
    """The mean of the flags in each stretch."""
    return np.stack([flags[start:end].mean(axis=0) for start, end in pairwise(bins)])


def _times(path: Path, given: list[Any]) -> np.ndarray | None:
    if all(time is None for time in given):
        return None
    found = np.empty(len(given))
    for number, time in enumerate(given):
        try:
            found[number] = datetime.fromisoformat(time).timestamp() if isinstance(time, str) else float(time)
        except (TypeError, ValueError) as error:
            raise TetherError(
                f"{path}, line {number + 1}: its time is {time!r}; every line has a number or an ISO date, or none has"
            ) from error
    if not np.isfinite(found).all():
        raise TetherError(f"{path}, line {int(np.argmin(np.isfinite(found))) + 1}: its time is not finite")
    return found


def _actions(path: Path, policy: Policy, given: list[Any]) -> np.ndarray | None:
    if any(action is None for action in given):
        return None  # the policy is asked what it would have done
    try:
        return as_actions(policy.spec, given, len(given), one=False)
    except TetherError as error:
        raise TetherError(f"{path}: {str(error)[:200]}; leave actions out, and the policy's own are taken") from error

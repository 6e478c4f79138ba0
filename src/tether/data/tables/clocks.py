"""Clocks by the order of the rows: midnights that pass, and the hour that a local clock shows twice.

A clock that shows local time repeats an hour where summer time ends; only the name of its zone tells the two apart.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np

from tether.data.tables.dates import DAY, HOUR, Times, spell_time
from tether.data.tables.places import Where
from tether.errors import TetherError

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo


def past_midnight(time: np.ndarray, missing: np.ndarray, group: np.ndarray) -> tuple[np.ndarray, tuple[int, int] | None]:
    """Times of day as times that go on: where one of a group falls by more than half a day, the next day has begun.

    Rows are in the order of the files. Also two rows of a group between which time rises by more than half a day, if there are.
    """
    rows = np.flatnonzero(~missing)
    rows = rows[np.argsort(group[rows], kind="stable")]
    within = np.concatenate([[False], group[rows[1:]] == group[rows[:-1]]])[: len(rows)]
    step = np.where(within, np.diff(time[rows], prepend=time[rows[:1]]), 0.0)
    days = np.cumsum(step < -DAY / 2)
    since = days[~within][np.cumsum(~within) - 1]  # each group's days count from its first row
    gone_on = time.copy()
    gone_on[rows] += DAY * (days - since)
    rises = np.flatnonzero(step > DAY / 2)
    return gone_on, (int(rows[rises[0] - 1]), int(rows[rises[0]])) if len(rises) else None


def find_zone(name: str) -> ZoneInfo:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise TetherError(
            f"--time-zone is {name!r}; it takes a name such as Europe/Berlin, or none for a clock that never changes"
        ) from None


def to_utc(times: Times, zone: ZoneInfo, where: Where) -> tuple[Times, int]:
    """A local clock as UTC, and how many rows lie in the hour that comes twice without that both are there.

    In that hour rows are in the order in which they were written: those after the clock has gone back are of the second pass.
    """
    quarters, places = np.unique(np.floor(times.values / 900.0), return_inverse=True)  # clocks change at quarters of an hour
    both = []
    for quarter in quarters.tolist():
        moment = datetime(1970, 1, 1) + timedelta(seconds=900.0 * quarter)
        both.append([zone.utcoffset(moment.replace(fold=fold)).total_seconds() for fold in (0, 1)])  # type: ignore[union-attr]
    first, second = np.array(both)[places].T
    never, twice = (first < second) & ~times.missing, (first > second) & ~times.missing
    if never.any():
        row = int(np.argmax(never))
        raise TetherError(
            f"{where} is {spell_time(times.values[row], 'clock')} in {where.at(row)}, which {zone.key} skipped; "
            "is --time-zone right?"
        )
    offset, doubtful = first.copy(), 0
    for day in np.unique(times.values[twice] // DAY):
        rows = np.flatnonzero(twice & (times.values // DAY == day))
        falls = np.diff(times.values[rows], prepend=times.values[rows[0]]) < -HOUR / 4
        offset[rows] = np.where(np.cumsum(falls) > 0, second[rows], first[rows])
        doubtful += 0 if falls.any() else len(rows)
    return Times(times.values - offset, times.missing, "moment"), doubtful


def repeated_hour(time: np.ndarray, group: np.ndarray) -> tuple[int, int] | None:
    """The first two rows of a group, in the order of the files, between which a local clock goes back by an hour.

    With the hour added it went on by about a usual step, and it goes on like that before and after: a row that is merely late is
    followed by one beyond all before it.
    """
    rows = np.argsort(group, kind="stable")
    step = np.where(group[rows[1:]] == group[rows[:-1]], np.diff(time[rows]), np.nan)
    usual = float(np.median(step[step > 0])) if (step > 0).any() else 0.0
    back = (step < 0) & (step >= -HOUR - 1e-3) & (step + HOUR <= max(2 * usual, 0.03 * HOUR))
    before, after = np.concatenate([[np.nan], step[:-1]]), np.concatenate([step[1:], [np.nan]])
    back &= ~(before < 0) & ~((after < 0) | (after > max(1.5 * usual, 0.03 * HOUR)))
    found = np.flatnonzero(back)
    return (int(rows[found[0]]), int(rows[found[0] + 1])) if len(found) else None

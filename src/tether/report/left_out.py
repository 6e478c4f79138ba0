"""What a table leaves out, in one line: the runs that have no result, by their state, with the reason."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tether.errors import TetherError
from tether.report.gathered import Gap, Gathered

FOLDERS = 3  # of a state, that are named; the page has all
REASON = 120  # characters of a reason
STEPS = 40  # characters of one that tells how far a run is, which is told of every seed


def left_out_line(found: Gathered) -> str:
    """`3 runs: 2 failed (runs/bad s0, s1, all its seeds: critic/q is nan), 1 unfinished (runs/good s2: at step 5)`.

    Empty where every run has a result. A method of which nothing is left is said to have lost all its seeds.
    """
    if not found.gaps:
        return ""
    alive = {group.folder for group in found.groups}
    by_state: dict[str, list[Gap]] = {}
    for gap in found.gaps:
        by_state.setdefault(gap.state, []).append(gap)
    told = [f"{len(gaps)} {state} ({_spell(gaps, alive)})" for state, gaps in by_state.items()]
    return f"{len(found.gaps)} run{'s' * (len(found.gaps) > 1)}: {', '.join(told)}"


def refuse_nothing(found: Gathered, folders: Sequence[Path]) -> None:
    """Where no run has finished there is no table; how far those are that were begun is said all the same."""
    if not found.groups:
        begun = f"; {left_out_line(found)}" if found.gaps else ""
        raise TetherError(f"no finished run in {', '.join(map(str, folders))}{begun}")


def _spell(gaps: Sequence[Gap], alive: set[str]) -> str:
    """Folder by folder, with the seeds and what became of them."""
    by_folder: dict[str, list[Gap]] = {}
    for gap in gaps:
        by_folder.setdefault(gap.folder, []).append(gap)
    told = []
    for folder, mine in [*by_folder.items()][:FOLDERS]:
        seeds = ", ".join(gap.seed for gap in mine)
        lost = "" if folder in alive or not seeds else ", all its seeds" if len(mine) > 1 else ", its one seed"
        why = list({_shape(reason): reason for reason in reversed([_short(gap.why) for gap in mine])}.values())[::-1]
        more = f" and {len(why) - 1} other reasons" if len(why) > 2 else f" and {why[1]}" if len(why) == 2 else ""
        told.append(f"{folder}{seeds and ' ' + seeds}{lost}: {why[0]}{more}")
    rest = sum(len(mine) for mine in [*by_folder.values()][FOLDERS:])
    return "; ".join([*told, *([f"and {rest} more"] if rest else [])])


def _short(why: str) -> str:
    """What happened, without the advice that follows it."""
    first = (why.splitlines() or [""])[0].partition("; ")[0]
    return first if len(first) <= REASON else f"{first[:REASON].rstrip()}…"


def _shape(reason: str) -> str:
    """Without its numbers: of two seeds that came to grief in the same way, one is told."""
    return reason if len(reason) < STEPS else re.sub(r"\d[\d.,e+]*", "", reason)

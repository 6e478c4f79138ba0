"""Methods by tasks: a line a method, a column a task, and in a cell the last score, the last ten and the best."""

from __future__ import annotations

from collections.abc import Sequence

from tether.report.gathered import Group
from tether.report.scoring import group_row
from tether.report.tables import COLUMNS

NOT_RUN, NOT_EVALUATED = "–", "not evaluated"


def by_task_lines(groups: Sequence[Group], policy: str | None = None) -> list[list[str]]:
    """The first line is the heading. A cell with several seeds is of their means, and says how many there are and should be."""
    tasks = list(dict.fromkeys(group.task for group in groups))
    cells: dict[str, dict[str, str]] = {}
    for group in groups:
        cells.setdefault(group.label, {})[group.task] = _cell(group, policy)
    return [["method", *tasks], *([label, *(found.get(task, NOT_RUN) for task in tasks)] for label, found in cells.items())]


def _cell(group: Group, policy: str | None) -> str:
    scores = group_row(group, policy).scores
    if not scores:
        return NOT_EVALUATED
    return " / ".join(f"{scores[title].mean:.1f}" for title in COLUMNS.values()) + group.seeds_note

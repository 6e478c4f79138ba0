"""Methods by tasks: a line a method, a column a task, and in a cell the last score, the last ten and the best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tether.report.gathered import Group
from tether.report.markdown import marked
from tether.report.paper import OURS, marks, paper_scores
from tether.report.scoring import Cell, task_cells
from tether.report.tables import COLUMNS

NOT_RUN, NOT_EVALUATED = "–", "not evaluated"


def by_task_lines(groups: Sequence[Group], policy: str | None = None, markdown: bool = False) -> list[list[str]]:
    """The first line is the heading. A cell with several seeds is of their means, and says how many there are and should be.

    For a page the best of each score on a task is bold, and what reaches it underlined.
    """
    tasks = list(dict.fromkeys(group.task for group in groups))
    cells: dict[str, dict[str, str]] = {}
    for task in tasks:
        mine = [group for group in groups if group.task == task]
        found = task_cells(mine, policy)
        for group in mine:
            cells.setdefault(group.label, {})[task] = _cell(found[id(group)], group, markdown)
    labels = dict.fromkeys(group.label for group in groups)  # in their order
    return [["method", *tasks], *([label, *(cells[label].get(task, NOT_RUN) for task in tasks)] for label in labels)]


def paper_line(tasks: Sequence[str]) -> list[str]:
    """The paper's own method on these tasks, marked among what it compares; empty where it has none of them."""
    papers = [paper_scores(task) for task in tasks]
    cells = [marked(str(paper[OURS]), marks(paper).get(OURS)) if paper else "" for paper in papers]
    return [f"{OURS} (paper)", *cells] if any(cells) else []


def _cell(cells: Mapping[str, Cell], group: Group, markdown: bool) -> str:
    if not cells:
        return NOT_EVALUATED
    found = [cells[column] for column in COLUMNS]
    return " / ".join(marked(f"{cell.score.mean:.1f}", cell.mark if markdown else None) for cell in found) + group.seeds_note

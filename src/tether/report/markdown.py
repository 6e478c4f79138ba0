"""The table of scores for a page, with the paper's rule and its numbers beside ours, as LaTeX and the page have them."""

from __future__ import annotations

from collections.abc import Sequence

from tether.report.gathered import Group
from tether.report.paper import BEST, WITHIN, marks, paper_method, paper_scores, paper_table
from tether.report.tables import Row, Score, row_lines

MARKS = {BEST: "**{}**", WITHIN: "<u>{}</u>"}  # Markdown has no underline of its own; its readers take HTML's
PAPER = "the paper"


def marked_lines(rows: Sequence[Row], groups: Sequence[Group], heading: str) -> list[list[str]]:
    """Rows as cells below their heading, marked among the rows of their task; `groups` has the group of each."""
    lines = row_lines(rows, heading)
    for task in {group.task for group in groups}:
        places = [place for place, group in enumerate(groups) if group.task == task]
        for column, title in enumerate(lines[0][1:], start=1):
            scores = {place: rows[place].scores[title] for place in places if title in rows[place].scores}
            for place, mark in (marks(scores) if len(scores) > 1 else {}).items():
                lines[place + 1][column] = marked(lines[place + 1][column], mark)
    beside = [_paper(group) for group in groups]
    if any(beside):
        lines = [[*line, cell] for line, cell in zip(lines, [PAPER, *beside], strict=True)]
    return lines


def marked(text: str, mark: str | None) -> str:
    return MARKS[mark].format(text) if mark else text


def paper_notes(groups: Sequence[Group]) -> list[str]:
    """What the paper's numbers are; nothing where none stands beside ours."""
    return [paper_source()] if any(_paper(group) for group in groups) else []


def paper_source() -> str:
    table = paper_table()
    return f"{PAPER}: {table['source']}; {table['versions']}"


def _paper(group: Group) -> str:
    """What the paper has of the method on the task, marked among its own."""
    theirs: dict[str, Score] = paper_scores(group.task)
    name = paper_method(group.agent, group.bonus, group.runs[0].config["agent"])
    return marked(str(theirs[name]), marks(theirs).get(name)) if name in theirs else ""

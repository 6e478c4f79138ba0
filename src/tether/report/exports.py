"""The table of scores for other programs: comma-separated, one line a number, and LaTeX, in the form of the paper's."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from tether.errors import TetherError
from tether.report.gathered import Gathered, Group
from tether.report.paper import OURS, marks, paper_method, paper_scores, paper_table
from tether.report.scoring import Cell, task_cells
from tether.report.tables import COLUMNS, Score

FIELDS = (
    "task",
    "method",
    "agent",
    "bonus",
    "score",
    "unit",
    "seeds",
    "missing",
    "mean",
    "std",
    "step",
    "mark",
    "paper_mean",
    "paper_std",
    "runs",
)
_MARKS = {"best": r"\textbf", "within": r"\underline"}
_SPECIAL = {"\\": r"\textbackslash{}"} | {letter: f"\\{letter}" for letter in "&%$#_{}"} | {"~": r"\~{}", "^": r"\^{}"}


def csv_text(found: Gathered, policy: str | None = None) -> str:
    """A line for every number, with the runs it comes from and what the paper has beside it."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(FIELDS)
    for task in found.tasks:
        groups = found.on(task)
        cells, paper = task_cells(groups, policy), paper_scores(task)
        for group in groups:
            theirs = paper.get(paper_method(group.agent, group.bonus, group.runs[0].config["agent"]) or "")
            for column, cell in cells[id(group)].items():
                writer.writerow([task, group.label, group.agent, group.bonus, *_numbers(group, column, cell, theirs)])
    return file.getvalue()


def _numbers(group: Group, column: str, cell: Cell, theirs: Score | None) -> list[object]:
    beside = [theirs.mean, theirs.std] if theirs is not None and column == "last" else ["", ""]
    unit = (group.runs[0].result or {}).get("score_unit", "")
    numbers = [cell.score.mean, cell.score.std, cell.score.step]
    found = [
        column,
        unit,
        len(group.runs),
        group.missing,
        *numbers,
        cell.mark,
        *beside,
        " ".join(run.path.as_posix() for run in group.runs),
    ]
    return ["" if value is None else value for value in found]


def latex_table(found: Gathered, score: str = "last", policy: str | None = None, told: Sequence[str] = ()) -> str:
    """Tasks by methods with the paper's rule, and the paper's own numbers of its own method in the last column.

    What is `told` of it stands below as comments.
    """
    if score not in COLUMNS:
        raise TetherError(f"there is no score {score!r}; there is: {', '.join(COLUMNS)}")
    methods = list(dict.fromkeys(group.label for group in found.groups))
    papers = {task: paper_scores(task) for task in found.tasks}
    beside = [f"{OURS} (paper)"] if any(papers.values()) else []
    lines = [r"% needs \usepackage{booktabs}", r"\begin{tabular}{l" + "r" * (len(methods) + len(beside)) + "}", r"\toprule"]
    lines += [_row(["task", *methods, *beside]), r"\midrule"]
    for task in found.tasks:
        groups = found.on(task)
        cells = task_cells(groups, policy)
        by_label = {group.label: cells[id(group)].get(score) for group in groups}
        shown = [_spelt(by_label.get(method)) for method in methods]
        if beside:
            paper = papers[task]
            shown.append(_spelt(Cell(paper[OURS], marks(paper).get(OURS))) if paper else "")
        lines.append(f"{_escaped(task)} & {' & '.join(shown)} \\\\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    notes = [f"{COLUMNS[score]} score", *told]
    if beside:
        notes.append(f"{OURS} (paper): {paper_table()['source']}; {paper_table()['versions']}")
    return "".join(f"{line}\n" for line in [*lines, *(f"% {note}" for note in notes)])


def _row(cells: Sequence[str]) -> str:
    return " & ".join(map(_escaped, cells)) + r" \\"


def _spelt(cell: Cell | None) -> str:
    if cell is None:
        return "--"
    spread = "" if cell.score.std is None else rf" $\pm$ {cell.score.std:.1f}"
    text = f"{cell.score.mean:.1f}{spread}".replace("-", "$-$")  # numbers as text, which can be bold
    mark = _MARKS.get(cell.mark or "")
    return f"{mark}{{{text}}}" if mark else text


def _escaped(text: str) -> str:
    return "".join(_SPECIAL.get(letter, letter) for letter in text)

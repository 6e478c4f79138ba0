"""The parts of the page's tables: a number that leads to its runs, and what stands below a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape

from tether.report.costs import table_cost
from tether.report.gathered import Gathered
from tether.report.left_out import left_out_line
from tether.report.mixed import mixed_lines
from tether.report.scoring import Cell
from tether.report.tables import Score
from tether.runs.reading import Run

TAGS = {"best": "b", "within": "u"}


def cell_of(cell: Cell | None, target: str) -> str:
    """A score with its mark, which leads to the runs that it comes from."""
    return "<td>–</td>" if cell is None else f"<td>{link(marked(cell.score, cell.mark), [target])}</td>"


def link(text: str, targets: Sequence[str]) -> str:
    """To the runs behind it. Several panels are opened together, and the first comes into view."""
    first, *others = targets
    also = f' data-also="{" ".join(others)}"' if others else ""
    return f'<a href="#{first}"{also}>{text}</a>'


def marked(score: Score, mark: str | None) -> str:
    """By the paper's rule. When a best score was reached is told where the pointer rests."""
    text = escape(str(replace(score, step=None)))
    if score.step is not None:
        text = f'<span title="at step {score.step:,}">{text}</span>'
    tag = TAGS.get(mark or "")
    return f"<{tag}>{text}</{tag}>" if tag else text


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Of cells in HTML. The first of a row is its name."""
    heads = "".join(f"<th>{cell}</th>" for cell in head)
    cells = ("".join(f"<td>{cell}</td>" for cell in row) for _, *row in rows)
    lines = "".join(f'<tr><th scope="row">{row[0]}</th>{shown}</tr>' for row, shown in zip(rows, cells, strict=True))
    return f'<div class="scroll"><table class="scores"><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table></div>'


def left_out_note(found: Gathered) -> str:
    """What no number of a table has in it, in a line; all of it is at the end of the page."""
    told = left_out_line(found)
    return f'<p class="note">Left out: {escape(told)}. <a href="#missing">All of them</a></p>' if told else ""


def mixed_notes(found: Gathered) -> str:
    """Which runs were averaged and are no seeds of one method."""
    return "".join(f'<p class="note">{escape(line[0].upper() + line[1:])}.</p>' for line in mixed_lines(found.groups))


def cost_note(runs: Sequence[Run], found: Gathered, columns: Sequence[str]) -> str:
    """What the choices behind these columns have cost."""
    return f'<p class="note cost">{escape(table_cost(runs, found.sweeps, columns))}</p>'


def name_of(label: str) -> str:
    """A method's name, which a narrow screen may break after a slash."""
    return escape(label).replace("/", "/<wbr>")


def interval_of(cell: str) -> str:
    """`1.0 [0.5, 1.5]`, which a narrow screen may break before the bracket alone."""
    value, bracket, rest = cell.partition("[")
    if not bracket:
        return escape(cell)
    whole = f'<span class="whole">[{escape(rest)}</span>' if any(letter.isdigit() for letter in rest) else f"[{escape(rest)}"
    return f'<span class="free">{escape(value)}{whole}</span>'


def plural(number: int, word: str) -> str:
    return word if number == 1 else f"{word}s"

"""Tables of scores, for the terminal and for a page: every number says whether it is the last, the last ten or the best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tether.errors import TetherError, did_you_mean
from tether.runs.reading import Run

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.table import Table

COLUMNS = {"last": "last", "last_ten": "last ten", "best": "best"}  # as result.json spells them, and as a table does


@dataclass(frozen=True)
class Score:
    """A mean and the spread around it, where it is known; `step` where it matters when it was reached."""

    mean: float
    std: float | None
    step: int | None = None

    def __str__(self) -> str:
        at = f" (step {self.step:,})" if self.step is not None else ""
        spread = "" if self.std is None else f" ± {self.std:.1f}"
        return f"{self.mean:.1f}{spread}{at}"


@dataclass(frozen=True)
class Row:
    """One line of a table: its label, and its scores by column. A column it lacks stays empty."""

    label: str
    scores: dict[str, Score] = field(default_factory=dict)


def run_row(label: str, run: Run, policy: str | None = None) -> Row:
    """The scores of one finished run, of its own policy unless another is named. The spread is over episodes."""
    if run.result is None:
        raise TetherError(f"run {run.path} has not finished, so it has no result")
    by_policy = run.result.get("score_by_policy", {}) | {run.result["policy"]: run.result["score"]}
    policy = policy or run.result["policy"]
    if policy not in by_policy:
        raise TetherError(f"run {run.path} has no policy {policy}{did_you_mean(policy, by_policy)}")
    score = by_policy[policy] or {}  # null when nothing was evaluated
    return Row(label, {COLUMNS[name]: Score(found["mean"], found["std"], found.get("step")) for name, found in score.items()})


def seeds_row(label: str, runs: Sequence[Run], policy: str | None = None) -> Row:
    """The scores of several runs that differ in their seed. The spread is over the means of the runs, in its population form."""
    if not runs:
        raise TetherError(f"there are no runs for {label}")
    rows = [run_row(label, run, policy) for run in runs]
    means = {title: [row.scores[title].mean for row in rows] for title in _columns(rows)}
    return Row(label, {title: Score(float(np.mean(values)), float(np.std(values))) for title, values in means.items()})


def print_lines(lines: Sequence[Sequence[str]], title: str = "", markdown: bool = False) -> None:
    """A table on the standard output: for a page, without the title, or for the terminal."""
    from rich.console import Console

    if markdown:
        print(markdown_lines(lines))
    else:
        Console().print(rich_lines(lines, title))


def rich_table(rows: Sequence[Row], title: str = "", heading: str = "") -> Shown:
    """For the terminal. `heading` stands above the labels."""
    return rich_lines(row_lines(rows, heading), title)


def markdown_table(rows: Sequence[Row], heading: str = "") -> str:
    """For a page, aligned so that it reads well as text too."""
    return markdown_lines(row_lines(rows, heading))


def rich_lines(lines: Sequence[Sequence[str]], title: str = "") -> Shown:
    """The same as `markdown_lines`, for the terminal."""
    return Shown(lines, title)


@dataclass(frozen=True)
class Shown:
    """What rich prints as one table, or where the terminal is too narrow as several, of which each has the labels.

    Numbers are not cut, unless one column is wider than the terminal. A label is folded where that helps: cut short it would no
    longer tell its row from the next.
    """

    lines: Sequence[Sequence[str]]
    title: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        for place, columns in enumerate(self.parts(options.max_width)):
            yield self._table(columns, self.title if place == 0 else "further columns", options.max_width)

    def parts(self, width: int) -> list[list[int]]:
        """Numbers of the columns that stand beside the labels in each table."""
        label, *others = self._widths()
        room = width - 1 - min(label, FOLDED + BORDER)
        parts: list[list[int]] = [[]]
        for number, wide in enumerate(others, start=1):
            if parts[-1] and wide + sum(others[column - 1] for column in parts[-1]) > room:
                parts.append([])
            parts[-1].append(number)
        return parts

    def _widths(self) -> list[int]:
        return [max(map(len, column)) + BORDER for column in zip(*self.lines, strict=True)]

    def _table(self, columns: Sequence[int], title: str, width: int) -> Table:
        from rich.markup import escape
        from rich.table import Table

        heading, *rest = self.lines
        widths = self._widths()
        room = max(1, width - 1 - BORDER - sum(widths[column] for column in columns))  # for a line of a label
        table = Table(title=escape(title), title_justify="left")
        table.add_column(escape(heading[0]), overflow="fold")
        for column in columns:
            table.add_column(escape(heading[column]), justify="right", no_wrap=True)
        for line in rest:
            table.add_row(escape(_folded(line[0], room)), *(escape(line[column]) for column in columns))
        return table


FOLDED = 20  # characters on a line of a label, before columns go to a table of their own
BORDER = 3  # a line and two spaces, for each column


def _folded(label: str, width: int) -> str:
    """In lines of that width, broken after a slash, a hyphen, a comma or a space where there is one: rich knows spaces alone."""
    lines = []
    while len(label) > width:
        cut = max((place + 1 for place, letter in enumerate(label[:width]) if letter in "/-, "), default=width)
        lines.append(label[:cut])
        label = label[cut:]
    return "\n".join([*lines, label])


def markdown_lines(lines: Sequence[Sequence[str]]) -> str:
    """The first line is the heading; the first column is set to the left, the others to the right."""
    heading, *rest = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(heading, *rest, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "".join(f"| {' | '.join(map(_align, line, widths, range(len(line))))} |\n" for line in (heading, rule, *rest))


def row_lines(rows: Sequence[Row], heading: str) -> list[list[str]]:
    """Rows as cells, below their heading."""
    columns = _columns(rows)
    return [[heading, *columns], *([row.label, *(_cell(row, column) for column in columns)] for row in rows)]


def _align(text: str, width: int, column: int) -> str:
    return text.ljust(width) if column == 0 else text.rjust(width)


def _columns(rows: Sequence[Row]) -> list[str]:
    """All columns that any row has, in the order of their first appearance."""
    return list(dict.fromkeys(column for row in rows for column in row.scores))


def _cell(row: Row, column: str) -> str:
    return str(row.scores[column]) if column in row.scores else ""

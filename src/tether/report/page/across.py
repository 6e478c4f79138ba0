"""All tasks together, by rliable; and the runs of a method on all of them, which a number over tasks comes from."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import combinations

from tether.errors import TetherError
from tether.report import statistics
from tether.report.gathered import Gathered, Group
from tether.report.left_out import left_out_line
from tether.report.page.cells import cost_note, interval_of, link, name_of, plural, table
from tether.report.page.charts import Line, line_chart
from tether.report.page.runs import all_runs_section
from tether.report.tables import COLUMNS


def across_section(found: Gathered, numbers: dict[int, str], policy: str | None, score: str) -> str:
    """What all methods did, and below it every method's runs on all tasks."""
    if len(found.groups) < 2:
        return ""
    head = f'<section class="across"><h2>All tasks together: {COLUMNS[score]} score</h2>'
    behind = "".join(
        all_runs_section(groups, target, [numbers[id(group)] for group in groups], policy)
        for groups, target in _panels(found, numbers)
    )
    if behind:
        behind = f'<details class="lists"><summary>The runs of each method</summary><div class="behind">{behind}</div></details>'
    try:
        scores = statistics.collect_scores(found.groups, score, policy)
        methods, pairs = statistics.statistics_lines(scores)
        thresholds, profiles = statistics.performance_profiles(scores)
    except TetherError as error:
        return f'{head}<p class="note">{escape(str(error))}.</p>{behind}</section>'
    targets = behind_methods(found, numbers)
    ordered = [line[0] for line in methods[1:]]
    rows = [[name_of(name), *(link(interval_of(cell), [targets[name]]) for cell in cells)] for name, *cells in methods[1:]]
    shown = table([escape(cell) for cell in methods[0]], rows)
    if len(pairs) > 1:
        both = [[targets[name] for name in pair] for pair in combinations(ordered, 2)]
        lines = [[name_of(told), link(interval_of(cell), pair)] for (told, cell), pair in zip(pairs[1:], both, strict=True)]
        shown += (
            f"<details><summary>Which is better than which</summary>{table([escape(cell) for cell in pairs[0]], lines)}</details>"
        )
    drawn = [Line(name, thresholds, *profiles[name], marked=False, target=targets[name]) for name in scores.by_method]
    chart = line_chart(drawn, "score", "share of runs above it", "performance profiles, with 95 % intervals", lambda x: f"{x:g}")
    left_out = "".join(f"<li>{escape(line)}</li>" for line in (*scores.left_out, left_out_line(found)) if line)
    return (
        f'{head}<div class="beside"><div>{shown}</div><div class="charts">{chart}</div></div>'
        f'<p class="note">By rliable, on {len(scores.tasks)} '
        f"{plural(len(scores.tasks), 'task')}: {escape(', '.join(scores.tasks))}. Seeds are resampled within tasks.</p>"
        f"{cost_note(found.runs, found, [score])}"
        + (f"<details><summary>What is left out</summary><ul>{left_out}</ul></details>" if left_out else "")
        + f"{behind}</section>"
    )


def behind_methods(found: Gathered, numbers: dict[int, str]) -> dict[str, str]:
    """By method, the panel that has its runs on all tasks: where it has one task, that task's own."""
    alone = {group.label: numbers[id(group)] for group in found.groups}
    return alone | {groups[0].label: target for groups, target in _panels(found, numbers)}


def _panels(found: Gathered, numbers: dict[int, str]) -> list[tuple[Sequence[Group], str]]:
    by_method: dict[str, list[Group]] = {}
    for group in found.groups:
        by_method.setdefault(group.label, []).append(group)
    several = [groups for groups in by_method.values() if len(groups) > 1]
    return [(groups, f"{numbers[id(groups[0])]}-and-others") for groups in several]

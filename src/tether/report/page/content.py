"""The page: what there is in a line, then a section for each task, then all tasks together, then what is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from tether.report.costs import cost_line
from tether.report.gathered import Gap, Gathered, Group
from tether.report.page.across import across_section, behind_methods
from tether.report.page.cells import cell_of, cost_note, left_out_note, link, marked, mixed_notes, name_of, plural
from tether.report.page.charts import Line, histogram_chart, line_chart
from tether.report.page.runs import runs_section
from tether.report.paper import OURS, marks, paper_method, paper_scores, paper_table
from tether.report.scoring import mean_curve, task_cells
from tether.report.tables import COLUMNS
from tether.storage import replacing

HERE = Path(__file__).parent
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"  # the page itself forbids the network


def write_page(found: Gathered, path: Path, title: str, policy: str | None = None, score: str = "last") -> None:
    """Write the page, whole or not at all."""
    text = make_page(found, title, policy, score)
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def make_page(found: Gathered, title: str, policy: str | None = None, score: str = "last") -> str:
    numbers = {id(group): f"runs-{number}" for number, group in enumerate(found.groups)}
    sections = [_task_section(found, task, numbers, policy) for task in found.tasks]
    body = "".join(
        [
            _header(found, title),
            "<main>",
            _overview(found, numbers, policy, score),
            across_section(found, numbers, policy, score),
            *sections,
            _gaps_section(found.gaps),
            _how_to_read(found),
            "</main>",
        ]
    )
    style, script = ((HERE / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style></head>\n<body>{body}\n<script>\n{script}</script></body></html>\n"
    )


def _header(found: Gathered, title: str) -> str:
    runs, methods = len(found.runs), len({group.label for group in found.groups})
    facts = [f"{runs} finished {plural(runs, 'run')}"] if runs else ["no finished run"]
    if runs:
        facts += [f"{methods} {plural(methods, 'method')}", f"{len(found.tasks)} {plural(len(found.tasks), 'task')}"]
    missing = f' · <a href="#missing">{len(found.gaps)} missing or failed</a>' if found.gaps else " · nothing missing or failed"
    options = "".join(f"<option>{escape(task)}</option>" for task in found.tasks)
    choose = f'<label>Task <select id="task"><option value="">all {len(found.tasks)}</option>{options}</select></label>'
    return (
        f'<header><h1>Tether report</h1><p>{escape(title)}</p><p>{" · ".join(facts)}{missing}</p><div class="bar">'
        f"{choose if len(found.tasks) > 1 else ''}"
        f'<button type="button" id="theme">Light or dark</button></div></header>'
    )


def _overview(found: Gathered, numbers: dict[int, str], policy: str | None, score: str) -> str:
    """The table in the paper's form: tasks by methods, and the paper's own beside them."""
    if not found.groups:
        told = "No run has finished yet, so there is no score. What there is:" if found.gaps else "There is no run here."
        return f'<section id="table"><h2>Scores</h2><p>{told}</p>{left_out_note(found)}</section>'
    tasks_of = Counter(group.label for group in found.groups)
    methods = sorted(tasks_of, key=lambda method: -tasks_of[method])  # those that have most to show are seen first
    papers = {task: paper_scores(task) for task in found.tasks}
    beside = any(papers.values())
    rows, means = [], dict[str, list[float]]((method, []) for method in methods)
    for task in found.tasks:
        groups = found.on(task)
        cells = {group.label: (task_cells(groups, policy)[id(group)].get(score), numbers[id(group)]) for group in groups}
        shown = "".join(cell_of(*cells.get(method, (None, ""))) for method in methods)
        paper = papers[task]
        theirs = f'<td class="paper">{marked(paper[OURS], marks(paper).get(OURS)) if paper else ""}</td>' if beside else ""
        name = escape(task, quote=True)
        rows.append(f'<tr data-task="{name}"><th scope="row">{name}</th>{theirs}{shown}</tr>')
        for method, (cell, _) in cells.items():
            if cell is not None and all(_unit(group) == "normalised" for group in groups):
                means[method].append(cell.score.mean)
    if len(found.tasks) > 1:
        whole = {method: float(np.mean(values)) for method, values in means.items() if len(values) == len(found.tasks)}
        if whole:
            best = max(round(mean, 1) for mean in whole.values())
            texts = {method: f"{mean:.1f}" for method, mean in whole.items()}
            texts = {
                name: f"<b>{text}</b>" if round(whole[name], 1) == best and len(whole) > 1 else text
                for name, text in texts.items()
            }
            behind = behind_methods(found, numbers)
            texts = {name: link(text, [behind[name]]) for name, text in texts.items()}
            shown = "".join(f"<td>{texts.get(method, '–')}</td>" for method in methods)
            rows.append(f'<tr class="across"><th scope="row">mean</th>{"<td></td>" if beside else ""}{shown}</tr>')
    heads = (f"<th>the paper's {OURS}</th>" if beside else "") + "".join(f"<th>{name_of(method)}</th>" for method in methods)
    return (
        f'<section id="table"><h2>{COLUMNS[score].capitalize()} score by task</h2><div class="scroll"><table class="scores">'
        f"<thead><tr><th>task</th>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
        f"{mixed_notes(found)}{cost_note(found.runs, found, [score])}{left_out_note(found)}</section>"
    )


def _task_section(found: Gathered, task: str, numbers: dict[int, str], policy: str | None) -> str:
    groups = found.on(task)
    name = escape(task, quote=True)
    charts = [chart for chart in (_curves(groups, numbers, policy), *_histograms(groups)) if chart]
    behind = "".join(runs_section(group, numbers[id(group)], groups, policy) for group in groups)
    return (
        f'<section class="task" data-task="{name}"><h2>{name}</h2>{_task_table(found, task, groups, numbers, policy)}'
        f'<div class="charts">{"".join(charts)}</div>{_task_note(task, groups)}<div class="behind">{behind}</div></section>'
    )


def _task_table(found: Gathered, task: str, groups: Sequence[Group], numbers: dict[int, str], policy: str | None) -> str:
    cells = task_cells(groups, policy)
    paper = paper_scores(task)
    paper_marks = marks(paper)
    columns = [column for column in COLUMNS if any(column in mine for mine in cells.values())]
    names = [paper_method(group.agent, group.bonus, group.runs[0].config["agent"]) or "" for group in groups]
    has_paper = any(name in paper for name in names)
    heads = "".join(f"<th>{COLUMNS[column]}</th>" for column in columns) + ("<th>the paper</th>" if has_paper else "")
    lines = []
    for group, theirs in zip(groups, names, strict=True):
        shown = "".join(cell_of(cells[id(group)].get(column), numbers[id(group)]) for column in columns)
        beside = f'<td class="paper">{marked(paper[theirs], paper_marks.get(theirs)) if theirs in paper else ""}</td>'
        lines.append(
            f'<tr><th scope="row">{name_of(group.label)}</th><td>{group.seeds}</td>{shown}{beside if has_paper else ""}</tr>'
        )
    return (
        f'<div class="scroll"><table class="scores"><thead><tr><th>method</th><th>seeds</th>{heads}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
        + cost_note([run for group in groups for run in group.runs], found, columns)
    )


def _task_note(task: str, groups: Sequence[Group]) -> str:
    """The unit, and all that the paper has on the task."""
    unit = "Normalised scores" if all(_unit(group) == "normalised" for group in groups) else "Returns"
    paper = paper_scores(task)
    if not paper:
        return f'<p class="note">{unit}. The paper has no number for this dataset.</p>'
    paper_marks = marks(paper)
    order = sorted(paper, key=lambda method: (method != OURS, -paper[method].mean))
    whole = ", ".join(f"{escape(method)} {marked(paper[method], paper_marks.get(method))}" for method in order)
    return f'<p class="note">{unit}. The paper, on its own data ({paper_table()["versions"]}): {whole}.</p>'


def _unit(group: Group) -> str:
    return str((group.runs[0].result or {}).get("score_unit", "normalised"))


def _curves(groups: Sequence[Group], numbers: dict[int, str], policy: str | None) -> str:
    lines, normalised = [], all(run.scores(policy) is not None for group in groups for run in group.runs)
    for group in groups:
        curve = mean_curve(group, policy, normalised)
        if curve is not None:
            lines.append(Line(group.label, *curve, target=numbers[id(group)]))
    title = "over training, with 95 % intervals"
    return line_chart(lines, "gradient steps", "normalised score" if normalised else "return", title) if lines else ""


def _histograms(groups: Sequence[Group]) -> list[str]:
    """Of every bonus on the task that was judged by held-out pairs: runs that share a fit share a picture."""
    fits: dict[str, tuple[dict[str, Any], list[Group]]] = {}
    for group in groups:
        found = ((group.runs[0].result or {}).get("bonus") or {}).get("histogram") or {}
        if found:
            fits.setdefault(repr(found), (found, []))[1].append(group)
    number = Counter(of[0].bonus for _, of in fits.values())
    charts = []
    for found, of in fits.values():
        shares = {kind: np.asarray(values, float) for kind, values in found["shares"].items()}
        whose = f" of {of[0].label}" + (f" and {len(of) - 1} more" if len(of) > 1 else "") if number[of[0].bonus] > 1 else ""
        title = f"bonus {of[0].bonus}{whose} on held-out pairs, by kind of action"
        charts.append(histogram_chart(np.asarray(found["edges"], float), shares, "bonus", title))
    return charts


def _gaps_section(gaps: Sequence[Gap]) -> str:
    if not gaps:
        return '<section id="missing"><h2>Missing or failed</h2><p>Nothing.</p></section>'
    rows = "".join(
        f"<tr><td>{escape(gap.state)}</td><td><code>{escape(gap.name)}</code></td><td>{escape(gap.why)}</td></tr>" for gap in gaps
    )
    head = "<tr><th>state</th><th>run</th><th>why, or how far</th></tr>"
    return (
        f'<section id="missing"><h2>Missing or failed</h2><div class="scroll"><table><thead>{head}</thead>'
        f"<tbody>{rows}</tbody></table></div></section>"
    )


def _how_to_read(found: Gathered) -> str:
    cost = cost_line(found.runs, found.sweeps)
    table = paper_table()
    return (
        "<section><h2>How to read this</h2><ul>"
        "<li>Mean ± standard deviation: over the means of the seeds, or over the episodes of a single run.</li>"
        f"<li>The paper's rule: the <b>best mean</b> of a column is bold, <u>one whose own deviation reaches it</u> is "
        "underlined. Ours are compared with ours, the paper's with the paper's: the data are not the same.</li>"
        f"<li>The paper: {escape(table['source'])}. {escape(table['note'])}</li>"
        "<li>Bands of curves: the 95 % interval of the mean by resampling seeds, or the episodes of a single run.</li>"
        "<li>Click a number for the runs behind it, their settings, versions and hashes, and the command that makes them.</li>"
        f"<li>{escape(cost[0].upper() + cost[1:])}.</li></ul></section>"
    )

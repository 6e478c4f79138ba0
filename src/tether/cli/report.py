"""`tether report`: finished runs in one table and one picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tether.report.gathered import Gathered, Group


def report(
    folders: tuple[Path, ...],
    /,
    policy: str | None = None,
    policies: bool = False,
    tasks: bool = False,
    against: str | None = None,
    since: int | None = None,
    until: int | None = None,
    markdown: bool = False,
    csv: bool = False,
    latex: bool = False,
    html: Path | None = None,
    curves: Path | None = None,
    values: Path | None = None,
    statistics: bool = False,
    intervals: Path | None = None,
    score: str = "last",
) -> None:
    """Compare finished runs: last, last ten and best scores, over seeds where there are several.

    Every run below the folders is taken. Runs that lie beside each other and are named s0, s1, ... are seeds of one method: their
    row is the mean ± std of the means of the seeds. A single run's row is the mean ± std over episodes.

    Examples:
        tether report runs
        tether report runs/hopper runs/halfcheetah --markdown
        tether report runs/hopper --policies --curves hopper.png
        tether report runs/quick --tasks
        tether report runs/proof-ablation --against whole --since 35000 --score last_ten
        tether report runs/cartpole --values cartpole.png
        tether report runs/long runs/short --until 30000
        tether report runs/hopper --since 25000 --score last_ten --statistics
        tether report runs/quick/final --statistics --intervals quick.png
        tether report runs/quick --html report.html
        tether report runs/quick/final --latex --score last_ten

    Args:
        folders: Run folders, or folders that hold some.
        policy: Whose score: online, target or ema; unpenalised for dqn. Default: each run's own.
        policies: A row for each of the policies.
        tasks: A row for each method and a column for each task, with last / last ten / best in a cell.
        against: A method, by its name in the table of --tasks. A row for each of the others and a column for each task: in a cell
            the mean score, how far it is from that method's with the same seeds, and the least and the most of that by seed.
        since: Leave out what came before the evaluation at this step, such as an agent's warm-up: the last ten and the best are
            then of the others.
        until: Leave out what came after the evaluation at this step, to compare runs of different lengths.
        markdown: Print the table for a page, with the paper's rule for bold and underlined and its numbers beside ours.
        csv: Print every number on a line of its own, with its runs and the paper's number. What stands below other tables, such
            as what is left out, goes to the standard error.
        latex: Print tasks by methods in the form of the paper's table: the best bold, what reaches it underlined.
        html: Write one page with everything in it: tables beside the paper's, curves, profiles, every number's runs, what is
            missing or failed. It opens anywhere and needs no network.
        curves: Draw the runs over training into this PNG.
        statistics: Compare methods over all tasks and seeds instead: interquartile means, probabilities of improvement and
            performance profiles, with intervals where there are several seeds (needs the extra stats). A method is an agent with
            a bonus, or where one has several settings a folder of seeds.
        intervals: Draw those too, into this PNG: every method on every task, with its interval and its seeds.
        score: Of the statistics, of --against, of --latex and of --html: last or last_ten, which need no simulator to choose a
            step, or best, which does. Of the first two also lowest_of_five, the lowest of the last five evaluations (all, if
            fewer). The other tables have last, last ten and best beside each other.
        values: Draw what Q-values promised at the start of episodes, beside what those were worth (td3, dqn), into this PNG.
    """
    from tether.errors import TetherError
    from tether.report.gathered import gather
    from tether.report.left_out import refuse_nothing

    if not folders:
        raise TetherError("tether report takes folders, such as runs")
    if policies and policy is not None:
        raise TetherError(f"--policies has a row for each policy, so --policy {policy} would be ignored; leave one of them out")
    compares = statistics or intervals is not None or against is not None
    _check_score(score, compares, shows_one=latex or html is not None)
    if csv or latex or html is not None:
        pictures = (curves, values, intervals)
        if (
            policies
            or markdown
            or tasks
            or statistics
            or against is not None
            or any(picture is not None for picture in pictures)
            or (csv and latex)
        ):
            raise TetherError("--csv, --latex and --html are each the whole answer; leave the other ways to show runs out")
        _export(folders, policy, since, until, score, csv, latex, html)
        return
    if against is not None and (tasks or statistics or intervals is not None):
        raise TetherError("--against is a table by itself; leave --tasks, --statistics and --intervals out")
    shown = {"--tasks": tasks, "--policies": policies, "--curves": curves is not None, "--values": values is not None}
    if (statistics or intervals is not None) and any(shown.values()):
        flag = "--statistics" if statistics else "--intervals"
        others = ", ".join(other for other, given in shown.items() if given)
        raise TetherError(
            f"{flag} compares methods over tasks and seeds by itself; leave {others} out, or ask for them without it"
        )
    found = gather(folders).within(since, until)
    refuse_nothing(found, folders)
    window = _window(since, until)
    if statistics or intervals is not None:
        _show_statistics(found, score, policy, markdown, intervals, window)
        return
    if tasks or against is not None:
        if policies or curves is not None or values is not None:
            flag = "--tasks" if tasks else "--against"
            raise TetherError(f"{flag} is a table by itself; leave --policies, --curves and --values out")
        if against is not None:
            _show_against(found, against, score, policy, markdown, window)
        else:
            _show_tasks(found, policy, markdown, window)
        return
    _show_scores(found, policy, policies, markdown, window)
    _draw(found, curves, values, policy, markdown)


def _check_score(score: str, compares: bool, shows_one: bool) -> None:
    """Refuse a score that there is not, and one that would be ignored: most tables have all three beside each other."""
    from tether.errors import TetherError
    from tether.report.by_seed import LOWEST
    from tether.report.tables import COLUMNS

    known = [*COLUMNS] if shows_one else [*COLUMNS, LOWEST]
    if score not in known:
        raise TetherError(f"there is no score {score!r}; there is: {', '.join(known)}")
    if score != "last" and not compares and not shows_one:
        takes = "--statistics, --intervals, --against, --latex and --html take one"
        raise TetherError(f"--score {score} would be ignored: this table has last, last ten and best beside each other; {takes}")


def _window(since: int | None, until: int | None) -> str:
    """What is left of the runs, in words: "last ten" may be fewer then."""
    bounds = [f"{word} step {step:,}" for word, step in (("since", since), ("until", until)) if step is not None]
    return f"of evaluations {' and '.join(bounds)} alone" if bounds else ""


def _notes(found: Gathered, window: str, left_out: Sequence[str] = (), rows: Sequence[Group] | None = None) -> list[str]:
    """What stands below every table: which of its rows are no seeds of one method, what it leaves out, of which evaluations it
    is, and what its choices have cost. `rows` are the groups that it averages, where they are not those found."""
    from tether.report.costs import cost_line
    from tether.report.left_out import left_out_line
    from tether.report.mixed import mixed_lines

    lines = [f"left out: {line}" for line in (*left_out, left_out_line(found)) if line]
    lines = [*mixed_lines(found.groups if rows is None else rows), *lines]
    return [*lines, *([window] if window else []), cost_line(found.runs, found.sweeps)]


def _export(
    folders: tuple[Path, ...],
    policy: str | None,
    since: int | None,
    until: int | None,
    score: str,
    csv: bool,
    latex: bool,
    html: Path | None,
) -> None:
    import sys

    from tether.report.exports import csv_text, latex_table
    from tether.report.gathered import gather
    from tether.report.left_out import refuse_nothing
    from tether.report.page.content import write_page

    found = gather(folders, since, until)
    if html is None or csv or latex or not found.gaps:
        refuse_nothing(found, folders)
    window = _window(since, until)
    notes = _notes(found, window)
    if csv:
        print(csv_text(found, policy), end="")
        print("\n".join(notes), file=sys.stderr)  # so that the lines stay those of the table
    if latex:
        print(latex_table(found, score, policy, notes), end="")
    if html is not None:
        write_page(found, html, f"Runs in {', '.join(map(str, folders))}{window and ', ' + window}", policy, score)
        if not csv and not latex:
            on = f" on {found.tasks[0] if len(found.tasks) == 1 else f'{len(found.tasks)} tasks'}" if found.tasks else ""
            print(f"{html}: {len(found.runs)} finished runs{on}, {len(found.gaps)} missing or failed")


def _show_scores(found: Gathered, policy: str | None, policies: bool, markdown: bool, window: str) -> None:
    from tether.report.gathered import by_folder_name
    from tether.report.markdown import marked_lines, paper_notes
    from tether.report.scoring import group_row
    from tether.report.tables import Row, print_lines, row_lines
    from tether.report.unevaluated import not_evaluated, unevaluated_lines

    groups = by_folder_name(found.groups)
    blind = not_evaluated(groups)
    rows: list[Row] = []
    of: list[Group] = []
    for label, group in groups.items():
        if label in blind:
            continue
        names = list((group.runs[0].result or {})["score_by_policy"]) if policies else [policy]
        for name in names:
            shown = f"{label}, {name}" if policies else label
            rows.append(Row(f"{shown}{group.seeds_note}", group_row(group, name).scores))
            of.append(group)
    if blind:
        title = "not evaluated, for want of an environment (evaluation.env_id); at the end of training:"
        if markdown:
            print(f"{title}\n")
        print_lines(unevaluated_lines(blind), title, markdown)
    if rows:
        lines = marked_lines(rows, of, "run") if markdown else row_lines(rows, "run")
        print_lines(lines, "score, mean ± std over seeds, or over episodes for a single run", markdown)
    notes = _notes(found, window, rows=[*groups.values()])  # here runs of one folder are one row, whatever their data
    print("\n".join([*notes, *(paper_notes(of) if markdown else [])]))


def _show_tasks(found: Gathered, policy: str | None, markdown: bool, window: str) -> None:
    from tether.report.by_task import by_task_lines, paper_line
    from tether.report.markdown import paper_source
    from tether.report.tables import print_lines

    title = "last / last ten / best score; of several seeds, the mean"
    theirs = paper_line(found.tasks) if markdown else []
    print_lines([*by_task_lines(found.groups, policy, markdown), *([theirs] if theirs else [])], title, markdown)
    print("\n".join([*_notes(found, window), *([paper_source()] if theirs else [])]))


def _show_against(found: Gathered, against: str, score: str, policy: str | None, markdown: bool, window: str) -> None:
    from tether.report.against import against_lines
    from tether.report.tables import print_lines

    lines, left_out = against_lines(found.groups, against, score, policy)
    title = f"{score.replace('_', ' ')} score, its mean difference from {against} with the same seeds [least, most]"
    print_lines(lines, title, markdown)
    print("\n".join(_notes(found, window, left_out)))


def _show_statistics(found: Gathered, score: str, policy: str | None, markdown: bool, picture: Path | None, window: str) -> None:
    from tether.report.intervals import draw_intervals
    from tether.report.statistics import collect_scores, profile_lines, statistics_lines, task_lines
    from tether.report.tables import print_lines

    scores = collect_scores(found.groups, score, policy)
    methods, pairs = statistics_lines(scores)
    tables = [methods, *([pairs] if len(pairs) > 1 else []), *([task_lines(scores)] if len(scores.tasks) > 1 else [])]
    on = scores.tasks[0] if len(scores.tasks) == 1 else f"{len(scores.tasks)} tasks"
    for lines in (*tables, profile_lines(scores)):
        print_lines(lines, f"{score.replace('_', ' ')} score on {on}; runs are tasks x seeds", markdown)
    print("\n".join(_notes(found, window, scores.left_out)))
    if picture is not None:
        draw_intervals(scores, found.runs, picture)
        if not markdown:
            print(f"{picture}: {', '.join(scores.by_method)} on {', '.join(scores.tasks)}")


def _draw(found: Gathered, curves: Path | None, values: Path | None, policy: str | None, markdown: bool) -> None:
    from tether.report.curves import draw_curves
    from tether.report.gathered import by_folder_name

    groups = by_folder_name(found.groups)
    if curves is not None:
        every = [(label, run) for label, group in groups.items() for run in group.runs]
        labels = [label if len(groups[label].runs) == 1 else f"{label} {run.path.name}" for label, run in every]
        draw_curves([run for _, run in every], curves, labels=labels, policy=policy)
        if not markdown:
            whose = f", scores of the policy {policy}" if policy else ""
            print(f"{curves}: {len(every)} runs over training{whose}")
    if values is not None:
        _show_values(groups, values, policy, markdown)


def _show_values(groups: dict[str, Group], path: Path, policy: str | None, markdown: bool) -> None:
    from rich.console import Console

    from tether.data.info import DISCOUNT
    from tether.errors import TetherError
    from tether.report.promises import draw_promises, find_promises, promise_lines
    from tether.report.tables import markdown_lines, rich_lines

    found = find_promises({label: group.runs for label, group in groups.items()}, policy)
    discounts = {groups[label].runs[0].config["agent"].get("discount", DISCOUNT) for label in found}
    if len(discounts) > 1:
        listed = " and ".join(f"{discount:g}" for discount in sorted(discounts))
        raise TetherError(f"the runs have discounts of {listed}, so their values do not compare; name their folders apart")
    (discount,) = discounts
    draw_promises(found, path, discount)
    lines = promise_lines(found)
    if markdown:
        print(f"\n{markdown_lines(lines)}", end="")
        return
    title = "at the last evaluation, in scaled rewards; mean ± std over seeds"
    Console().print(rich_lines(lines, title=title))
    print(f"{path}: the same over training")

"""`tether report`: finished runs in one table and one picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tether.runs.reading import Run


def report(
    folders: tuple[Path, ...],
    /,
    policy: str | None = None,
    policies: bool = False,
    until: int | None = None,
    markdown: bool = False,
    curves: Path | None = None,
    values: Path | None = None,
    statistics: bool = False,
    score: str = "last",
) -> None:
    """Compare finished runs: last, last ten and best scores, over seeds where there are several.

    Every run below the folders is taken. Runs that lie beside each other and are named s0, s1, ... are seeds of one method: their
    row is the mean ± std of the means of the seeds. A single run's row is the mean ± std over episodes.

    Examples:
        tether report runs
        tether report runs/hopper runs/halfcheetah --markdown
        tether report runs/hopper --policies --curves hopper.png
        tether report runs/cartpole --values cartpole.png
        tether report runs/long runs/short --until 30000
        tether report runs/quick/final --statistics

    Args:
        folders: Run folders, or folders that hold some.
        policy: Whose score: online, target or ema; unpenalised for dqn. Default: each run's own.
        policies: A row for each of the policies.
        until: Leave out what came after the evaluation at this step, to compare runs of different lengths.
        markdown: Print the table for a page.
        curves: Draw the runs over training into this PNG.
        statistics: Compare methods over all tasks and seeds instead: interquartile means and probabilities of improvement, with
            intervals (needs the extra stats). A method is an agent with a bonus.
        score: Of the statistics: last or last_ten, which need no simulator to choose a step, or best, which does.
        values: Draw what Q-values promised at the start of episodes, beside what those were worth (td3, dqn), into this PNG.
    """
    from rich.console import Console

    from tether.errors import TetherError
    from tether.report.curves import draw_curves
    from tether.report.tables import Row, markdown_table, rich_table, run_row, seeds_row
    from tether.runs.reading import find_runs

    found = find_runs(folders)
    found = found if until is None else [run.until(until) for run in found]
    if statistics:
        _show_statistics(found, folders, score, policy, markdown)
        return
    groups = _by_method(found)
    rows: list[Row] = []
    for label, runs in groups.items():
        names = list(runs[0].result["score_by_policy"]) if policies and runs[0].result else [policy]
        for name in names:
            shown = f"{label}, {name}" if policies else label
            rows.append(
                run_row(shown, runs[0], name) if len(runs) == 1 else seeds_row(f"{shown} ({len(runs)} seeds)", runs, name)
            )
    if not rows:
        raise TetherError(f"no finished run in {', '.join(map(str, folders))}")
    if markdown:
        print(markdown_table(rows, heading="run"), end="")
    else:
        Console().print(rich_table(rows, title="score, mean ± std over seeds, or over episodes for a single run", heading="run"))
    if curves is not None:
        every = [(label, run) for label, runs in groups.items() for run in runs]
        labels = [label if len(groups[label]) == 1 else f"{label} {run.path.name}" for label, run in every]
        draw_curves([run for _, run in every], curves, labels=labels)
        if not markdown:
            print(f"{curves}: {len(every)} runs over training")
    if values is not None:
        _show_values(groups, values, policy, markdown)


def _show_statistics(runs: list[Run], folders: tuple[Path, ...], score: str, policy: str | None, markdown: bool) -> None:
    from rich.console import Console

    from tether.errors import TetherError
    from tether.report.statistics import collect_scores, statistics_lines
    from tether.report.tables import markdown_lines, rich_lines

    if not runs:
        raise TetherError(f"no finished run in {', '.join(map(str, folders))}")
    scores = collect_scores(runs, score, policy)
    methods, pairs = statistics_lines(scores)
    title = f"{score.replace('_', ' ')} score on {len(scores.tasks)} tasks; runs are tasks x seeds"
    for lines in (methods, pairs) if len(pairs) > 1 else (methods,):
        if markdown:
            print(markdown_lines(lines))
        else:
            Console().print(rich_lines(lines, title=title))
    for line in scores.left_out:
        print(f"left out: {line}")


def _show_values(groups: dict[str, list[Run]], path: Path, policy: str | None, markdown: bool) -> None:
    from rich.console import Console

    from tether.data.info import DISCOUNT
    from tether.errors import TetherError
    from tether.report.promises import draw_promises, find_promises, promise_lines
    from tether.report.tables import markdown_lines, rich_lines

    found = find_promises(groups, policy)
    discounts = {groups[label][0].config["agent"].get("discount", DISCOUNT) for label in found}
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


def _by_method(runs: list[Run]) -> dict[str, list[Run]]:
    """Runs by label; those named s0, s1, ... under the name of their folder."""
    import re

    groups: dict[str, list[Run]] = {}
    for run in runs:
        method = run.path.parent if re.fullmatch(r"s\d+", run.path.name) else run.path
        groups.setdefault(method.as_posix(), []).append(run)
    return _without_shared_start(groups)


def _without_shared_start(groups: dict[str, list[Run]]) -> dict[str, list[Run]]:
    """Labels without the folders that all of them begin with, which tell nothing."""
    parts = [label.split("/") for label in groups]
    shared = 0
    while all(len(p) > shared + 1 for p in parts) and len({p[shared] for p in parts}) == 1:
        shared += 1
    return {"/".join(p[shared:]): runs for p, runs in zip(parts, groups.values(), strict=True)}

"""`tether select`: one of several runs, chosen without a simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import tyro


def select(
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional],
    dataset: str | None = None,
    log: str | None = None,
    baseline: Path | None = None,
    bonus: str | None = None,
    steps: int | None = None,
    discount: float | None = None,
    policies: bool = False,
    json: bool = False,
    out: Path | None = None,
) -> None:
    """Choose among finished runs without a simulator; or say that none is to be trusted, and why.

    Each policy is valued by fitted Q evaluation on the log that the runs learnt from, at the starts of held-out episodes, and
    compared with the baseline start by start. Its actions are held against recorded ones: the share outside the data, the
    distance. What each measure is worth is in docs/selection.md.

    What was measured is kept: interrupted, or with one more run, the same command goes on with what is missing. Held-out episodes
    are made before training, by tether data split.

    Examples:
        tether select runs/mine --dataset held-out.hdf5
        tether select runs/a runs/b runs/c --dataset held-out.hdf5 --baseline runs/cloned
        tether select runs/mine --dataset held-out.hdf5 --policies --json

    Args:
        runs: Run folders, or folders with run folders below them.
        dataset: Held-out episodes of the same task, which the runs have not learnt from.
        log: The log to learn values from. Default: the one that the runs learnt from.
        baseline: The run to beat, one of those given. Default: the one of the agent bc; if there is none, the log itself.
        bonus: What judges actions, fitted to the log for it. Default: density, the likelihood of a cloned policy.
        steps: Of each evaluation. Default: 5,000.
        discount: Of values. Default: that of the runs.
        policies: Compare all policies of each run (online, target, ema), not its own alone.
        json: Print one JSON object instead of a table and words.
        out: Write that object to this file too.
    """
    from json import dumps

    from rich.console import Console

    from tether import storage
    from tether.selection.commands import select as choose

    # With --json, stdout holds the object alone.
    say = (lambda text: None) if json else print
    found = choose(
        runs,
        dataset,
        log=log,
        baseline=baseline,
        bonus=bonus,
        steps=steps,
        discount=discount,
        every_policy=policies,
        say=say,
    )
    if out is not None:
        storage.write_json(out, found.plain())
    if json:
        print(dumps(found.plain(), indent=2))
        return
    Console().print(_table(found))
    print(found)


def _table(found: Any) -> Any:
    from tether.report.tables import rich_lines

    heading = ["run", "value", "gain", "outside", "dist.", "TD"]
    lines = [heading]
    for place, each in enumerate(found.ranked, start=1):
        measured = each.measured
        value = "{mean:.3g} [{low:.3g}, {high:.3g}]".format(**measured.value.plain())
        gain = "baseline" if each.gain is None else "{mean:+.3g} [{low:+.3g}, {high:+.3g}]".format(**each.gain.plain())
        error = "-" if measured.td_error is None else f"{measured.td_error:.2g}"
        lines.append(
            [f"{place} {each.candidate.agent}", value, gain, f"{measured.outside:.0%}", f"{measured.distance:.2g}", error]
        )
    title = "value from held-out starts on, and gain over the baseline, with 95 % intervals"
    return rich_lines(lines, title)

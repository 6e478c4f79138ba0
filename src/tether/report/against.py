"""Every method beside one of them, on each task and with the same seeds: what a change does, as an ablation asks."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from tether.errors import TetherError, did_you_mean
from tether.report.by_seed import scores_by_seed, units
from tether.report.by_task import NOT_RUN
from tether.report.gathered import Group

Seeds = Mapping[int, float]


def against_lines(
    groups: Sequence[Group], method: str, score: str = "last", policy: str | None = None
) -> tuple[list[list[str]], list[str]]:
    """A table with its heading, that method first; and which runs it leaves out, in words.

    Of two methods the seeds are compared that both have. With one seed in common a cell has no range: nothing is known of others.
    """
    labels = list(dict.fromkeys(group.label for group in groups))
    if method not in labels:
        raise TetherError(f"--against {method}: there is no such method here{did_you_mean(method, labels)}")
    tasks = list(dict.fromkeys(group.task for group in groups))
    for task in tasks:
        if len(units([group for group in groups if group.task == task])) > 1:
            raise TetherError(f"{task}: some scores are normalised and some are returns, so they have no difference")
    found = scores_by_seed(groups, score, policy)
    those = found.pop(method)
    lines = [["method", *tasks], [method, *(_own(those.get(task, {})) for task in tasks)]]
    lines += [[label, *(_beside(mine.get(task, {}), those.get(task, {})) for task in tasks)] for label, mine in found.items()]
    return lines, [
        f"{label} on {task}: seed{'' if len(alone) == 1 else 's'} {', '.join(map(str, alone))}, which {method} has no run of"
        for label, mine in found.items()
        for task, seeds in mine.items()
        if (alone := sorted(seeds.keys() - those.get(task, {}).keys()))
    ]


def _own(seeds: Seeds) -> str:
    return f"{statistics.fmean(seeds.values()):.1f}{_number(len(seeds))}" if seeds else NOT_RUN


def _beside(mine: Seeds, those: Seeds) -> str:
    """`50.3, -15.0 [-18.2, -9.7] (3 seeds)`: the mean, how far it is from the other's, the least and the most of that."""
    both = sorted(mine.keys() & those.keys())
    if not both:
        return NOT_RUN
    changes = [mine[seed] - those[seed] for seed in both]
    span = f" [{min(changes):+.1f}, {max(changes):+.1f}]" if len(both) > 1 else ""
    return f"{statistics.fmean(mine[seed] for seed in both):.1f}, {statistics.fmean(changes):+.1f}{span}{_number(len(both))}"


def _number(seeds: int) -> str:
    return f" ({seeds} seeds)" if seeds > 1 else ""

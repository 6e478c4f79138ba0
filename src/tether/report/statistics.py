"""Methods over many tasks and seeds in a few numbers that say how sure they are, after Agarwal et al. (2021), by `rliable`.

Methods are groups of runs of one name (`tether.report.gathered`). Runs are resampled within their task (a stratified bootstrap),
so intervals are about other seeds on the same tasks and not about other tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from tether.errors import TetherError
from tether.report.by_seed import scores_by_seed, units
from tether.report.gathered import Group

RESAMPLES = 2_000
THRESHOLDS = 41  # of a profile that is drawn
PACKAGE = "tether report --statistics needs the package rliable; pip install 'tether-rl[stats]' brings it"


@dataclass(frozen=True)
class Interval:
    """A number, and where 95 % of the resampled ones lie."""

    value: float
    low: float
    high: float

    def spell(self, digits: int = 1) -> str:
        return f"{self.value:.{digits}f} [{self.low:.{digits}f}, {self.high:.{digits}f}]"


class Profile(NamedTuple):
    """The share of runs above each threshold, and where 95 % of the resampled ones lie."""

    share: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class Scores:
    """What is compared: of every method, as many seeds on the same tasks."""

    tasks: tuple[str, ...]
    by_method: dict[str, np.ndarray]  # (seeds, tasks)
    left_out: list[str] = field(default_factory=list)  # what was not used, in words


def collect_scores(groups: Sequence[Group], score: str = "last", policy: str | None = None) -> Scores:
    """The scores of finished runs by method, on the tasks that all methods have, with as many seeds on each as on the least.

    Methods that have far fewer tasks than others are left out: one that was tried on one task only would else take all other
    tasks out of the comparison.
    """
    kept, left_out = _comparable(groups)
    found = scores_by_seed(kept, score, policy)
    every = sorted({task for tasks in found.values() for task in tasks})
    tasks = [task for task in every if all(task in mine for mine in found.values())]
    if not tasks:
        raise TetherError(f"no task has a run of each of {', '.join(found)}; there is nothing to compare")
    if len(tasks) > 1 and units(kept) != {"normalised"}:
        raise TetherError("returns of different tasks have no common mean; statistics over several tasks need normalised scores")
    left_out += [f"{task}: not every method has a run on it" for task in every if task not in tasks]
    by_method = {}
    for method, mine in found.items():
        number = min(len(mine[task]) for task in tasks)
        dropped = sum(len(mine[task]) - number for task in tasks)
        if dropped:
            left_out.append(f"{method}: seeds beyond {number} a task, {dropped} in all; some tasks have no more")
        by_method[method] = np.array([[mine[task][seed] for seed in sorted(mine[task])[:number]] for task in tasks]).T
    return Scores(tuple(tasks), by_method, left_out)


def _comparable(groups: Sequence[Group]) -> tuple[list[Group], list[str]]:
    """Groups of methods that have about as many tasks as any, two methods at least; and what that leaves out."""
    tasks: dict[str, set[str]] = {}
    for group in groups:
        tasks.setdefault(group.label, set()).add(group.task)
    enough = sorted(map(len, tasks.values()))[-2:][0]
    kept = [group for group in groups if len(tasks[group.label]) >= enough]
    few = sorted(label for label, mine in tasks.items() if len(mine) < enough)
    return kept, [f"{label}: only on {', '.join(sorted(tasks[label]))}" for label in few]


def interquartile_means(scores: Scores) -> dict[str, Interval]:
    """The mean of the middle half of all runs of a method: of less noise than the median, and not ruled by one task."""
    _, metrics = _rliable()
    found = _estimates(scores.by_method, lambda values: np.array([metrics.aggregate_iqm(values)]))
    return {name: intervals[0] for name, intervals in found.items()}


def task_means(scores: Scores) -> dict[str, list[Interval]]:
    """The same task by task, in their order. Of two or three seeds the interval goes about from the worst to the best."""
    return _estimates(scores.by_method, middle_half)


def middle_half(values: np.ndarray) -> np.ndarray:
    """The interquartile mean of each column, as rliable has it of all: `(seeds, tasks) -> (tasks,)`."""
    cut = int(0.25 * len(values))
    return np.mean(np.sort(values, axis=0)[cut : len(values) - cut], axis=0)


def improvements(scores: Scores) -> dict[tuple[str, str], Interval]:
    """How probable it is that a run of the one method is better than one of the other, on a task taken at random."""
    pairs = {pair: tuple(scores.by_method[name] for name in pair) for pair in combinations(sorted(scores.by_method), 2)}
    found = {pair: intervals[0] for pair, intervals in _estimates(pairs, share_better).items()}
    return found | {(b, a): Interval(1.0 - p.value, 1.0 - p.high, 1.0 - p.low) for (a, b), p in found.items()}


def share_better(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Of all pairs of runs on the same task, those in which the first is better; a draw counts a half. `(seeds, tasks)` each.

    As rliable's own, which on the way makes a test of significance for every task and resample: minutes for five methods.
    """
    left, right = one[:, None], other[None]
    return np.array([np.mean((left > right) + 0.5 * (left == right))])


def performance_profiles(scores: Scores, thresholds: np.ndarray | None = None) -> tuple[np.ndarray, dict[str, Profile]]:
    """Thresholds, and by method the share of runs above each."""
    library, _ = _rliable()
    if thresholds is None:
        every = np.concatenate([values.ravel() for values in scores.by_method.values()])
        low, high = float(every.min()), float(every.max())
        thresholds = np.linspace(min(0.0, low), high if high > low else low + 1.0, THRESHOLDS)
    found = {}
    for name, values in scores.by_method.items():
        with _fixed_draws():
            profiles, intervals = library.create_performance_profile({name: values}, thresholds, reps=RESAMPLES)
        found[name] = Profile(profiles[name], *intervals[name])
    return thresholds, found


def statistics_lines(scores: Scores) -> tuple[list[list[str]], list[list[str]]]:
    """Two tables, with their headings: the methods, the best first, and each against those below it."""
    means, better = interquartile_means(scores), improvements(scores)
    ordered = sorted(scores.by_method, key=lambda name: -means[name].value)
    methods = [["method", "runs", "interquartile mean [95 %]", "mean"]]
    for name in ordered:
        values = scores.by_method[name]
        spelt = _spelt(means[name], known=values.shape[0] > 1) + (" [one seed: not known]" if values.shape[0] == 1 else "")
        methods.append([name, f"{values.shape[1]} x {values.shape[0]}", spelt, f"{values.mean():.1f}"])
    pairs = [["better than", "probability [95 %]"]]
    for one, other in combinations(ordered, 2):
        known = all(scores.by_method[name].shape[0] > 1 for name in (one, other))
        pairs.append([f"{one} than {other}", _spelt(better[one, other], known, 2)])
    return methods, pairs


def task_lines(scores: Scores) -> list[list[str]]:
    """A table of tasks by methods."""
    means, known = task_means(scores), {name: values.shape[0] > 1 for name, values in scores.by_method.items()}
    cells = ([_spelt(means[name][place], known[name]) for name in means] for place in range(len(scores.tasks)))
    return [["task", *means], *([task, *line] for task, line in zip(scores.tasks, cells, strict=True))]


def profile_lines(scores: Scores, most: int = 6) -> list[list[str]]:
    """A table of performance profiles at a few round thresholds; a page draws them whole."""
    every = np.concatenate([values.ravel() for values in scores.by_method.values()])
    low, high = min(0.0, float(every.min())), float(every.max())
    step = _round_step((high - low) / most)
    thresholds = step * np.arange(np.floor(low / step), max(np.ceil(high / step), np.floor(low / step) + 1))
    _, profiles = performance_profiles(scores, thresholds)
    lines = [["runs above", *scores.by_method]]
    for place, threshold in enumerate(thresholds):
        cells = []
        for name, values in scores.by_method.items():
            found = Interval(*(float(part[place]) for part in profiles[name]))
            cells.append(_spelt(found, values.shape[0] > 1, 2))
        lines.append([f"{threshold:g}", *cells])
    return lines


def _spelt(found: Interval, known: bool, digits: int = 1) -> str:
    """Resampling one seed gives that seed again, which says nothing of others: then the interval is not `known`."""
    return found.spell(digits) if known else f"{found.value:.{digits}f}"


def _round_step(rough: float) -> float:
    """The next of 1, 2, 5, 10, 20, … from `rough` on."""
    size = 10.0 ** np.floor(np.log10(rough)) if rough > 0 else 1.0
    return float(next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough * 0.999))


def _estimates(given: Mapping[Any, Any], statistic: Callable[..., np.ndarray]) -> dict[Any, list[Interval]]:
    """The statistic of each, number by number, with its intervals. Each has the same draws, whatever else is compared."""
    library, _ = _rliable()
    found = {}
    for name, scores in given.items():
        with _fixed_draws():
            points, intervals = library.get_interval_estimates({"this": scores}, statistic, reps=RESAMPLES)
        numbers = zip(points["this"], *intervals["this"], strict=True)
        found[name] = [Interval(*map(float, number)) for number in numbers]
    return found


def _rliable():  # type: ignore[no-untyped-def]
    try:
        from rliable import library, metrics
    except ImportError as error:
        raise TetherError(PACKAGE) from error
    return library, metrics


@contextmanager
def _fixed_draws() -> Iterator[None]:
    """The same resamples for the same runs. rliable draws from NumPy's global generator, whatever it is given."""
    before = np.random.get_state()
    np.random.seed(0)
    try:
        yield
    finally:
        np.random.set_state(before)

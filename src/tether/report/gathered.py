"""All that folders hold: groups of finished runs, and what is missing or failed. Nothing is left out without a word."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tether.errors import TetherError
from tether.locks import is_held
from tether.runs import SWEEP_FOLDER
from tether.runs.reading import Run, read_run
from tether.storage import read_json


@dataclass(frozen=True)
class Group:
    """Finished runs that differ in their seed."""

    label: str  # that tells it from the others
    task: str  # the name of the dataset
    agent: str
    bonus: str
    runs: tuple[Run, ...]
    missing: int = 0  # seeds of it that were begun or planned and have no result

    @property
    def method(self) -> str:
        return f"{self.agent}-{self.bonus}"

    @property
    def folder(self) -> str:
        return _folder(self.runs[0].path)

    @property
    def seeds(self) -> str:
        """`3`, or `2 of 3` where one has no result."""
        return f"{len(self.runs)} of {len(self.runs) + self.missing}" if self.missing else str(len(self.runs))

    @property
    def seeds_note(self) -> str:
        """What follows its name in a table: ` (2 of 3 seeds)`, or nothing of a run that stands alone."""
        return f" ({self.seeds} seeds)" if len(self.runs) + self.missing > 1 else ""


@dataclass(frozen=True)
class Gap:
    """A run that has no result."""

    name: str
    state: str  # failed, running, unfinished, unreadable, not begun
    why: str

    @property
    def folder(self) -> str:
        """Of its method, as a group's."""
        return _folder(Path(self.name))

    @property
    def seed(self) -> str:
        """`s3`; empty of a run that is not one of several seeds."""
        return Path(self.name).name if self.folder != self.name else ""


@dataclass(frozen=True)
class SweepFacts:
    """What a sweep's head has written down about its plan."""

    name: str
    folder: Path
    runs: tuple[str, ...]
    chosen_by: str = ""  # in words; empty: nothing was chosen
    episodes: int = 0  # in the environment, that the choice has cost


@dataclass(frozen=True)
class Gathered:
    groups: tuple[Group, ...]
    gaps: tuple[Gap, ...] = ()
    sweeps: tuple[SweepFacts, ...] = field(default_factory=tuple)

    @property
    def tasks(self) -> list[str]:
        return list(dict.fromkeys(group.task for group in self.groups))

    def on(self, task: str) -> list[Group]:
        return [group for group in self.groups if group.task == task]

    @property
    def runs(self) -> list[Run]:
        return [run for group in self.groups for run in group.runs]

    def within(self, since: int | None = None, until: int | None = None) -> Gathered:
        """Of every run what lies within the two steps. It is an error if one was not evaluated at them."""
        cut = (replace(group, runs=tuple(run.within(since, until) for run in group.runs)) for group in self.groups)
        return replace(self, groups=tuple(cut))


def gather(folders: Sequence[Path], since: int | None = None, until: int | None = None) -> Gathered:
    """Everything in and below the folders, of runs what lies within the two steps."""
    finished: dict[Path, Run] = {}
    gaps: list[Gap] = []
    for place in _run_folders(folders):
        try:
            run = read_run(place)
            if run.result is not None:
                finished[place] = run.within(since, until)
                continue
            gaps.append(_unfinished(run))
        except TetherError as error:
            gaps.append(Gap(place.as_posix(), "unreadable", str(error)))
    sweeps = find_sweeps(folders)
    gaps = _with_reasons(gaps, sweeps, {folder.resolve(): folder for folder in folders})
    beside = Counter(Path(gap.folder).resolve() for gap in gaps if gap.seed)
    groups = (replace(group, missing=beside[Path(group.folder).resolve()]) for group in group_runs(list(finished.values())))
    return Gathered(tuple(groups), tuple(gaps), sweeps)


def group_runs(runs: Sequence[Run]) -> tuple[Group, ...]:
    """Runs that lie beside each other and are named s0, s1, ... are seeds of one method.

    A group is named by its agent and bonus where that tells all of a task's apart, else by its folder: by as little of it as
    tells them apart, so that a method has one name on all tasks.
    """
    by_folder: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        by_folder.setdefault((_folder(run.path), _task(run)), []).append(run)
    places = list(by_folder)
    methods = ["-".join(found[0].method) for found in by_folder.values()]
    whole = _without_shared_start([folder for folder, _ in places])
    tasks = [task for _, task in places]
    short = [_short(label, task, method) for label, task, method in zip(whole, tasks, methods, strict=True)]
    shorter = [_variant(label, method) for label, method in zip(short, methods, strict=True)]
    variants = [name.rpartition("/")[2] for name in shorter]  # without the folders of sweeps, of which each has other tasks
    labels = next(
        (names for names in (methods, variants, shorter, short) if len(set(zip(tasks, names, strict=True))) == len(places)), whole
    )
    return tuple(
        Group(label, task, *found[0].method, tuple(found))
        for label, task, found in zip(labels, tasks, by_folder.values(), strict=True)
    )


def by_folder_name(groups: Sequence[Group]) -> dict[str, Group]:
    """Groups by their folder, without what all of those begin with. Runs of one folder are together, whatever their task."""
    found: dict[str, Group] = {}
    for group in groups:
        before = found.get(group.folder)
        found[group.folder] = group if before is None else replace(before, runs=before.runs + group.runs)
    return dict(zip(_without_shared_start(list(found)), found.values(), strict=True))


def find_sweeps(folders: Sequence[Path]) -> tuple[SweepFacts, ...]:
    """Of the sweeps in, below or just above the folders: `tether report OUT/final` is about the sweep in OUT."""
    found: dict[Path, SweepFacts] = {}
    for folder in folders:
        places = [*sorted(folder.rglob(f"{SWEEP_FOLDER}/plan.json"))]
        places += [parent / SWEEP_FOLDER / "plan.json" for parent in (folder.resolve().parent, folder.resolve().parent.parent)]
        for place in places:
            if place.is_file() and place.resolve() not in found:
                facts = _sweep_facts(place)
                if facts is not None:
                    found[place.resolve()] = facts
    return tuple(found.values())


def _sweep_facts(place: Path) -> SweepFacts | None:
    try:
        content: dict[str, Any] = read_json(place)
        return SweepFacts(
            str(content["plan"]),
            place.parent.parent,
            tuple(map(str, content["runs"])),
            str(content["chosen_by"]),
            int(content["episodes"]),
        )
    except (TetherError, KeyError, TypeError, ValueError):  # of another version: the runs speak for themselves
        return None


def _with_reasons(gaps: list[Gap], sweeps: Sequence[SweepFacts], within: Mapping[Path, Path]) -> list[Gap]:
    """What the heads of sweeps know of runs without a result in these folders: why they failed, which were never begun.

    `within` has the folders by what they resolve to: a run is named as they were.
    """
    known = {Path(gap.name).resolve(): gap for gap in gaps}
    for sweep in sweeps:
        for name in sweep.runs:
            where = (sweep.folder / name).resolve()
            place = next(
                (folder / where.relative_to(found) for found, folder in within.items() if where.is_relative_to(found)), None
            )
            if place is None or (place / "result.json").exists():
                continue
            failure = sweep.folder / SWEEP_FOLDER / "failed" / f"{name}.json"
            if failure.exists():
                known[where] = Gap(place.as_posix(), "failed", _reason(failure))
            elif where not in known:
                known[where] = Gap(place.as_posix(), "not begun", f"of the plan {sweep.name}")
    return list(known.values())


def _reason(failure: Path) -> str:
    try:
        return str(read_json(failure).get("reason"))
    except (TetherError, AttributeError) as error:
        return str(error)


def _run_folders(folders: Sequence[Path]) -> list[Path]:
    found: dict[Path, Path] = {}
    for folder in folders:
        if not folder.is_dir():
            raise TetherError(f"there is no folder {folder}")
        places = {place.parent for name in ("result.json", "config.json") for place in folder.rglob(name)}
        for place in sorted(places):
            if SWEEP_FOLDER not in place.parts:
                found.setdefault(place.resolve(), place)
    return list(found.values())


def _unfinished(run: Run) -> Gap:
    step = int(run.training[-1]["step"]) if run.training else 0
    of = run.config.get("training", {}).get("steps")
    how_far = f"at step {step:,}" + (f" of {of:,}" if isinstance(of, int) else "")
    return Gap(run.path.as_posix(), "running" if is_held(run.path) else "unfinished", how_far)


def _folder(run: Path) -> str:
    """That of the method: of runs named s0, s1, ... the one they share."""
    return (run.parent if re.fullmatch(r"s\d+", run.name) else run).as_posix()


def _task(run: Run) -> str:
    assert run.result is not None
    return str(run.result["dataset"]["name"])


def _short(label: str, task: str, method: str) -> str:
    """A folder's name without the parts that say the task, which stands beside it."""
    return "/".join(part for part in label.split("/") if part != task and not task.startswith(f"{part}-")) or method


def _variant(label: str, method: str) -> str:
    """Where a name follows agent and bonus, as in the folders of a sweep, that name: it is a plan's own."""
    before, _, after = label.partition(f"{method}/")
    return f"{before}{after}" if after else label


def _without_shared_start(labels: list[str]) -> list[str]:
    """Labels without the folders that all of them begin with, which tell nothing."""
    parts = [label.split("/") for label in labels]
    shared = 0
    while all(len(p) > shared + 1 for p in parts) and len({p[shared] for p in parts}) == 1:
        shared += 1
    return ["/".join(p[shared:]) for p in parts]

"""Runs that differ in their seeds alone, trained as one program. Each has its own folder, as if it were alone.

They share the data, the fit of the bonus and the environments to be judged in. One that fails, as by diverging, ends there and
its folder is free; the program goes on with its numbers, which nobody looks at, rather than compile anew without them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tether import storage
from tether.config import RunConfig
from tether.data import Located, locate
from tether.errors import TetherError
from tether.evaluation.rollout import Evaluator
from tether.progress import Bar, progress
from tether.runs import checkpoint
from tether.runs.identity import find_result, write_config
from tether.training.attached import EpochClock, Stopping
from tether.training.interrupt import StopRequest, stop_on_interrupt
from tether.training.loop import Epoch
from tether.training.preparing import (
    Materials,
    Say,
    check_materials,
    fit_shown,
    lesson_of,
    open_dataset,
    say_clipping,
    say_episodes,
    say_scaling,
    say_warm_up,
)
from tether.training.run import run
from tether.training.sitting import Sitting, Start, sitting, start_of
from tether.training.together import epoch_of

Tell = Callable[[int, Exception | None], None]


class Member:
    """One of the runs. What it holds ends with it, or with the group."""

    def __init__(self, number: int, config: RunConfig, folder: Path, say: Say) -> None:
        self.number, self.config, self.folder = number, config, folder
        self.held = ExitStack()
        self.say: Say = lambda text: say(f"{folder.name}: {text}")
        self.materials: Materials
        self.start: Start
        self.sitting: Sitting
        self.epoch: Epoch  # the last, of this one alone


class Group:
    """The runs that are still at work. `tell` hears of each as it ends: None where it is finished, else why it failed."""

    def __init__(self, members: Sequence[Member], tell: Tell) -> None:
        self.members, self._tell = list(members), tell

    def each(self, do: Callable[[Member], None]) -> None:
        """Where it fails for one, the others go on without that one."""
        for member in [*self.members]:
            try:
                do(member)
            except Exception as error:
                self._end(member, error)

    def finish(self, member: Member) -> None:
        self._end(member, None)

    def _end(self, member: Member, error: Exception | None) -> None:
        self.members.remove(member)
        member.held.close()
        self._tell(member.number, error)


def run_together(
    configs: Sequence[RunConfig],
    folders: Sequence[Path],
    tell: Tell,
    show: bool = True,
    say: Say = print,
    data: Located | None = None,
    on_disk: bool | None = None,
) -> None:
    """Train each to its end, or go on with what is in its folder; all stand at one step. Finished ones are left as they are.

    What goes wrong with one is told of that one. What goes wrong with all, as a dataset that cannot be read, is raised.
    """
    began = time.perf_counter()
    check_alike(configs)
    data = data or locate(configs[0].dataset)
    sha256 = data.sha256
    members = [Member(number, config, folder, say) for number, (config, folder) in enumerate(zip(configs, folders, strict=True))]
    group = Group(members, tell)

    def look(member: Member) -> None:
        if find_result(member.folder, member.config, sha256) is not None:
            member.say(f"finished ({member.config.training.steps:,} steps); left as it is")
            group.finish(member)
        else:
            checkpoint.find(member.folder, member.config, sha256)

    group.each(look)
    if len(group.members) == 1:  # which is then a run like any other

        def alone(member: Member) -> None:
            run(member.config, member.folder, show, member.say, data, on_disk)
            group.finish(member)

        group.each(alone)
    if not group.members:
        return
    raw, config = open_dataset(data, on_disk, show), configs[0]
    with ExitStack() as stack:
        for member in group.members:
            stack.callback(member.held.close)
            member.held.enter_context(storage.exclusive(member.folder))
        stop = stack.enter_context(stop_on_interrupt())
        checked = check_materials(config, raw, None, stack)
        group.each(lambda member: write_config(member.folder, member.config, sha256))
        say_episodes(raw, say)
        say_clipping(checked, say)
        say_scaling(config, raw, checked.reward_scale, say)
        say_warm_up(config, say)
        bonus = fit_shown(config, checked.dataset, stop, show, say)
        m = Materials(config, folders[0], checked.dataset, checked.reward_scale, bonus, checked.env_id)
        _train(group, m, checked.evaluator, stop, began, show, say)


def check_alike(configs: Sequence[RunConfig]) -> None:
    """Refuse what cannot be one program."""
    if len({config.seed for config in configs}) < len(configs):
        raise TetherError("two of the runs have the same seed; together are trained runs of different seeds")
    if any(replace(config, seed=configs[0].seed) != configs[0] for config in configs):
        raise TetherError("the runs differ in more than their seeds, so they cannot be trained together")


def _train(
    group: Group, shared: Materials, evaluator: Evaluator | None, stop: StopRequest, began: float, show: bool, say: Say
) -> None:
    config, epoch_steps = shared.config, shared.config.epoch_steps
    asked = StopRequest()  # what was asked when an epoch ended: all are saved at that step, or none is
    with closing(lesson_of(shared)) as lesson, ExitStack() as stack:

        def begin(member: Member) -> None:
            member.materials = replace(shared, config=member.config, folder=member.folder)
            member.start = start_of(member.materials, lesson.fresh(member.config.seed), member.say)
            member.epoch = member.start.epoch

        group.each(begin)
        first = _common_step(group.members)
        seeds = [member.config.seed for member in group.members]
        title = ", ".join(member.folder.name for member in group.members)
        bar = stack.enter_context(progress(title, config.training.steps, start=first, enabled=show))

        def sit(member: Member) -> None:
            score = _Score(bar, member.folder.name)
            work = sitting(member.materials, lesson, member.start, evaluator, asked, began, score, member.say, seeds)
            member.sitting = member.held.enter_context(work)
            member.sitting.evaluate(member.epoch)  # one that was due when it was stopped

        group.each(sit)
        members = [*group.members]
        if not members:
            return
        clock, stopping = EpochClock(), Stopping(asked, say)
        states, seeds = [member.epoch.state for member in members], [member.config.seed for member in members]
        epochs = lesson.epochs_together(states, seeds, first, epoch_steps)
        for epoch in clock.timed(epochs):
            asked.asked = stop.asked
            group.each(partial(_take, epoch, members))
            if not group.members:
                return
            stopping(epoch)
            group.each(lambda member: member.sitting.evaluate(member.epoch))

        def finish(member: Member) -> None:
            member.sitting.finish(member.epoch, clock.rate(epoch_steps))
            group.finish(member)

        group.each(finish)


def _take(epoch: Epoch, members: Sequence[Member], member: Member) -> None:
    member.epoch = epoch_of(epoch, members.index(member))
    member.sitting.take(member.epoch)


def _common_step(members: Sequence[Member]) -> int:
    steps = {member.epoch.step for member in members}
    if len(steps) > 1:
        where = ", ".join(f"{member.folder.name} at step {member.epoch.step:,}" for member in members)
        raise TetherError(f"runs that are trained together must stand at one step; here {where}")
    return steps.pop() if steps else 0


@dataclass(frozen=True)
class _Score:
    """What one of them shows in the bar of all: where they are, and its own score."""

    bar: Bar
    name: str

    def update(self, step: int, **fields: float | str) -> None:
        self.bar.update(step, **{f"{self.name} score": value for name, value in fields.items() if name == "score"})

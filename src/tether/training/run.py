"""One run: from a config and a folder to a finished run, whatever interrupts it on the way. `tether.runs` tells what is where."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from tether import storage
from tether.config import RunConfig, to_json
from tether.data import Located, locate
from tether.evaluation.rollout import Evaluator
from tether.progress import progress
from tether.runs import checkpoint
from tether.runs.identity import find_result, write_config
from tether.runs.longer import make_longer
from tether.runs.wandb import WandbRun, check_installed
from tether.training.attached import EpochClock, Stopping
from tether.training.interrupt import StopRequest, stop_on_interrupt
from tether.training.preparing import (
    Beginning,
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
from tether.training.sitting import sitting, start_of


def run(
    config: RunConfig,
    folder: Path,
    show: bool = True,
    say: Say = print,
    data: Located | None = None,
    on_disk: bool | None = None,
    wandb: str | None = None,
    extend: bool = False,
    beginning: Beginning | None = None,
    on_start: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Train to the end, or go on with what is in `folder`, and return the content of `result.json`.

    `data` is that of the config where it has been found already. It is read only if there is something to do. `wandb` is a
    project there to log to as well. `extend` makes a run of fewer steps that is there longer. `on_start` is called when there is
    something to do and nothing was refused.
    """
    began = time.perf_counter()
    if wandb:
        check_installed()
    data = data or locate(config.dataset)
    had = make_longer(folder, config, data.sha256) if extend else None
    if had is not None:
        say(f"{folder} had {had:,} steps and goes on to {config.training.steps:,}")
    finished = find_result(folder, config, data.sha256)
    if finished is not None:
        say(f"{folder} is finished ({config.training.steps:,} steps); left as it is")
        return finished
    checkpoint.find(folder, config, data.sha256)  # what cannot go on is refused before an hour of reading and fitting
    raw = open_dataset(data, on_disk, show)
    with storage.exclusive(folder), stop_on_interrupt() as stop, ExitStack() as stack:
        checked = check_materials(config, raw, beginning, stack)
        # All that can be wrong has been found out: from here on the folder is this run's.
        write_config(folder, config, data.sha256)
        if on_start is not None:
            on_start()
        say_episodes(raw, say)
        say_clipping(checked, say)
        say_scaling(config, raw, checked.reward_scale, say)
        say_warm_up(config, say)
        kept = None if beginning is None else beginning.bonus
        bonus = kept or fit_shown(config, checked.dataset, stop, show, say)
        sinks = (stack.enter_context(closing(WandbRun(folder, wandb, to_json(config)))),) if wandb else ()
        m = Materials(config, folder, checked.dataset, checked.reward_scale, bonus, checked.env_id, sinks, beginning)
        return _train(m, checked.evaluator, stop, began, show, say)


def _train(m: Materials, evaluator: Evaluator | None, stop: StopRequest, began: float, show: bool, say: Say) -> dict[str, Any]:
    make_lesson, epoch_steps = m.beginning and m.beginning.lesson, m.config.epoch_steps
    with closing(make_lesson(m) if make_lesson else lesson_of(m)) as lesson, ExitStack() as stack:
        start = start_of(m, lesson.fresh(), say)
        epoch = start.epoch
        bar = stack.enter_context(progress(m.folder.name, m.config.training.steps, start=epoch.step, enabled=show))
        at_work = stack.enter_context(sitting(m, lesson, start, evaluator, stop, began, bar, say))
        at_work.evaluate(epoch)  # one that was due when the run was stopped
        clock, stopping = EpochClock(), Stopping(stop, say)
        epochs = lesson.epochs(epoch.state, epoch.step, epoch_steps)
        for epoch in clock.timed(epochs):
            at_work.take(epoch)
            stopping(epoch)
            at_work.evaluate(epoch)
        return at_work.finish(epoch, clock.rate(epoch_steps))

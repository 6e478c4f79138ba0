"""One run: from a config and a folder to a finished run, whatever interrupts it on the way. `tether.runs` tells what is where."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tether import storage
from tether.agents import check_actions
from tether.config import RunConfig, to_json
from tether.data import Dataset, Located, locate
from tether.data.provenance import recorded_parts
from tether.data.rewards import RewardScale, describe_scaling, normalise_rewards, order_kept, scaling_warning
from tether.evaluation.rollout import Evaluator
from tether.progress import Bar, progress
from tether.runs import checkpoint
from tether.runs.identity import find_result, write_config
from tether.runs.longer import make_longer
from tether.runs.metrics import MetricsLog, Sink, write_records
from tether.runs.result import make_result
from tether.runs.wandb import WandbRun, check_installed
from tether.runtime.experience import blindness
from tether.training.attached import Checkpoints, EpochClock, Evaluations, Logging, Stopping
from tether.training.divergence import Overestimation, check_finite
from tether.training.familiarity import with_experience
from tether.training.fit import FitReport, FittedBonus, cache_folder, fit_bonus, steps_done
from tether.training.interrupt import StopRequest, stop_on_interrupt
from tether.training.lesson import AnyLesson, Lesson
from tether.training.loop import Epoch

Say = Callable[[str], None]


@dataclass(frozen=True)
class Materials:
    """What a run works with and does not change."""

    config: RunConfig
    folder: Path
    dataset: Dataset  # rewards scaled
    reward_scale: RewardScale
    bonus: FittedBonus
    env_id: str | None  # None: not evaluated
    sinks: tuple[Sink, ...] = ()  # where metrics go besides the folder
    beginning: Beginning | None = None  # None: from nothing


@dataclass(frozen=True)
class Beginning:
    """Where a run goes on from, and what it keeps of that, where it is not from nothing (`tether.finetuning`)."""

    reward_scale: RewardScale  # that the agent's values are in
    bonus: FittedBonus | None = None  # None: fitted to the data
    state: Any = None  # of the agent; None: a fresh one
    step: int = 0
    records: tuple[dict[str, Any], ...] = ()  # lines of metrics.jsonl until then
    lesson: Callable[[Materials], AnyLesson] | None = None  # None: one from the data alone


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
        check_actions(config.agent, raw.spec)
        if beginning is None:
            dataset, reward_scale = normalise_rewards(raw, config.reward_scaling)
        else:
            dataset, reward_scale = scaled(raw, beginning.reward_scale), beginning.reward_scale
        env_id = evaluation_environment(config, dataset)
        evaluator = None
        if env_id:
            parts, evaluation = recorded_parts(dataset.provenance), config.evaluation
            evaluator = Evaluator(env_id, dataset.spec, evaluation.episodes, evaluation.seed, parts)
            stack.enter_context(closing(evaluator))
        # All that can be wrong has been found out: from here on the folder is this run's.
        write_config(folder, config, data.sha256)
        if on_start is not None:
            on_start()
        _say_scaling(config, raw, reward_scale, say)
        kept = None if beginning is None else beginning.bonus
        bonus = kept or _fit(config, dataset, stop, show, say)
        sinks = (stack.enter_context(closing(WandbRun(folder, wandb, to_json(config)))),) if wandb else ()
        materials = Materials(config, folder, dataset, reward_scale, bonus, env_id, sinks, beginning)
        return _train(materials, evaluator, stop, began, show, say)


def scaled(dataset: Dataset, scale: RewardScale) -> Dataset:
    """With rewards by a scale that is known already."""
    reward = scale.apply(np.asarray(dataset.transitions.reward))
    return replace(dataset, transitions=dataset.transitions._replace(reward=reward))


def open_dataset(data: Located, on_disk: bool | None = None, show: bool = True) -> Dataset:
    """The dataset, in memory or where that is too small on disk, with the progress of writing it there."""
    with ExitStack() as stack:
        bar: Bar | None = None

        def on_rows(done: int, total: int) -> None:
            nonlocal bar
            if bar is None:
                bar = stack.enter_context(progress("writing columns to disk", total, unit="rows", enabled=show))
            bar.update(done)

        return data.load(on_disk, on_rows)


def evaluation_environment(config: RunConfig, dataset: Dataset) -> str | None:
    """The environment to evaluate in: the config's, else the dataset's; None for neither, or where it is turned off."""
    wanted = config.evaluation.env_id or dataset.env_id
    return None if wanted == "none" else wanted


def _say_scaling(config: RunConfig, raw: Dataset, scale: RewardScale, say: Say) -> None:
    """What training makes of the rewards, and whether episodes that were good still are."""
    order = order_kept(raw, scale, config.agent.discount)
    say(describe_scaling(scale, order))
    _warn(scaling_warning(raw, scale, order, "training.reward_scaling"), say)


def _fit(config: RunConfig, dataset: Dataset, stop: StopRequest, show: bool, say: Say) -> FittedBonus:
    start = steps_done(config.bonus, dataset, cache_folder())
    if start < config.bonus.steps:
        whole = "whole " if start else ""
        say(f"the bonus is fitted first: {cache_folder()} has no {whole}fit of it to this data by this version")
    with progress("fitting the bonus", max(config.bonus.steps, 1), start=start, enabled=show and config.bonus.steps > 0) as bar:

        def on_epoch(step: int, record: dict[str, float]) -> None:
            bar.update(step, **{name.removeprefix("bonus/").replace("_", "-"): value for name, value in record.items()})
            if stop.asked:
                say(f"interrupted at step {step:,} of the fit; the same command goes on from there")
                raise KeyboardInterrupt

        waited = False

        def on_wait() -> None:
            nonlocal waited
            if not waited:
                say("another process is making this fit; waiting for it")
                waited = True
            if stop.asked:
                say("interrupted while waiting for the fit of another process; the same command goes on from there")
                raise KeyboardInterrupt

        fitted = fit_bonus(config.bonus, dataset, cache_folder(), on_epoch, on_wait)
    report = fitted.report
    if report.auroc:
        kinds = ", ".join(
            f"{kind} {value:.3f}"
            for kind, value in report.auroc.items()
            if kind in ("shuffled", "uniform", "noise 0.25", "other")
        )
        say(f"bonus: {report.held_out_mean:.4g} on held-out pairs, AUROC against {kinds} ({report.steps:,} steps of fit)")
    if report.looks_blind:
        say(f"warning: {_blindness(report, config.dataset)}")
    if report.looks_short:
        say(f"warning: the bonus was still getting better after {report.steps:,} steps; more bonus.steps will steady the agent")
    return fitted


def _blindness(report: FitReport, dataset: str) -> str:
    worst, kind = min((value, kind) for kind, value in report.auroc.items() if kind in ("uniform", "other"))
    return (
        f"the bonus is all but blind: it tells recorded actions from {kind} ones with an AUROC of {worst:.2f} (0.5 is chance); "
        f"nothing holds the agent to the data. `tether bonus {dataset}` compares all bonuses on it; --bonus auto takes "
        "one that sees more, --agent bc clones. Where the recorded actions are uniform themselves, none can"
    )


def _train(m: Materials, evaluator: Evaluator | None, stop: StopRequest, began: float, show: bool, say: Say) -> dict[str, Any]:
    config, training, agent = m.config, m.config.training, m.config.agent
    known = checkpoint.Progress(config, m.dataset.sha256, m.dataset.spec, m.env_id)
    clock = EpochClock()
    with ExitStack() as stack:
        beginning = m.beginning or Beginning(m.reward_scale)
        lesson = (beginning.lesson or _lesson)(m)
        stack.enter_context(closing(lesson))
        state, first_step = lesson.fresh(), beginning.step
        restored = checkpoint.load(m.folder, checkpoint.RunState(state, m.bonus.state, checkpoint.STEP), config, m.dataset.sha256)
        if restored is not None:
            (state, _, step), known = restored
            first_step = int(step)
            say(f"going on from step {first_step:,}")
        elif beginning.state is not None:
            state = beginning.state
            write_records(m.folder, beginning.records)
        log = stack.enter_context(closing(MetricsLog(m.folder, first_step, m.env_id, m.sinks)))
        bar = stack.enter_context(progress(m.folder.name, training.steps, start=first_step, enabled=show))
        log.fit(m.bonus.report.history)

        checkpoints = Checkpoints(m.folder, m.bonus.state, known, training, stop, began)
        checkpoints.saved = None if restored is None else first_step
        attached: list[Callable[[Epoch], None]] = [
            lambda epoch: check_finite(epoch, agent, training.value_limit, m.folder.name, checkpoints.saved),
            Logging(log, bar),
            checkpoints,
            Stopping(stop, say),
        ]
        if beginning.lesson is None:  # an environment may have higher rewards than the data
            too_high = Overestimation(m.dataset.transitions, agent)
            attached.insert(1, lambda epoch: _warn(too_high(epoch), say))
        epoch = Epoch(first_step, state, {})
        if evaluator is not None:
            every, scale = training.evaluate_every, m.reward_scale
            attached.append(Evaluations(lesson, evaluator, log, bar, every, scale, config.policy))
            attached[-1](epoch)  # one that was due when the run was stopped
        for epoch in clock.timed(lesson.epochs(state, first_step, config.epoch_steps)):
            for each in attached:
                each(epoch)
        return _finish(m, lesson, epoch, log, checkpoints.seconds(), clock.rate(config.epoch_steps), restored and first_step, say)


def _warn(about: str | None, say: Say) -> None:
    if about:
        say(f"warning: {about}")


def _lesson(m: Materials) -> AnyLesson:
    training = m.config.training
    return Lesson(m.config.agent, m.dataset, m.bonus, m.config.seed, training.steps, training.reward_penalty)


def _finish(
    m: Materials,
    lesson: AnyLesson,
    epoch: Epoch,
    log: MetricsLog,
    seconds: float,
    rate: float | None,
    resumed: int | None,
    say: Say,
) -> dict[str, Any]:
    from tether.report.curves import draw_curves
    from tether.runs.reading import read_run

    policy = with_experience(lesson.policy(epoch.state, m.config.policy, epoch.step, m.env_id), m.bonus, m.dataset)
    policy.save(m.folder / "policy.safetensors")
    if policy.experience is None:
        say(f"the policy cannot say how familiar an observation is: {policy.about['no_familiarity']}; see tether export --help")
    elif blindness(policy.experience) is not None:
        say(f"note: {blindness(policy.experience)}")
    result = make_result(m.config, m.dataset, m.reward_scale, m.bonus.report.summary(), log, m.env_id)
    draw_curves([replace(read_run(m.folder, m.env_id), result=result)], m.folder / "curves.png")
    result |= {"wall_time_seconds": seconds, "updates_per_second": rate, "resumed_from_step": resumed} | lesson.account()
    storage.write_json(m.folder / "result.json", result)
    return result

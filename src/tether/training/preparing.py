"""What a run needs before its first step: the data, its rewards scaled, an environment to be judged in, and a fitted bonus."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tether.agents import check_actions
from tether.config import RunConfig
from tether.data import Dataset, Located
from tether.data.provenance import recorded_parts
from tether.data.rewards import RewardScale, describe_scaling, normalise_rewards, order_kept, scaling_warning
from tether.evaluation.rollout import Evaluator
from tether.progress import Bar, progress
from tether.runs.metrics import Sink
from tether.training.fit import FitReport, FittedBonus, cache_folder, fit_bonus, steps_done
from tether.training.interrupt import StopRequest
from tether.training.lesson import AnyLesson, Lesson
from tether.types import spell_actions

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


@dataclass(frozen=True)
class Checked:
    """Data and environment that go with a config: nothing is wrong with them, and nothing has been written."""

    dataset: Dataset  # rewards scaled
    reward_scale: RewardScale
    env_id: str | None
    evaluator: Evaluator | None


def check_materials(config: RunConfig, raw: Dataset, beginning: Beginning | None, stack: ExitStack) -> Checked:
    """Find out all that can be wrong. `stack` is what closes the environments."""
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
    return Checked(dataset, reward_scale, env_id, evaluator)


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


def say_scaling(config: RunConfig, raw: Dataset, scale: RewardScale, say: Say) -> None:
    """What training makes of the rewards, and whether episodes that were good still are."""
    order = order_kept(raw, scale, config.agent.discount)
    say(describe_scaling(scale, order))
    warn(scaling_warning(raw, scale, order, "training.reward_scaling"), say)


def say_episodes(raw: Dataset, say: Say) -> None:
    """Where episodes end, if the data does not say it, and what was changed of actions."""
    if raw.notes.episode_ends == "inferred":
        lengths = raw.episode_ends - raw.episode_starts
        say(
            f"{raw.name} does not say where episodes end (timeouts); found are {len(lengths):,} of {int(lengths.min()):,} to "
            f"{int(lengths.max()):,} rows"
        )
        if np.median(lengths) <= 1 and len(lengths) > 1:
            say(
                "warning: most of these episodes have one row: next_observations is hardly ever the next row's observation. "
                "Returns, best episodes and next actions mean nothing then; say where episodes end, in a column timeouts"
            )
    if raw.notes.action_entries_clipped:
        say(f"{raw.notes.action_entries_clipped:,} action entries of {raw.name} were outside the bounds and are clipped to them")


def say_clipping(checked: Checked, say: Say) -> None:
    """Where the environment that policies are evaluated in allows less than they may do."""
    if checked.evaluator is None or checked.dataset.spec.discrete:
        return
    spec, here = checked.dataset.spec, checked.evaluator.limits
    low, high = (np.asarray(bound, np.float32) for bound in (spec.action_low, spec.action_high))
    if (low < here[0]).any() or (high > here[1]).any():
        allowed = spell_actions(replace(spec, action_low=tuple(here[0].tolist()), action_high=tuple(here[1].tolist())))
        say(
            f"warning: {checked.env_id} takes actions of {allowed}, and the data's are of {spell_actions(spec)}: in evaluations "
            "what is beyond is clipped. Is it the environment of this data? Bounds are those of a file's action_low and "
            "action_high, where it has them"
        )


def say_warm_up(config: RunConfig, say: Say) -> None:
    """Where a run is over before its policy begins to follow Q."""
    warm_up, steps = getattr(config.agent, "warm_up_steps", 0), config.training.steps
    if warm_up >= steps:
        say(
            f"warning: agent.warm_up_steps is {warm_up:,} and the training has {steps:,} steps: the policy will not have "
            "followed Q at all. Give more steps, or a shorter warm-up"
        )


def warn(about: str | None, say: Say) -> None:
    if about:
        say(f"warning: {about}")


def fit_shown(config: RunConfig, dataset: Dataset, stop: StopRequest, show: bool, say: Say) -> FittedBonus:
    """The bonus fitted to the data, with its progress, and what is to be known about it in words."""
    start = steps_done(config.bonus, dataset, cache_folder())
    if start < config.bonus.steps:
        whole = "whole " if start else ""
        say(f"the bonus is fitted first: {cache_folder()} has no {whole}fit of it to this data by this version")
    lean = getattr(config.bonus, "lean_to_best", 0.0)
    if lean > 0:
        say(
            f"the fit leans to episodes with high returns (bonus.lean_to_best={lean:g}): a row of the best counts "
            f"{np.exp(lean):,.0f} times one of the worst. Where luck or the start decides returns, set it to 0"
        )
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


def lesson_of(m: Materials) -> Lesson:
    """To learn from the data alone."""
    training, begins = m.config.training, 0 if m.config.start is None else m.config.start.step
    return Lesson(m.config.agent, m.dataset, m.bonus, m.config.seed, training.steps, training.reward_penalty, begins)

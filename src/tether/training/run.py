"""The host loop: from a config and a folder to a finished run, whatever interrupts it on the way.

config.json             what was asked for, whole; written first
metrics.jsonl           one line an epoch, one an evaluation (raw returns)
tensorboard/            the same for TensorBoard
checkpoint.safetensors  the state to go on from
policy.safetensors      the run's policy, to ship
curves.png
result.json             written last; a folder that has it is a finished run
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tether import config as configs
from tether import storage
from tether.agents import Agent, check_actions
from tether.config import RunConfig
from tether.data import Dataset, load_dataset
from tether.data.info import DISCOUNT
from tether.data.provenance import imported_columns
from tether.data.transforms import RewardScale, normalise_rewards
from tether.errors import TetherError
from tether.evaluation.rollout import EpisodeResults, Evaluator, discounted_returns
from tether.networks import Actor, Greedy
from tether.policy import Policy, act
from tether.progress import Bar, progress
from tether.runs import checkpoint
from tether.runs.metrics import MetricsLog, Promise, check_finite
from tether.runs.result import make_result
from tether.training.fit import FittedBonus, cache_folder, fit_bonus, steps_done
from tether.training.interrupt import StopRequest, stop_on_interrupt
from tether.training.loop import RunState, initial_state, run_keys
from tether.training.sources import Rows
from tether.types import Batch

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


def open_dataset(source: str, on_disk: bool | None = None, show: bool = True) -> Dataset:
    """The dataset, in memory or where that is too small on disk, with the progress of writing it there."""
    with ExitStack() as stack:
        bar: Bar | None = None

        def on_rows(done: int, total: int) -> None:
            nonlocal bar
            if bar is None:
                bar = stack.enter_context(progress("writing columns to disk", total, unit="rows", enabled=show))
            bar.update(done)

        return load_dataset(source, on_disk, on_rows)


def run(config: RunConfig, folder: Path, show: bool = True, say: Say = print, dataset: Dataset | None = None) -> dict[str, Any]:
    """Train to the end, or go on with what is in `folder`, and return the content of `result.json`.

    `dataset` is that of the config where it has been loaded already.
    """
    began = time.perf_counter()
    finished = find_result(folder, config)
    if finished is not None:
        say(f"{folder} is finished ({config.training.steps:,} steps); left as it is")
        return finished
    with storage.exclusive(folder), stop_on_interrupt() as stop:
        raw = dataset or open_dataset(config.dataset, show=show)
        check_actions(config.agent, raw.spec)
        dataset, reward_scale = normalise_rewards(raw, config.training.reward_scaling)
        if reward_scale.is_constant:
            say(f"warning: every reward of {dataset.name} is {reward_scale.low:g}; there is nothing to learn from them")
        env_id = evaluation_environment(config, dataset)
        evaluator = Evaluator(env_id, dataset.spec, config.evaluation.episodes, config.evaluation.seed) if env_id else None
        try:
            checkpoint.find(folder, config, dataset.sha256)  # what cannot go on is refused before an hour of fitting
            # Not before all that can be wrong with the settings has been found out: the folder is theirs from here on.
            if not (folder / "config.json").exists():
                storage.write_json(folder / "config.json", configs.to_json(config))
            bonus = _fit(config, dataset, folder, stop, show, say)
            materials = Materials(config, folder, dataset, reward_scale, bonus, env_id)
            return _train(materials, evaluator, stop, began, show, say)
        finally:
            if evaluator is not None:
                evaluator.close()


def find_result(folder: Path, config: RunConfig) -> dict[str, Any] | None:
    """The result if the run in `folder` is finished, None if it is not or the folder is free; an error if it is not this run's.

    Nothing is written: the folder may turn out to be somebody else's.
    """
    try:
        names = {path.name for path in folder.iterdir() if not storage.is_half_written(path)} - {".lock"}
    except (FileNotFoundError, NotADirectoryError):  # where there is a file, making the folder will say so
        return None
    except OSError as error:
        raise TetherError(f"cannot read {folder}: {error.strerror}") from error
    for name in ("result.json", "config.json"):
        if name in names:
            content = storage.read_json(folder / name)
            try:
                stored = configs.from_json(content["config"] if name == "result.json" else content)
            except (TetherError, KeyError, TypeError) as error:
                raise TetherError(f"{folder / name} is not of a Tether run ({error}); choose another --run-dir") from error
            difference = configs.first_difference(config, stored)
            if difference:
                raise TetherError(f"{folder} holds a run of another config ({difference}); choose another --run-dir")
            return content if name == "result.json" else None
    if names:
        raise TetherError(f"{folder} is not empty and holds no run; choose another --run-dir")
    return None


def evaluation_environment(config: RunConfig, dataset: Dataset) -> str | None:
    """The environment to evaluate in: the config's, else the dataset's; None for neither, or where it is turned off."""
    wanted = config.evaluation.env_id or dataset.env_id
    return None if wanted == "none" else wanted


def evaluate_policies(evaluator: Evaluator, policies: Mapping[str, Actor | Greedy]) -> dict[str, EpisodeResults]:
    def one(actor: Actor | Greedy) -> EpisodeResults:
        return evaluator(lambda observation: act(actor, observation))

    return {name: one(actor) for name, actor in policies.items()}


def promises(
    agent: Agent,
    state: Any,
    policies: Mapping[str, Actor | Greedy],
    results: dict[str, EpisodeResults],
    scale: RewardScale,
) -> dict[str, Promise]:
    """What the agent expected of each policy's episodes at their starts, if it has Q-values, and what they were worth."""
    found = {}
    for name, policy in policies.items():
        values = _value(agent, state, policy, results[name].starts)
        worth = discounted_returns(results[name].rewards, scale.apply, getattr(agent, "discount", DISCOUNT))
        found[name] = Promise(None if values is None else np.asarray(values), worth)
    return found


@partial(jax.jit, static_argnames="agent")
def _value(agent: Agent, state: Any, policy: Actor | Greedy, observation: jax.Array) -> jax.Array | None:
    return agent.value(state, observation, policy(observation))


def _fit(config: RunConfig, dataset: Dataset, folder: Path, stop: StopRequest, show: bool, say: Say) -> FittedBonus:
    start = steps_done(config.bonus, dataset, cache_folder())
    with progress("fitting the bonus", max(config.bonus.steps, 1), start=start, enabled=show and config.bonus.steps > 0) as bar:

        def on_epoch(step: int, record: dict[str, float]) -> None:
            bar.update(step, **{name.removeprefix("bonus/").replace("_", "-"): value for name, value in record.items()})
            if stop.asked:
                say(f"interrupted at step {step:,} of the fit; the same command goes on from there")
                raise KeyboardInterrupt

        fitted = fit_bonus(config.bonus, dataset, cache_folder(), on_epoch)
    report = fitted.report
    if report.auroc:
        kinds = ", ".join(
            f"{kind} {value:.3f}"
            for kind, value in report.auroc.items()
            if kind in ("shuffled", "uniform", "noise 0.25", "other")
        )
        say(f"bonus: held-out score {report.held_out:.4g}, AUROC against {kinds} ({report.steps:,} steps of fit)")
    if report.looks_short:
        say(f"warning: the bonus was still getting better after {report.steps:,} steps; more bonus.steps will steady the agent")
    return fitted


def _train(m: Materials, evaluator: Evaluator | None, stop: StopRequest, began: float, show: bool, say: Say) -> dict[str, Any]:
    config, training = m.config, m.config.training
    state = initial_state(config.agent, m.bonus.state, m.dataset.spec, config.seed)
    known = checkpoint.Progress(config, m.dataset.sha256, m.dataset.spec, m.env_id)
    restored = checkpoint.load(m.folder, state, config, m.dataset.sha256)
    if restored is not None:
        state, known = restored
        say(f"going on from step {int(state.step):,}")
    rows = Rows(penalised(m.dataset.transitions, m.bonus, training.reward_penalty))
    _, key = run_keys(config.seed)
    step, first_step, saved = int(state.step), int(state.step), int(state.step)
    clock = _EpochClock()
    title = m.folder.name
    log = MetricsLog(m.folder, step, m.env_id)
    with closing(log), closing(rows), progress(title, training.steps, start=step, enabled=show) as bar:
        log.fit(m.bonus.report.history)
        while True:
            due = step and (step % training.evaluate_every == 0 or step >= training.steps)
            if evaluator is not None and due and step not in log.evaluations:
                policies = config.agent.policies(state.agent, m.bonus.penalty)
                results = evaluate_policies(evaluator, policies)
                log.evaluation(step, results, promises(config.agent, state.agent, policies, results, m.reward_scale))
                bar.update(step, score=_latest_score(log, config.evaluation.policy))
            if step >= training.steps:
                break
            with clock:
                updates = config.epoch_steps // config.agent.critic_steps
                state, device_metrics = rows.train(config.agent, config.bonus, state, key, updates)
                metrics = {name: float(value) for name, value in device_metrics.items()}
            step += config.epoch_steps
            check_finite(metrics, state.agent, training.value_limit, step, m.folder.name, saved or None)
            log.training(step, metrics)
            bar.update(step, **_headline(metrics))
            if stop.asked or step % training.checkpoint_every == 0 or step >= training.steps:
                seconds = known.seconds + time.perf_counter() - began
                checkpoint.save(m.folder, state, replace(known, seconds=seconds))
                saved = step
            if stop.asked:
                say(f"interrupted at step {step:,}; the same command goes on from there")
                raise KeyboardInterrupt
    return _finish(m, state, log, known.seconds + time.perf_counter() - began, clock.rate(config.epoch_steps), first_step)


def penalised(transitions: Batch, bonus: FittedBonus, weight: float) -> Batch:
    """The transitions with `weight` bonuses of each recorded pair subtracted from its reward (the paper's naive form)."""
    if weight == 0.0:
        return transitions
    scores = bonus.score(np.asarray(transitions.observation), np.asarray(transitions.action))
    return transitions._replace(reward=transitions.reward - np.float32(weight) * scores)


def _finish(
    m: Materials, state: RunState, log: MetricsLog, seconds: float, rate: float | None, first_step: int
) -> dict[str, Any]:
    from tether.report.curves import draw_curves
    from tether.runs.reading import read_run

    config = m.config
    about: dict[str, Any] = {
        "dataset": m.dataset.name,
        "dataset_sha256": m.dataset.sha256,
        "env_id": m.env_id,
        "step": int(state.step),
    }
    columns = imported_columns(m.dataset.provenance)
    if columns is not None:  # without them nobody knows which number of an observation is which
        about["columns"] = columns
    actor = config.agent.policies(state.agent, m.bonus.penalty)[config.evaluation.policy]
    Policy(actor, m.dataset.spec, about | {"policy": config.evaluation.policy}).save(m.folder / "policy.safetensors")
    draw_curves([read_run(m.folder, m.env_id)], m.folder / "curves.png")
    result = make_result(config, m.dataset, m.reward_scale, m.bonus.report, log, m.env_id)
    result |= {"wall_time_seconds": seconds, "updates_per_second": rate, "resumed_from_step": first_step or None}
    storage.write_json(m.folder / "result.json", result)
    return result


class _EpochClock:
    """Time inside compiled epochs. The first of a sitting is left out, since it holds the compilation."""

    def __init__(self) -> None:
        self.epochs: list[float] = []

    def __enter__(self) -> None:
        self.entered = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.epochs.append(time.perf_counter() - self.entered)

    def rate(self, epoch_steps: int) -> float | None:
        measured = self.epochs[1:]
        return epoch_steps * len(measured) / sum(measured) if measured else None


def _latest_score(log: MetricsLog, policy: str) -> float:
    newest = log.evaluations[max(log.evaluations)]
    return float(log.scores(newest[policy]["returns"]).mean())


def _headline(metrics: dict[str, float]) -> dict[str, float]:
    wanted = {"critic/loss": "critic loss", "actor/bonus": "actor bonus", "critic/q": "Q"}
    return {label: metrics[name] for name, label in wanted.items() if name in metrics}

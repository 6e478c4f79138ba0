"""The run to go on from. It is read and never written to."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from tether.bonuses import FrozenBonus
from tether.config import RunConfig, StartConfig, override
from tether.data import Dataset, Located, locate
from tether.data.rewards import RewardScale
from tether.errors import TetherError
from tether.finetuning.appended import append_log
from tether.runs import checkpoint
from tether.runs.reading import read_run
from tether.training.fit import FitReport, FittedBonus
from tether.types import Batch, Problem, Spec, row_shapes

AND = " + "  # between logs that were appended one after the other


@dataclass(frozen=True)
class Start:
    """A finished run, with all that going on from it needs but the rows of its data."""

    folder: Path
    config: RunConfig  # the run's, but for settings that were changed
    state: Any  # of the agent
    bonus: FittedBonus
    step: int
    reward_scale: RewardScale
    data: Located
    records: tuple[dict[str, Any], ...]  # of its metrics
    checkpoint_sha256: str

    @property
    def spec(self) -> Spec:
        return self.bonus.spec

    def section(self, log: str = "") -> StartConfig:
        """What the config of the new run says of it. Logs that were appended to its data before are named with the new one."""
        before = "" if self.config.start is None else self.config.start.log
        return StartConfig(str(self.folder), self.checkpoint_sha256, self.step, AND.join(filter(None, (before, log))))


def read_start(folder: Path, dataset: str | None = None, overrides: dict[str, Any] | None = None) -> Start:
    """`dataset` is where the run's data is now, where it is not where it was."""
    found = read_run(folder)
    state, frozen, step, progress = checkpoint.read_agent(folder)
    config = progress.config
    if found.result is None or step != config.training.steps:
        raise TetherError(
            f"{folder} is at step {step:,} of {config.training.steps:,}; let its own command finish it, then go on from there"
        )
    if config.online is not None:
        raise TetherError(
            f"{folder} has gone on online already, and its bonus weights have fallen with it; begin with the run before it "
            f"({'a fresh one' if config.start is None else config.start.run}) and give more --steps"
        )
    changed = config
    for name, value in (overrides or {}).items():
        changed = override(changed, name, value)
    _check_shapes(config, changed, frozen.spec)
    scale = _reward_scale(folder, found.result)
    return Start(
        folder,
        changed,
        state,
        _fitted(frozen, found.result, found.fit),
        step,
        scale,
        _data(folder, config, frozen.spec, scale, progress.dataset_sha256, dataset),
        tuple(record for record in (*found.fit, *found.training, *found.evaluations) if record.get("step", 0) <= step),
        hashlib.sha256((folder / checkpoint.NAME).read_bytes()).hexdigest(),
    )


def _data(folder: Path, config: RunConfig, spec: Spec, scale: RewardScale, sha256: str, given: str | None) -> Located:
    """The run's data, with the logs behind it that were appended before, and the bounds that its policy has."""
    name = given or config.dataset
    try:
        data = locate(name)
    except TetherError as error:
        if given is not None:
            raise
        raise TetherError(f"{error}; {folder} learnt from it, so give where it is: --dataset DATA") from error
    logs = config.start.log.split(AND) if config.start is not None and config.start.log else []
    if logs:
        whole = replace(data.load(), spec=spec)
        for log in logs:
            whole = append_log(whole, log, scale, say=lambda text: None)
        data = located(whole)
    if data.sha256 != sha256:
        raise TetherError(
            f"{AND.join((name, *logs))} is not what {folder} learnt from (sha256 {data.sha256[:12]}… and {sha256[:12]}…); give "
            "that data (--dataset), or append this to it (--log)"
        )
    return data


def _fitted(frozen: FrozenBonus, result: dict[str, Any], history: list[dict[str, Any]]) -> FittedBonus:
    """The bonus as the run had it, with what is known about its fit. A fit made anew might differ in its last digits."""
    known = {name: value for name, value in result.get("bonus", {}).items() if name in FitReport.__dataclass_fields__}
    report = FitReport(**{"steps": frozen.bonus.steps, "seconds": 0.0} | known)
    return FittedBonus(frozen.bonus, frozen.state, frozen.spec, replace(report, history=history))


def _reward_scale(folder: Path, result: dict[str, Any]) -> RewardScale:
    try:
        return RewardScale(**result["dataset"]["reward_scale"])
    except (KeyError, TypeError) as error:
        raise TetherError(f"{folder / 'result.json'} does not say how rewards were scaled ({error})") from error


def _check_shapes(config: RunConfig, changed: RunConfig, spec: Spec) -> None:
    """Refuse settings that the run's weights do not fit, and a bonus other than the one they were trained with."""
    if changed.bonus != config.bonus:
        raise TetherError("the bonus is the run's own and its settings stay; train anew (tether train) with another")
    row = Batch(*(jax.ShapeDtypeStruct((1, *shape), jnp.float32) for shape in row_shapes(spec)))
    before, after = (
        jax.eval_shape(lambda key, rows, agent=agent: agent.init(key, Problem(spec, rows)), jax.random.key(0), row)
        for agent in (config.agent, changed.agent)
    )
    shapes = [[(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(state)] for state in (before, after)]
    if str(jax.tree.structure(before)) != str(jax.tree.structure(after)) or shapes[0] != shapes[1]:
        raise TetherError(
            "a setting of --set changes the networks or the optimiser, and the run's weights do not fit them; leave it"
        )


def materialised(start: Start) -> Dataset:
    """The run's data, in memory, with the bounds that its policy has."""
    return replace(start.data.load(), spec=start.spec)


def located(dataset: Dataset) -> Located:
    """One that is in memory, as a run takes it."""
    return Located(dataset.name, dataset.env_id, dataset.sha256, dataset.spec.discrete, lambda on_disk, on_rows: dataset, dataset)

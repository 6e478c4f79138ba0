"""Runs as candidates: their policies, what their critics believe, and the log that they learnt from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tether import storage
from tether.agents import AGENTS, Agent
from tether.bonuses import BONUSES
from tether.data import Dataset, locate
from tether.data.provenance import check_columns, imported_columns
from tether.data.rewards import RewardScale
from tether.errors import TetherError
from tether.policies import Policy
from tether.runs import checkpoint
from tether.runtime.file import read_policy_file
from tether.selection.bench import OwnError, check_task
from tether.selection.fqe import PIECE
from tether.settings import to_named
from tether.training.preparing import open_dataset
from tether.types import Batch, Spec


@dataclass(frozen=True)
class Candidate:
    """A policy of a finished run."""

    name: str  # the run's folder, and the policy where it is not the run's own
    folder: Path
    policy: Policy
    agent: str
    bonus: str  # that it was trained with
    discount: float
    dataset: str  # as the run was given it
    sha256: str  # of that
    own_error: OwnError | None  # of the critic it learnt with


def find_folders(paths: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """The finished runs in or below the paths, in their order, and those that are not finished.

    A run that is named itself must be finished.
    """
    finished: dict[Path, Path] = {}
    others: list[Path] = []
    for path in paths:
        if not path.is_dir():
            raise TetherError(f"there is no run folder {path}")
        if (path / "config.json").exists() and not (path / "result.json").exists():
            raise TetherError(
                f"{path} is not finished; give the `tether train` command of it again and it goes on, or leave it out"
            )
        for found in sorted(path.rglob("config.json")):
            folder = found.parent
            if (folder / "result.json").exists():
                finished.setdefault(folder.resolve(), folder)
            else:
                others.append(folder)
    if not finished:
        raise TetherError(f"there is no finished run in {', '.join(map(str, paths))}")
    return list(finished.values()), others


def read_candidates(folder: Path, every: bool = False) -> list[Candidate]:
    """The run's own policy; with `every`, all that its agent has."""
    state, bonus, step, progress = checkpoint.read_agent(folder)
    config, agent = progress.config, progress.config.agent
    policies = agent.policies(state, bonus)
    about: dict[str, Any] = {"dataset": Path(config.dataset).stem, "dataset_sha256": progress.dataset_sha256, "step": step}
    shipped = folder / "policy.safetensors"
    columns = read_policy_file(shipped).about.get("columns") if shipped.exists() else None  # what only the data knew
    about |= {} if columns is None else {"columns": columns}
    scale = _scale(folder)
    wanted = list(policies) if every else [config.policy]
    return [
        Candidate(
            name=str(folder) if name == config.policy else f"{folder}:{name}",
            folder=folder,
            policy=Policy(policies[name], progress.spec, about | {"policy": name, "env_id": progress.env_id}),
            agent=str(to_named(agent, AGENTS)["name"]),
            bonus=str(to_named(config.bonus, BONUSES)["name"]),
            discount=agent.discount,
            dataset=config.dataset,
            sha256=progress.dataset_sha256,
            own_error=None if scale is None else own_error(agent, state, scale, progress.spec),
        )
        for name in wanted
    ]


def own_error(agent: Agent, state: Any, scale: RewardScale, spec: Spec) -> OwnError | None:
    """What the agent's own critic is off by, from one step to the next, in recorded rewards; None of one that has no critic."""
    one = [jax.ShapeDtypeStruct((1, size), np.float32) for size in (spec.observation_size, spec.action_size)]
    if jax.eval_shape(agent.value, state, *one) is None:
        return None
    range_ = scale.high - scale.low
    unit = scale.unit or (max(abs(scale.low), abs(scale.high)) if scale.keep_zero else range_) or 1.0

    def value(observation: np.ndarray, action: np.ndarray) -> np.ndarray:
        starts = range(0, len(observation), PIECE)
        return np.concatenate([_value(agent, state, observation[at : at + PIECE], action[at : at + PIECE]) for at in starts])

    def error(rows: Batch, next_action: np.ndarray) -> np.ndarray:
        after = agent.discount * (1.0 - rows.terminated) * value(rows.next_observation, next_action)
        return unit * (value(rows.observation, rows.action) - scale.apply(rows.reward) - after)

    return error


@partial(jax.jit, static_argnames="agent")
def _value(agent: Agent, state: Any, observation: jax.Array, action: jax.Array) -> jax.Array | None:
    return agent.value(state, observation, action)


def _scale(folder: Path) -> RewardScale | None:
    """How the run scaled its rewards. None of a result that does not say."""
    try:
        return RewardScale(**storage.read_json(folder / "result.json")["dataset"]["reward_scale"])
    except (KeyError, TypeError):
        return None


def find_log(candidates: Sequence[Candidate], given: str | None, show: bool = True) -> Dataset:
    """The log that values are learnt from: the one that is given, else the one that all of them learnt from."""
    first = candidates[0]
    for other in candidates[1:]:
        check_task(other.name, other.policy.spec, first.policy.spec, first.name)
        if given is None and other.sha256 != first.sha256:
            raise TetherError(
                f"{first.name} learnt from {first.dataset}, {other.name} from {other.dataset}, which is another log; say which "
                "one values are to be learnt from, for all of them: --log DATA"
            )
    try:
        found = locate(given or first.dataset)
    except TetherError as error:
        if given is not None:
            raise
        raise TetherError(f"{error}; {first.name} learnt from it, so give where it is: --log DATA") from error
    if given is None and found.sha256 != first.sha256:
        raise TetherError(
            f"{first.dataset} is not what {first.name} learnt from (sha256 {found.sha256[:12]}… and {first.sha256[:12]}…); give "
            "where that is now, or a log to take instead: --log DATA"
        )
    log = open_dataset(found, show=show)
    check_task(first.name, first.policy.spec, log.spec, log.name)
    for candidate in candidates:
        check_columns(log.name, imported_columns(log.provenance), candidate.name, candidate.policy.about.get("columns"))
    return replace(log, spec=first.policy.spec)

"""A run's state on disk: one safetensors file, replaced whole, with all that decides whether it may be continued."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tether import config as configs
from tether import storage
from tether.bonuses import FrozenBonus, frozen_template
from tether.errors import TetherError
from tether.types import Batch, Problem, Spec, row_shapes, spec_from_json, spec_to_json

NAME = "checkpoint.safetensors"
STEP = jax.ShapeDtypeStruct((), jnp.int32)  # of a template


class RunState(NamedTuple):
    """All that changes or is fitted in a run."""

    agent: Any
    bonus: Any  # frozen: what the bonus is computed with
    step: Any  # () int32, critic steps since the start


@dataclass(frozen=True)
class Progress:
    """What a run knows about itself besides its state."""

    config: configs.RunConfig
    dataset_sha256: str
    spec: Spec
    env_id: str | None  # where it is evaluated
    seconds: float = 0.0  # spent so far, over all sittings
    # Of a run that was ever trained in one program with other seeds: from which step on with which, itself among them.
    together: tuple[dict[str, Any], ...] = ()

    def going_on(self, step: int, seeds: Sequence[int]) -> Progress:
        """The same where training goes on from `step` in one program with these seeds, or with its own alone."""
        before = self.together[-1]["seeds"] if self.together else [self.config.seed]
        if list(seeds) == before:
            return self
        return replace(self, together=(*self.together, {"from_step": step, "seeds": list(seeds)}))


def save(folder: Path, state: RunState, progress: Progress) -> None:
    metadata = {
        "config": json.dumps(configs.to_json(progress.config)),
        "dataset_sha256": progress.dataset_sha256,
        "spec": json.dumps(spec_to_json(progress.spec)),
        "env_id": json.dumps(progress.env_id),
        "seconds": repr(progress.seconds),
        "step": str(int(state.step)),
    }
    if progress.together:
        metadata["together"] = json.dumps(progress.together)
    storage.write_tensors(folder / NAME, storage.flatten_tree(state), metadata)


def load(folder: Path, template: RunState, config: configs.RunConfig, dataset_sha256: str) -> tuple[RunState, Progress] | None:
    """The state to go on from, or None where there is none yet. A checkpoint of another config or dataset is refused."""
    found = find(folder, config, dataset_sha256)
    if found is None:
        return None
    tensors, stored = found
    return storage.unflatten_tree(template, tensors), stored


def find(folder: Path, config: configs.RunConfig, dataset_sha256: str) -> tuple[dict[str, np.ndarray], Progress] | None:
    """The same before there is a bonus to make a template from: a checkpoint that does not belong is refused here already."""
    path = folder / NAME
    if not path.exists():
        return None
    tensors, stored = _read(path)
    difference = configs.first_difference(config, stored.config)
    if difference:
        raise TetherError(f"{path} is of another config ({difference}); choose another --run-dir or the same settings")
    if stored.dataset_sha256 != dataset_sha256:
        raise TetherError(
            f"{path} was trained on another dataset (sha256 {stored.dataset_sha256[:12]}…); choose another --run-dir"
        )
    return tensors, stored


def step_in(folder: Path) -> int:
    """The step that a run goes on from; 0 where it has no checkpoint yet. Quick: of the file only its head is read."""
    path = folder / NAME
    if not path.exists():
        return 0
    try:
        return int(storage.read_metadata(path)["step"])
    except (KeyError, ValueError) as error:
        raise TetherError(f"{path} is not the checkpoint of a run") from error


def read_agent(folder: Path) -> tuple[Any, FrozenBonus, int, Progress]:
    """The agent's state, its bonus, its step and the progress of a run, finished or not: to evaluate it without its dataset."""
    path = folder / NAME
    if not path.exists():
        raise TetherError(f"{folder} has no {NAME}: it is no run folder, or the run has not come to its first checkpoint")
    tensors, progress = _read(path)
    agent, spec = progress.config.agent, progress.spec
    row = Batch(*(jax.ShapeDtypeStruct((1, *shape), jnp.float32) for shape in row_shapes(spec)))
    template = jax.eval_shape(lambda key, rows: agent.init(key, Problem(spec, rows)), jax.random.key(0), row)
    penalty = frozen_template(progress.config.bonus, spec)
    frozen = storage.unflatten_tree(penalty.state, _below("bonus/", tensors), any_length=True)
    # Any length: AWR keeps a return for every row of its data, and the template is of one row.
    state = storage.unflatten_tree(template, _below("agent/", tensors), any_length=True)
    return state, FrozenBonus(penalty.bonus, frozen, spec), int(tensors["step"]), progress


def _below(prefix: str, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _read(path: Path) -> tuple[dict[str, np.ndarray], Progress]:
    """Without the parts of a state that the agent had in an earlier version and has no longer."""
    tensors, metadata = storage.read_tensors(path)
    progress = _progress(path, metadata)
    gone = tuple(f"agent/{part}/" for part in getattr(type(progress.config.agent), "gone", ()))
    return {name: tensor for name, tensor in tensors.items() if not name.startswith(gone)}, progress


def _progress(path: Path, metadata: dict[str, str]) -> Progress:
    try:
        config = configs.from_json(json.loads(metadata["config"]))
        spec, env_id = spec_from_json(json.loads(metadata["spec"])), json.loads(metadata["env_id"])
        together = tuple(json.loads(metadata.get("together", "[]")))
        return Progress(config, metadata["dataset_sha256"], spec, env_id, float(metadata["seconds"]), together)
    except (KeyError, ValueError) as error:
        raise TetherError(f"{path} is not the checkpoint of a run") from error

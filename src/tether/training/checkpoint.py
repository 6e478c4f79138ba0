"""A run's state on disk: one safetensors file, replaced whole, with all that decides whether it may be continued."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from tether import config as configs
from tether import storage
from tether.errors import TetherError
from tether.training.epoch import RunState

NAME = "checkpoint.safetensors"


@dataclass(frozen=True)
class Progress:
    """What a run knows about itself besides its state."""

    config: configs.RunConfig
    dataset_sha256: str
    seconds: float = 0.0  # spent so far, over all sittings


def save(folder: Path, state: RunState, progress: Progress) -> None:
    metadata = {
        "config": json.dumps(configs.to_json(progress.config)),
        "dataset_sha256": progress.dataset_sha256,
        "seconds": repr(progress.seconds),
        "step": str(int(state.step)),
    }
    storage.write_tensors(folder / NAME, storage.flatten_tree(state), metadata)


def load(folder: Path, template: RunState, config: configs.RunConfig, dataset_sha256: str) -> tuple[RunState, Progress] | None:
    """The state to go on from, or None where there is none yet. A checkpoint of another config or dataset is refused."""
    path = folder / NAME
    if not path.exists():
        return None
    tensors, metadata = storage.read_tensors(path)
    stored = _progress(path, metadata)
    difference = configs.first_difference(config, stored.config)
    if difference:
        raise TetherError(f"{path} is of another config ({difference}); choose another --run-dir or the same settings")
    if stored.dataset_sha256 != dataset_sha256:
        raise TetherError(
            f"{path} was trained on another dataset (sha256 {stored.dataset_sha256[:12]}…); choose another --run-dir"
        )
    return storage.unflatten_tree(template, tensors), stored


def read(folder: Path) -> tuple[dict[str, Any], Progress]:
    """The tensors and progress of a run, whatever its config: for evaluating it."""
    path = folder / NAME
    if not path.exists():
        raise TetherError(f"{folder} has no {NAME}: the run has not come to its first checkpoint")
    tensors, metadata = storage.read_tensors(path)
    return tensors, _progress(path, metadata)


def shape_of(state: Any) -> Any:
    return jax.eval_shape(lambda: state)


def _progress(path: Path, metadata: dict[str, str]) -> Progress:
    try:
        config = configs.from_json(json.loads(metadata["config"]))
        return Progress(config, metadata["dataset_sha256"], float(metadata["seconds"]))
    except (KeyError, ValueError) as error:
        raise TetherError(f"{path} is not the checkpoint of a run") from error

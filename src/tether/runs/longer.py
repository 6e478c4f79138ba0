"""A run made longer: what is in its folder becomes an unfinished run of more steps, which goes on from its last checkpoint.

Nothing in a run depends on its length but a schedule of the learning rate, so it ends as one that was long from the start.
"""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from tether import config as configs
from tether import storage
from tether.config import RunConfig
from tether.errors import TetherError
from tether.runs import checkpoint
from tether.runs.identity import DATA_HASH


def make_longer(folder: Path, config: RunConfig, sha256: str) -> int | None:
    """Let the run in `folder` be that of `config`, which has more steps; the steps it had. None: there is nothing to do.

    Whatever else differs is left to be refused by those who compare. Interrupted between two of its writes, it can be done again.
    """
    if not (folder / "config.json").exists():
        raise TetherError(f"--extend: {folder} holds no run; without it, one is begun there")
    with storage.exclusive(folder):
        plain = storage.read_json(folder / "config.json")
        stored = configs.from_json(plain)
        had, wanted = stored.training.steps, config.training.steps
        if (
            configs.first_difference(_of_length(stored, wanted), config)
            or had == wanted
            or plain.get(DATA_HASH, sha256) != sha256
        ):
            return None
        _check(stored, config, folder)
        for name in ("result.json", "verdict.json"):  # from here on it is unfinished, and goes on by either length
            (folder / name).unlink(missing_ok=True)
        _rewrite_checkpoint(folder / checkpoint.NAME, config)
        _forget_last_evaluation(folder, stored)
        storage.write_json(folder / "config.json", configs.to_json(config) | {DATA_HASH: sha256})
    return had


def _of_length(config: RunConfig, steps: int) -> RunConfig:
    return replace(config, training=replace(config.training, steps=steps))


def _check(stored: RunConfig, config: RunConfig, folder: Path) -> None:
    had, wanted = stored.training.steps, config.training.steps
    if wanted < had:
        raise TetherError(f"--extend: {folder} has {had:,} steps, {wanted:,} are asked for; a run can only be made longer")
    agent: Any = config.agent
    schedules = {field.name: getattr(getattr(agent, field.name), "schedule", "constant") for field in fields(agent)}
    falling = [f"agent.{name}.schedule={schedule}" for name, schedule in schedules.items() if schedule != "constant"]
    if falling:
        raise TetherError(
            f"--extend: the learning rate of {folder} fell to 0 by step {had:,} ({', '.join(falling)}), and over "
            f"{wanted:,} steps it would have fallen more slowly from the start: what was learnt is not the beginning of that "
            "run. Train it anew with another --run-dir, or keep it constant from the start where it may be extended"
        )
    if stored.epoch_steps != config.epoch_steps:
        raise TetherError(
            f"--extend: {wanted:,} steps would be logged every {config.epoch_steps:,}, the run has its log every "
            f"{stored.epoch_steps:,}; give a number of steps that {stored.epoch_steps:,} divides"
        )


def _rewrite_checkpoint(path: Path, config: RunConfig) -> None:
    if path.exists():
        tensors, metadata = storage.read_tensors(path)
        storage.write_tensors(path, tensors, metadata | {"config": json.dumps(configs.to_json(config))})


def _forget_last_evaluation(folder: Path, stored: RunConfig) -> None:
    """The one that a run makes because it ends, where a longer one has none."""
    end, path = stored.training.steps, folder / "metrics.jsonl"
    if end % stored.training.evaluate_every and path.exists():
        storage.truncate_jsonl(path, lambda record: not (record.get("step") == end and "evaluation" in record))

"""Weights & Biases, for whoever asks for it. Nothing is sent without `--wandb`, nor with it where WANDB_MODE is offline."""

from __future__ import annotations

import hashlib
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tether.errors import TetherError

PACKAGE = "--wandb needs the package wandb; pip install 'tether-rl[wandb]' brings it"
LOGIN = "wandb login keeps one here, and WANDB_MODE=offline keeps what is logged on this machine"


def check_installed() -> None:
    """Before an hour of fitting."""
    try:
        found = find_spec("wandb")
    except ValueError:  # it is None among the modules: made unavailable
        found = None
    if found is None:
        raise TetherError(PACKAGE)


def check_login() -> None:
    """Before many processes that would each find it out; in a terminal Weights & Biases may ask for the key, once."""
    check_installed()
    if os.environ.get("WANDB_MODE", "online") not in ("online", "run", "shared"):
        return
    import wandb

    try:
        found = wandb.login()
    except wandb.errors.Error as error:
        raise TetherError(f"cannot log to Weights & Biases: {error}; {LOGIN}") from error
    if not found:
        raise TetherError(f"cannot log to Weights & Biases: there is no key on this machine; {LOGIN}")


class WandbRun:
    """One run there for a run folder, which every sitting goes on with.

    Steps of the fit and of the training are two axes: the fit comes first and is longer than the training's first steps.
    """

    def __init__(self, folder: Path, project: str, config: dict[str, Any]) -> None:
        import wandb

        identity = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
        try:
            self._run = wandb.init(
                project=project,
                name="/".join(folder.resolve().parts[-3:]),
                id=identity,
                resume="allow",
                dir=str(folder),
                config=config,
                settings=wandb.Settings(silent=True, console="off"),
            )
        except (wandb.errors.Error, OSError) as error:
            raise TetherError(f"cannot log to Weights & Biases: {error}; WANDB_MODE=offline keeps it on this machine") from error
        self._run.define_metric("step")
        self._run.define_metric("fit_step")
        self._run.define_metric("*", step_metric="step")
        self._run.define_metric("fit/*", step_metric="fit_step")

    def add(self, step: int, values: dict[str, float]) -> None:
        axis = "fit_step" if all(name.startswith("fit/") for name in values) else "step"
        self._run.log({axis: step, **values})

    def close(self) -> None:
        self._run.finish()

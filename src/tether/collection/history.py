"""What an online training leaves on disk, so that it can go on after a stop and serve several datasets.

One folder holds `settings.json`; for every block its transitions (`replay-...`) and the policy at its end with its returns
(`policy-...`), never rewritten; and the agent's whole state after the last block (`agent`), written last. Blocks beyond the
agent's step come from a stop in between and are made again.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from tether.collection.online import OnlineSettings, initial_state, online_policy
from tether.collection.recording import Recording, joined
from tether.errors import TetherError
from tether.settings import to_plain
from tether.storage import flatten_tree, read_json, read_tensors, unflatten_tree, write_json, write_tensors
from tether.types import Batch, Spec


class Evaluation(NamedTuple):
    """A policy's episodes without noise, after `step` steps of training."""

    step: int
    returns: np.ndarray  # (episodes,)

    @property
    def mean(self) -> float:
        return float(np.mean(self.returns))


class History:
    """The training in `folder`: empty at first, of these very settings ever after."""

    def __init__(self, folder: Path, settings: OnlineSettings, spec: Spec) -> None:
        self._folder = folder
        self._settings, self._spec = settings, spec
        self._template: Any = jax.eval_shape(lambda: initial_state(settings, spec))
        _check_settings(folder / "settings.json", settings)
        self.state = initial_state(settings, spec)
        self.evaluations: list[Evaluation] = []
        if (folder / "agent.safetensors").exists():
            tensors, metadata = read_tensors(folder / "agent.safetensors")
            self.state = unflatten_tree(self._template, tensors)
            steps = range(settings.evaluate_every, int(metadata["step"]) + 1, settings.evaluate_every)
            self.evaluations = [Evaluation(step, self._read("policy", step)["returns"]) for step in steps]

    @property
    def step(self) -> int:
        return self.evaluations[-1].step if self.evaluations else 0

    def append(self, state: Any, recording: Recording, returns: np.ndarray) -> None:
        """Keep one more block. The state is copied to disk, and so may be donated afterwards."""
        step = self.step + self._settings.evaluate_every
        self._write("replay", step, flatten_tree(recording))
        self._write(
            "policy", step, flatten_tree({"policy": online_policy(self._settings, state, self._spec)}) | {"returns": returns}
        )
        write_tensors(self._folder / "agent.safetensors", flatten_tree(state), {"step": str(step)})
        self.state = state
        self.evaluations.append(Evaluation(step, returns))

    def policy(self, step: int) -> Any:
        tensors = self._read("policy", step)
        del tensors["returns"]
        template = jax.eval_shape(lambda state: online_policy(self._settings, state, self._spec), self._template)
        return unflatten_tree({"policy": template}, tensors)["policy"]

    def replay(self, steps: int) -> Recording:
        """The first `steps` transitions; a multiple of the block's length, at least one block."""
        every = self._settings.evaluate_every
        return joined([_recording(self._read("replay", step)) for step in range(every, steps + 1, every)])

    def _file(self, kind: str, step: int) -> Path:
        return self._folder / f"{kind}-{step:09}.safetensors"

    def _read(self, kind: str, step: int) -> dict[str, np.ndarray]:
        return read_tensors(self._file(kind, step))[0]

    def _write(self, kind: str, step: int, tensors: dict[str, np.ndarray]) -> None:
        write_tensors(self._file(kind, step), tensors, {"step": str(step)})


def _recording(tensors: dict[str, np.ndarray]) -> Recording:
    return Recording(Batch(*(tensors[f"transitions/{name}"] for name in Batch._fields)), tensors["truncated"])


def _check_settings(path: Path, settings: OnlineSettings) -> None:
    if not path.exists():
        write_json(path, to_plain(settings))
        return
    difference = first_difference(read_json(path), settings)
    if difference:
        raise TetherError(f"{path.parent} holds a training made {difference}; give another folder by --work, or delete that one")


def first_difference(there: Any, here: Any) -> str | None:
    """`with seed 0 (here 1)` for the first of the settings `here` that is not the same in what a file says, None where all are.

    One that is not in the file is newer than it, and had its default.
    """
    if not isinstance(there, dict):
        return "by other means"
    now = to_plain(here)
    defaults = {field.name: field.default for field in fields(here)}
    for name in [*now, *(name for name in there if name not in now)]:
        setting = getattr(here, name, None)
        if is_dataclass(setting):
            inner = first_difference(there.get(name, to_plain(setting)), setting)
            if inner:
                return inner
        elif there.get(name, defaults.get(name)) != now.get(name):
            return f"with {name} {there.get(name)} (here {now.get(name)})"
    return None

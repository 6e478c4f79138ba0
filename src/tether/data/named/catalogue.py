"""D4RL's datasets of the paper's 24 tasks by name, in every version, and where each is or would be on this machine."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from tether.data.dataset import Dataset
from tether.data.files.d4rl import read_d4rl
from tether.environments.tasks import TASKS, Task, find_task
from tether.errors import TetherError, did_you_mean
from tether.storage import read_json

LOCATION = "https://rail.eecs.berkeley.edu/datasets/offline_rl"  # as in D4RL's own list of files (d4rl/infos.py)
PREFIX = "d4rl/"

LEVELS = {
    "locomotion": ("random", "medium", "medium-replay", "medium-expert"),
    "manipulation": ("human", "cloned", "expert"),
}
VERSIONS = {"locomotion": ("v0", "v1", "v2"), "manipulation": ("v0", "v1")}

ReadFile = Callable[[Path, str], Dataset]  # a file, and the name of the dataset in it

_ADROIT_V0 = {"human": "{}-v0_demos_clipped", "cloned": "{}-demos-v0-bc-combined", "expert": "{}-v0_expert_clipped"}


@dataclass(frozen=True)
class KnownDataset:
    """One file of D4RL's."""

    name: str  # hopper-medium-replay-v2
    level: str  # medium-replay
    version: str  # v2
    task: Task

    @property
    def url(self) -> str:
        return f"{LOCATION}/{self._remote_name()}.hdf5"

    @property
    def path(self) -> Path:
        """Where its file is kept, and where one put by hand is found."""
        return data_folder() / f"{self.name}.hdf5"

    @property
    def record(self) -> Path:
        """Size, sha256 and source of a file that was downloaded."""
        return self.path.with_suffix(".json")

    def _remote_name(self) -> str:
        env, level = self.task.name, self.level.replace("-", "_")
        if self.task.group == "manipulation":
            return f"hand_dapg/{_ADROIT_V0[self.level].format(env)}" if self.version == "v0" else f"hand_dapg_v1/{self.name}"
        if self.version != "v0":
            return f"gym_mujoco_{self.version}/{env}_{level}-{self.version}"
        if self.level == "medium-replay":  # v0 calls it mixed, and its walker has no 2d
            return f"gym_mujoco/{env.removesuffix('2d')}_mixed"
        return f"gym_mujoco/{env}_{level}"


def known_datasets() -> dict[str, KnownDataset]:
    """All of them, by name; the tasks in the order of the paper's table."""
    return {
        (name := f"{task.name}-{level}-{version}"): KnownDataset(name, level, version, task)
        for group, levels in LEVELS.items()
        for level in levels
        for task in TASKS.values()
        if task.group == group
        for version in VERSIONS[group]
    }


def find_known(name: str) -> KnownDataset | None:
    """The dataset of that name, which may have D4RL's prefix: `hopper-medium-v2`, `d4rl/pen-human-v1`."""
    return known_datasets().get(_bare(name))


def nearest(name: str, others: Iterable[str] = ()) -> str:
    """For the message about a name that nobody knows: those it may stand for, or where all are listed."""
    bare = _bare(name)
    near = difflib.get_close_matches(bare, [*known_datasets(), *others], n=3)
    return did_you_mean(bare, near) if near else "; tether data list shows all names"


def check_here(known: KnownDataset) -> None:
    """Refuse a dataset whose file was neither downloaded nor put in its place by hand."""
    if not known.path.exists():
        raise TetherError(
            f"{known.name} is not on this machine; tether data download {known.name}, or put its file at {known.path}"
        )


def load_known(known: KnownDataset, read: ReadFile = read_d4rl) -> Dataset:
    """Read the file that was downloaded, or put in its place by hand."""
    check_here(known)
    dataset = read_known(known, known.path, read)
    record = read_json(known.record) if known.record.exists() else {"sha256": dataset.sha256}  # put there by hand
    recorded = record.get("sha256") if isinstance(record, dict) else None
    if dataset.sha256 != recorded:
        found = f"its sha256 is {dataset.sha256[:12]}…, recorded in {known.record.name} is {str(recorded)[:12]}…"
        raise TetherError(
            f"{known.path} is not the file that was downloaded: {found}; "
            f"tether data download {known.name} --overwrite fetches it anew"
        )
    source = {name: record[name] for name in ("url", "downloaded") if name in record}
    return replace(dataset, provenance=source | dataset.provenance)


def read_known(known: KnownDataset, path: Path, read: ReadFile = read_d4rl) -> Dataset:
    """Read a file that should be this dataset, wherever it is."""
    dataset, task = read(path, known.name), known.task
    if find_task(dataset.env_id) is not task:
        sizes = f"{dataset.spec.observation_size} observations and {dataset.spec.action_size} actions a row"
        expected = f"{task.name} has {task.observation_size} and {task.action_size}"
        raise TetherError(
            f"{path.name}: {sizes} (environment {dataset.env_id or 'unknown'}), where {expected}; a file of another task"
        )
    return dataset


def data_folder() -> Path:
    """Where downloaded datasets are kept: `TETHER_DATA`, else the user's cache folder."""
    given = os.environ.get("TETHER_DATA")
    if given:
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tether" / "data"


def _bare(name: str) -> str:
    return name[len(PREFIX) :] if name.lower().startswith(PREFIX) else name

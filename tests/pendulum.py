"""A dataset of a real MuJoCo task, small runs on it, and ways to interrupt and compare them.

All runs have the same networks, rows and epochs, so that what was compiled for one serves the others.
"""

from __future__ import annotations

import json
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium
import h5py
import numpy as np

from tether import storage
from tether.config import RunConfig, make_config
from tether.training.run import run

ENV_ID = "InvertedDoublePendulum-v5"
NETWORKS = {"hidden_sizes": "16,16", "batch_size": "32"}
SETTINGS = {f"agent.{name}": value for name, value in NETWORKS.items()}
SETTINGS |= {f"bonus.{name}": value for name, value in (NETWORKS | {"latent_size": "2", "steps": "3000"}).items()}
SETTINGS |= {"training.steps": "3000", "training.log_every": "100", "training.checkpoint_every": "100"}
SETTINGS |= {"training.evaluate_every": "1000", "evaluation.episodes": "2"}

# What says when and how fast a run was made, and not what came out of it.
TIMINGS = {"wall_time_seconds", "updates_per_second", "resumed_from_step"}


def write_episodes(path: Path, reward: float | None = None, env_id: str | None = ENV_ID) -> Path:
    """Forty episodes of random actions in the D4RL layout. A `reward` takes the place of every recorded one."""
    random = np.random.default_rng(0)
    environment = gymnasium.make(ENV_ID, disable_env_checker=True)
    names = ("observations", "actions", "rewards", "next_observations", "terminals", "timeouts")
    rows: list[tuple[Any, ...]] = []
    for episode in range(40):
        observation, _ = environment.reset(seed=episode)
        ended = False
        while not ended:
            action = random.uniform(-1.0, 1.0, 1).astype(np.float32)
            successor, paid, terminated, truncated, _ = environment.step(action)
            rows.append((observation, action, paid if reward is None else reward, successor, terminated, truncated))
            observation, ended = successor, terminated or truncated
    environment.close()
    with h5py.File(path, "w") as file:
        for name, column in zip(names, zip(*rows, strict=True), strict=True):
            file[name] = np.asarray(column)
        if env_id is not None:
            file.attrs["env_id"] = env_id
    return path


def small_config(dataset: Path, agent: str = "td3", bonus: str = "cvae", seed: int = 0, **changes: Any) -> RunConfig:
    """The paper's settings with those above and some more changed: `training__steps=200`."""
    overrides = SETTINGS | {name.replace("__", "."): value for name, value in changes.items()}
    if bonus == "none":
        overrides = {name: value for name, value in overrides.items() if not name.startswith("bonus.")}
    return make_config(str(dataset), ENV_ID, agent, bonus, "paper", seed, overrides)


def command(dataset: Path, folder: Path, **changes: Any) -> list[str]:
    """The arguments of `tether` that make the run of `small_config`."""
    settings = SETTINGS | {name.replace("__", "."): value for name, value in changes.items()}
    pairs = [f"{name}={value}" for name, value in settings.items()]
    return ["train", "--dataset", str(dataset), "--preset", "paper", "--run-dir", str(folder), "--set", *pairs]


def quietly(config: RunConfig, folder: Path, say: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    return run(config, folder, show=False, say=say)


def interrupting(when: str, number: signal.Signals = signal.SIGINT) -> tuple[Callable[[str], None], list[str]]:
    """A `say` that sends this process a signal as soon as the run says something that begins with `when`; and all it said."""
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        if text.startswith(when):
            signal.raise_signal(number)

    return say, said


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Writing past `size` bytes of any file fails inside the block, as it does on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def state_of(folder: Path) -> tuple[dict[str, bytes], dict[str, str]]:
    """The bits of a run's checkpoint, and what is said about it apart from the time it took."""
    tensors, metadata = storage.read_tensors(folder / "checkpoint.safetensors")
    del metadata["seconds"]
    return {name: tensor.tobytes() for name, tensor in tensors.items()}, metadata


def assert_same_run(folder: Path, other: Path) -> None:
    """Bit for bit the same state, policy, metrics and result, whatever the time it took."""
    assert state_of(folder) == state_of(other)
    for name in ("policy.safetensors", "metrics.jsonl", "config.json"):
        assert (folder / name).read_bytes() == (other / name).read_bytes(), name
    result, expected = (json.loads((place / "result.json").read_text()) for place in (folder, other))
    for facts in (result, expected):
        facts["bonus"].pop("seconds")
        for name in TIMINGS:
            facts.pop(name)
    assert result == expected


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    """The time of change and the content of every file of a folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}

"""Minari's datasets, through its own library: `minari:mujoco/hopper/medium-v0`.

What is done with what Minari allows:
- Dict, Tuple and discrete observations are flattened (see `tether.environments.spaces`); images, text and sequences are refused.
- Actions must be a Box of one axis. Its bounds are the dataset's, where they are finite.
- A dataset that names no environment loads like any other and is not evaluated.
- Reference scores are our own (`tether.environments.tasks`): Minari has none for `mujoco/*` and wrong ones for pen.
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tether.data.bounds import are_bounds
from tether.data.dataset import Dataset
from tether.data.files.attributes import is_plain_env_id
from tether.data.files.d4rl import assemble
from tether.data.files.hdf5 import Columns
from tether.data.provenance import RECORDED_PARTS
from tether.errors import TetherError, did_you_mean

if TYPE_CHECKING:
    from gymnasium import Space
    from minari import EpisodeData, MinariDataset

PREFIX = "minari:"


def read_minari(dataset_id: str) -> Dataset:
    """Read a dataset that is on this machine, in Minari's folder."""
    from tether.environments import spaces

    with reading(dataset_id):
        dataset = _open(dataset_id)
        observation_space = spaces.in_key_order(dataset.observation_space)
        spaces.check_flattenable(observation_space, dataset_id)
        bounds = _action_bounds(dataset.action_space, dataset_id)
        columns = _columns(dataset, observation_space)
        columns.attributes[RECORDED_PARTS] = spaces.spell_parts(observation_space)
        env_id = _env_id(dataset)
    named = dataset_id.removesuffix("/").replace("/", "-")
    return assemble(columns, named, env_id, _sha256(columns), bounds, spaces.spell_parts(observation_space))


def list_datasets(remote: bool) -> dict[str, dict[str, Any]]:
    """The metadata of every dataset on this machine, or of all that can be downloaded, by id."""
    with reading("the list of remote datasets" if remote else "the list of local datasets"):
        import minari

        return minari.list_remote_datasets() if remote else minari.list_local_datasets()


def environment_of(metadata: dict[str, Any]) -> str | None:
    """The environment that a dataset's metadata names."""
    try:
        return str(json.loads(metadata["env_spec"])["id"])
    except (KeyError, TypeError, ValueError):
        return None


def download(dataset_id: str) -> None:
    """Fetch a dataset into Minari's folder, with its library, which shows its own progress."""
    with reading(dataset_id):
        import minari

        minari.download_dataset(dataset_id)


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Errors of Minari and of what lies below it as one `TetherError`; theirs are of many kinds."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # advice to authors of datasets, and notices of newer versions
            yield
    except TetherError:
        raise
    except ImportError as error:
        raise TetherError(f"Minari datasets need {error.name or 'more packages'}: pip install 'tether-rl[minari]'") from error
    except MemoryError as error:
        raise TetherError(f"{what}: does not fit in memory ({error})") from error
    except Exception as error:
        # No name is safe to catch: httpx's errors are no OSErrors, and Minari checks much of its input with assert.
        if _is_about_the_network(error):
            raise TetherError(
                f"{what}: Minari's server cannot be reached ({' '.join(str(error).split())}); check the network, or bring the "
                "dataset's folder from another machine into Minari's (MINARI_DATASETS_PATH, default ~/.minari/datasets)"
            ) from error
        raise TetherError(f"{what}: Minari cannot read it: {' '.join(str(error).split()) or type(error).__name__}") from error


def _open(dataset_id: str) -> MinariDataset:
    import minari
    from minari.dataset.minari_dataset import DATASET_ID_RE
    from minari.storage import get_dataset_path

    match = DATASET_ID_RE.fullmatch(dataset_id)  # anything else could be a path out of Minari's folder
    if match is None or match["version"] is None:
        raise TetherError(f"{dataset_id!r} is no Minari id; write it as namespace/name-vN, such as mujoco/hopper/medium-v0")
    if not (get_dataset_path(dataset_id) / "data").exists():
        local = minari.list_local_datasets()
        near = did_you_mean(dataset_id, local, PREFIX) if local else ""
        raise TetherError(
            f"no Minari dataset {dataset_id} on this machine{near} (fetch it with: tether data minari --download {dataset_id})"
        )
    _refuse_without_spaces(get_dataset_path(dataset_id) / "data", dataset_id)
    return minari.load_dataset(dataset_id)


def _refuse_without_spaces(folder: Path, dataset_id: str) -> None:
    """Where the metadata lacks a space, Minari makes the environment to find it, importing whatever module the file names."""
    from minari.dataset.minari_storage import MinariStorage

    metadata = MinariStorage.read_raw_metadata(folder)
    if not {"observation_space", "action_space"} <= set(metadata):
        raise TetherError(f"{dataset_id}: names no observation or action space; make it anew with a current Minari")


def _action_bounds(space: Space, dataset_id: str) -> tuple[np.ndarray, np.ndarray] | None:
    """The bounds of the action space; None where it has none, or choices. The one place that decides which actions are learnt."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return None
    if not isinstance(space, spaces.Box) or len(space.shape) != 1:
        raise TetherError(f"{dataset_id}: actions are {space}; Tether learns vectors (a Box of one axis) or choices (Discrete)")
    if not np.issubdtype(space.dtype, np.floating):
        raise TetherError(f"{dataset_id}: actions are whole numbers ({space.dtype}); Tether learns vectors of floats, or choices")
    low, high = space.low.astype(np.float32), space.high.astype(np.float32)
    return (low, high) if are_bounds(low, high) else None


def _columns(dataset: MinariDataset, space: Space) -> Columns:
    """All episodes one after the other. The last row of each is terminal or cut, whatever its flags say."""
    from gymnasium import spaces

    from tether.environments.spaces import flatten_rows

    discrete = isinstance(dataset.action_space, spaces.Discrete)
    episodes = []
    for episode in dataset.iterate_episodes():
        where = f"{dataset.id}, episode {episode.id}"
        observations = flatten_rows(space, episode.observations)
        _check_lengths(episode, len(observations), where)
        actions, rewards = np.asarray(episode.actions).astype(np.float32), np.asarray(episode.rewards).astype(np.float32)
        if discrete:
            actions = flatten_rows(dataset.action_space, episode.actions)
        for name, values in (("observations", observations), ("actions", actions), ("rewards", rewards)):
            broken = ~np.isfinite(values).reshape(len(values), -1).all(axis=1)
            if broken.any():
                raise TetherError(f"{where}: {name} has NaN or Inf values, the first in step {int(np.argmax(broken))}")
        terminations, truncations = (np.asarray(flags).astype(bool) for flags in (episode.terminations, episode.truncations))
        truncations[-1:] |= ~terminations[-1:]
        episodes.append((observations[:-1], actions, rewards, terminations, truncations, observations[1:]))
    if not sum(len(rewards) for _, _, rewards, *_ in episodes):
        raise TetherError(f"{dataset.id}: has no steps")
    observations, actions, rewards, terminals, timeouts, following = map(np.concatenate, zip(*episodes, strict=True))
    return Columns(observations, actions, rewards, terminals, timeouts, following, None, _about(dataset), discrete)


def _check_lengths(episode: EpisodeData, observations: int, where: str) -> None:
    steps = len(episode.rewards)
    if observations != steps + 1:
        raise TetherError(f"{where}: {observations} observations for {steps} steps; there must be one more than steps")
    for name in ("actions", "terminations", "truncations"):
        if len(getattr(episode, name)) != steps:
            raise TetherError(f"{where}: {name} has {len(getattr(episode, name))} entries for {steps} steps")


def _about(dataset: MinariDataset) -> dict[str, Any]:
    """What its authors say of it: the dataset's provenance."""
    metadata = dataset.storage.metadata
    kept = ("algorithm_name", "code_permalink", "description", "minari_version")
    return {"minari_id": dataset.id, **{name: str(metadata[name]) for name in kept if name in metadata}}


def _env_id(dataset: MinariDataset) -> str | None:
    """The environment it was recorded in; None where none is named, or one whose id would import code."""
    env_id = None if dataset.env_spec is None else dataset.env_spec.id
    return env_id if env_id is not None and is_plain_env_id(env_id) else None


def _sha256(columns: Columns) -> str:
    """Of what was read, so that the same dataset has the same hash whichever way Minari stores it."""
    found = hashlib.sha256()
    for column in columns[:6]:
        found.update(np.ascontiguousarray(column).data)
    return found.hexdigest()


_NETWORK = re.compile(r"(connect|network|timeout|offline|resolution)", re.IGNORECASE)


def _is_about_the_network(error: BaseException) -> bool:
    return any(_NETWORK.search(kind.__name__) for kind in type(error).__mro__)

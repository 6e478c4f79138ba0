"""A dataset as one of Minari's, which Minari itself loads; read back, it gives the same transitions."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tether.data.dataset import Dataset
from tether.data.minari.reading import reading
from tether.environments.tasks import find_task
from tether.errors import TetherError

if TYPE_CHECKING:
    from gymnasium import Env
    from minari.data_collector.episode_buffer import EpisodeBuffer


class Exported(NamedTuple):
    """What was written, and where."""

    path: Path
    episodes: int
    pieces: int  # more episodes than the dataset has, by so many: cut where the next row does not go on from the last
    env_id: str | None  # None: Minari was given no environment


def export_minari(dataset: Dataset, dataset_id: str, author: str | None = None, description: str | None = None) -> Exported:
    """Write `dataset` into Minari's folder under `dataset_id`, all or nothing.

    Minari stores an episode's observations once, one more than it has steps, so an episode is cut where a row's recorded
    successor is not the next row's observation. Reference scores are ours where the task is known.
    """
    with reading(dataset_id):
        import minari
        from gymnasium import spaces
        from minari.dataset.minari_dataset import DATASET_ID_RE
        from minari.storage import get_dataset_path

        match = DATASET_ID_RE.fullmatch(dataset_id)
        if match is None or match["version"] is None:
            raise TetherError(f"{dataset_id!r} is no Minari id; write it as namespace/name-vN, such as mine/hopper/medium-v0")
        place = get_dataset_path(dataset_id)
        if place.exists():
            raise TetherError(f"Minari has a dataset {dataset_id} already, in {place}; choose another version, or delete that")
        ends = _piece_ends(dataset)
        spec = dataset.spec
        low, high = (np.asarray(bound, np.float32) for bound in (spec.action_low, spec.action_high))
        action_space = spaces.Discrete(spec.action_size) if spec.discrete else spaces.Box(low, high, dtype=np.float32)
        with _environment(dataset) as environment, _staged(get_dataset_path(), dataset_id):
            made = minari.create_dataset_from_buffers(
                dataset_id,
                list(_episodes(dataset, ends)),
                env=environment,
                observation_space=spaces.Box(-np.inf, np.inf, (spec.observation_size,), np.float32),
                action_space=action_space,
                author=author,
                description=description or f"{dataset.name} (sha256 {dataset.sha256}), exported by Tether",
            )
            task = find_task(dataset.env_id)
            if task is not None:  # given above, Minari would make the environment once more
                made.storage.update_metadata({"ref_min_score": task.score_0, "ref_max_score": task.score_100})
    pieces = len(ends) - len(dataset.episode_ends)
    return Exported(place, len(ends), pieces, None if environment is None else dataset.env_id)


@contextmanager
def _environment(dataset: Dataset) -> Iterator[Env | None]:
    """The environment itself, as Minari would make one from an id, noisily; None where it cannot be made here."""
    if dataset.env_id is None:
        yield None
        return
    from gymnasium.wrappers import TransformAction, TransformObservation

    from tether.environments.making import make_environment
    from tether.environments.vectors import OfChoices

    try:
        environment = make_environment(dataset.env_id, dataset.spec)
    except TetherError:
        yield None
        return
    with closing(environment):
        # A function that flattens observations or choices could not be written into the spec that Minari keeps.
        bare = environment
        while isinstance(bare, TransformObservation | TransformAction | OfChoices):
            bare = bare.env
        yield bare


def _piece_ends(dataset: Dataset) -> np.ndarray:
    """(P,) one past the last row of each piece: the episodes, cut where a row does not go on from the one before."""
    transitions = dataset.transitions
    ends = np.zeros(dataset.size, dtype=bool)
    ends[dataset.episode_ends - 1] = True
    ends[:-1] |= (np.asarray(transitions.next_observation)[:-1] != np.asarray(transitions.observation)[1:]).any(axis=1)
    return np.flatnonzero(ends) + 1


def _episodes(dataset: Dataset, ends: np.ndarray) -> Iterator[EpisodeBuffer]:
    from minari.data_collector.episode_buffer import EpisodeBuffer

    transitions = dataset.transitions
    actions = np.asarray(transitions.action)
    if dataset.spec.discrete:
        actions = np.argmax(actions, axis=1)
    for start, end in zip(np.concatenate([[0], ends[:-1]]), ends, strict=True):
        rows = slice(start, end)
        terminations = np.asarray(transitions.terminated)[rows] > 0
        truncations = np.zeros(end - start, dtype=bool)
        truncations[-1] = not terminations[-1]
        yield EpisodeBuffer(
            observations=np.concatenate([transitions.observation[rows], transitions.next_observation[end - 1 : end]]),
            actions=actions[rows],
            rewards=np.asarray(transitions.reward)[rows],
            terminations=terminations,
            truncations=truncations,
        )


@contextmanager
def _staged(root: Path, dataset_id: str) -> Iterator[None]:
    """Let Minari write into a hidden folder beside its datasets; the finished dataset is then renamed into its place."""
    staging = root / f".tether-{secrets.token_hex(6)}"
    before = os.environ.get("MINARI_DATASETS_PATH")
    os.environ["MINARI_DATASETS_PATH"] = str(staging)
    try:
        yield
        (root / dataset_id).parent.mkdir(parents=True, exist_ok=True)
        for made in sorted(staging.rglob("namespace_metadata.json")):
            place = root / made.relative_to(staging)
            if not place.exists():
                os.replace(made, place)
        os.replace(staging / dataset_id, root / dataset_id)
    finally:
        if before is None:
            del os.environ["MINARI_DATASETS_PATH"]
        else:
            os.environ["MINARI_DATASETS_PATH"] = before
        shutil.rmtree(staging, ignore_errors=True)

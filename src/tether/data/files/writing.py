"""Datasets as HDF5 files in the layout of D4RL, with where they came from as attributes.

Every part of such a file has a checksum: columns that of gzip, all else that of the metadata format of HDF5 1.10. A changed bit
is an error when the file is read, or lies where nothing is stored.
"""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from tether.data import choices
from tether.data.dataset import Dataset
from tether.errors import TetherError
from tether.storage import replacing
from tether.types import Batch, Spec

OnBytes = Callable[[int], None]  # so many more bytes of columns, before compression, are written

_FORMAT = ("v110", "v110")  # HDF5 of 2016 and later; older metadata has no checksums
_COMPRESSION = {"compression": "gzip", "compression_opts": 4, "shuffle": True}


def save_dataset(dataset: Dataset, path: Path | str) -> None:
    """Write a dataset that reads back the same: rows, episodes, returns, bounds, environment and provenance."""
    save_datasets({Path(path): dataset})


def save_datasets(datasets: dict[Path, Dataset], on_bytes: OnBytes = lambda more: None) -> None:
    """Write several files, all or none."""
    with ExitStack() as stack:
        for path, dataset in datasets.items():
            columns = _columns(dataset.transitions, dataset.truncated, dataset.spec)
            # The rows that were dropped for want of a successor are not in the file; their share of the returns is.
            columns["tether/episode_returns"] = dataset.episode_returns
            attributes: dict[str, Any] = {"env_id": dataset.env_id, "provenance": dataset.provenance}
            if not dataset.spec.discrete:
                attributes["action_low"] = np.array(dataset.spec.action_low, dtype=np.float64)
                attributes["action_high"] = np.array(dataset.spec.action_high, dtype=np.float64)
            attributes |= _meanings(dataset.spec)
            temporary = stack.enter_context(replacing(path))
            temporary.write_bytes(_hdf5(columns, attributes, on_bytes).getbuffer())


def bytes_of(dataset: Dataset) -> int:
    """What `save_datasets` counts to for this one."""
    return (
        sum(column.nbytes for column in _columns(dataset.transitions, dataset.truncated, dataset.spec).values())
        + dataset.episode_returns.nbytes
    )


def write_d4rl(
    path: Path,
    transitions: Batch,
    truncated: np.ndarray,
    spec: Spec,
    attributes: dict[str, Any],
    compact: bool = False,
    returns: np.ndarray | None = None,
) -> None:
    """Write rows as they were recorded, all or nothing. The same rows and attributes give the same bytes.

    Discrete actions become whole numbers, and attributes say how many there are and what shape an image has.
    A compact file leaves out the successors, which a reader recovers from the next row, as in D4RL v0. `returns` are those of the
    episodes, where they are not the sums of their rewards.
    """
    columns = _columns(transitions, truncated, spec)
    if returns is not None:
        columns["tether/episode_returns"] = returns
    if compact:
        del columns["next_observations"]
    with replacing(path) as temporary:
        temporary.write_bytes(_hdf5(columns, attributes | _meanings(spec)).getbuffer())


def check_writable(path: Path) -> None:
    """Fail now, and not after hours of work, where `path` could not be written. Its folder is made if need be."""
    if path.is_dir():
        raise TetherError(f"cannot write {path}: it is a folder; give the name of a file, such as {path / 'medium.hdf5'}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        reason = f"{path.parent} is not a folder" if isinstance(error, FileExistsError) else error.strerror
        raise TetherError(f"cannot write {path}: {reason}") from error


def _meanings(spec: Spec) -> dict[str, Any]:
    """What a reader needs to be told of choices and images."""
    meanings: dict[str, Any] = {}
    if spec.discrete:
        meanings[choices.ATTRIBUTE] = spec.action_size
    if spec.observation_shape:
        meanings[choices.SHAPE_ATTRIBUTE] = list(spec.observation_shape)
    return meanings


def _columns(transitions: Batch, truncated: np.ndarray, spec: Spec) -> dict[str, np.ndarray]:
    return {
        "observations": transitions.observation,
        "actions": choices.whole_numbers(np.asarray(transitions.action)) if spec.discrete else transitions.action,
        "rewards": transitions.reward,
        "next_observations": transitions.next_observation,
        "terminals": np.asarray(transitions.terminated) > 0,
        "timeouts": truncated,
    }


def _hdf5(columns: dict[str, np.ndarray], attributes: dict[str, Any], on_bytes: OnBytes = lambda more: None) -> io.BytesIO:
    """The file in memory, since HDF5's own messages about a full disk name no cause. An attribute that is None is left out."""
    content = io.BytesIO()
    with h5py.File(content, "w", libver=_FORMAT) as file:
        for name, values in columns.items():
            file.create_dataset(name, data=values, **_COMPRESSION)
            on_bytes(values.nbytes)
        for name, value in attributes.items():
            if isinstance(value, dict):
                value = json.dumps(value, default=lambda scalar: scalar.tolist())
            if isinstance(value, str):
                # Of a fixed length, and so in the checksummed header: text of variable length is stored apart from it.
                value = np.array(value.encode(), dtype=h5py.string_dtype("utf-8", len(value.encode())))
            if value is not None:
                file.attrs[name] = value
    return content

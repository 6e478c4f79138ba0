"""A recording as an HDF5 file in the layout of D4RL, with where it came from as attributes."""

from __future__ import annotations

import io
import json
import tempfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from tether.collection.recording import Recording
from tether.data import choices
from tether.errors import TetherError
from tether.storage import replacing
from tether.types import Spec


def write_d4rl(path: Path, recording: Recording, spec: Spec, attributes: dict[str, Any], compact: bool) -> None:
    """Write all or nothing. A compact file leaves out the successors, which a reader recovers from the next row, as in D4RL v0.

    Discrete actions become whole numbers, and attributes say how many there are and what shape an image has.
    The same recording and attributes give the same bytes.
    """
    transitions = recording.transitions
    columns = {
        "observations": transitions.observation,
        "actions": transitions.action,
        "rewards": transitions.reward,
        "next_observations": transitions.next_observation,
        "terminals": np.asarray(transitions.terminated) > 0,
        "timeouts": recording.truncated,
    }
    if spec.discrete:
        columns["actions"] = np.argmax(transitions.action, axis=1).astype(np.uint8 if spec.action_size <= 256 else np.int32)
        attributes = attributes | {choices.ATTRIBUTE: spec.action_size}
    if spec.observation_shape:
        attributes = attributes | {choices.SHAPE_ATTRIBUTE: list(spec.observation_shape)}
    if compact:
        del columns["next_observations"]
    content = io.BytesIO()  # HDF5's own messages about a full disk name no cause
    with h5py.File(content, "w") as file:
        for name, values in columns.items():
            file.create_dataset(name, data=values, compression="gzip", compression_opts=9, shuffle=True)
        for name, value in attributes.items():
            file.attrs[name] = json.dumps(value) if isinstance(value, dict) else value
    with replacing(path) as temporary:
        temporary.write_bytes(content.getbuffer())


def read_options(path: Path) -> Any:
    """The options that `tether collect` made a file with; None for any other file."""
    try:
        with h5py.File(path, "r") as file:
            return json.loads(file.attrs["options"])
    except (OSError, RuntimeError, KeyError, ValueError, TypeError):
        return None


def check_writable(path: Path) -> None:
    """Fail now, and not after hours of training, where `path` could not be written. Its folder is made if need be."""
    if path.is_dir():
        raise TetherError(f"cannot write {path}: it is a folder; give the name of a file, such as {path / 'medium.hdf5'}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        reason = f"{path.parent} is not a folder" if isinstance(error, FileExistsError) else error.strerror
        raise TetherError(f"cannot write {path}: {reason}") from error

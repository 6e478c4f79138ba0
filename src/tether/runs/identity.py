"""Whether a folder holds the run that is asked for: the same settings on the same data, wherever the data is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tether import config as configs
from tether import storage
from tether.config import RunConfig
from tether.errors import TetherError

DATA_HASH = "dataset_sha256"  # beside the settings in config.json


def write_config(folder: Path, config: RunConfig, sha256: str) -> None:
    """Make the folder this run's, unless it is already."""
    if not (folder / "config.json").exists():
        storage.write_json(folder / "config.json", configs.to_json(config) | {DATA_HASH: sha256})


def find_result(folder: Path, config: RunConfig, sha256: str) -> dict[str, Any] | None:
    """The result if the run in `folder` is finished, None if it is not or the folder is free; an error if it is not this run's.

    Nothing is written: the folder may turn out to be somebody else's.
    """
    try:
        names = {path.name for path in folder.iterdir() if not storage.is_half_written(path)} - {".lock"}
    except (FileNotFoundError, NotADirectoryError):  # where there is a file, making the folder will say so
        return None
    except OSError as error:
        raise TetherError(f"cannot read {folder}: {error.strerror}") from error
    for name in ("result.json", "config.json"):
        if name in names:
            content = storage.read_json(folder / name)
            try:
                plain = content["config"] if name == "result.json" else content
                # Of a folder from before there was a hash beside the settings, the checkpoint's is compared.
                difference = configs.first_difference(config, configs.from_json(plain))
                stored = content["dataset"]["sha256"] if name == "result.json" else plain.get(DATA_HASH, sha256)
            except (TetherError, KeyError, TypeError) as error:
                raise TetherError(
                    f"{folder / name} is not of a run that this version can read ({error}); choose another --run-dir"
                ) from error
            if stored != sha256:
                difference = f"dataset: sha256 {sha256[:12]}… here, {stored[:12]}… there"
            if difference:
                longer = "; --extend trains it on" if difference.startswith("training.steps:") else ""
                raise TetherError(f"{folder} holds a run of another config ({difference}); choose another --run-dir{longer}")
            return content if name == "result.json" else None
    if names:
        raise TetherError(f"{folder} is not empty and holds no run; choose another --run-dir")
    return None

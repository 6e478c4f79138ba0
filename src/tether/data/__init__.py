"""Datasets: `load_dataset("hopper_medium-v2.hdf5")`, `"minari:ID"`, or the name of one that comes with the package."""

from __future__ import annotations

from pathlib import Path

from tether.data.dataset import Dataset, LoadNotes
from tether.errors import TetherError, did_you_mean

__all__ = ["Dataset", "LoadNotes", "built_in_datasets", "load_dataset"]

_SUFFIXES = (".hdf5", ".h5")


def built_in_datasets() -> dict[str, Path]:
    """The datasets that come with the package, by name: every HDF5 file of its folder `embedded`."""
    folder = Path(__file__).parent / "embedded"
    return {path.stem: path for path in sorted(folder.glob("*.hdf5"))}


def load_dataset(source: str | Path) -> Dataset:
    """Read a built-in dataset by its name, an HDF5 file in the D4RL layout by its path, or a Minari dataset by `minari:ID`."""
    from tether.data.d4rl import read_d4rl

    if str(source).startswith("minari:"):
        from tether.data.minari import read_minari

        return read_minari(str(source).removeprefix("minari:"))

    built_in = built_in_datasets()
    if str(source) in built_in:
        return read_d4rl(built_in[str(source)])
    path = Path(source).expanduser()
    if path.suffix in _SUFFIXES or path.is_file():
        return read_d4rl(path)
    raise TetherError(f"no dataset named {str(source)!r}{did_you_mean(str(source), built_in)} (or give a path to an .hdf5 file)")

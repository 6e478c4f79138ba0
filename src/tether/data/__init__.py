"""Datasets: `load_dataset("hopper_medium-v2.hdf5")`, or by name, of those that come with the package and of D4RL's."""

from __future__ import annotations

from pathlib import Path

from tether.data.dataset import Dataset, LoadNotes
from tether.errors import TetherError

__all__ = ["Dataset", "LoadNotes", "built_in_datasets", "load_dataset"]

_SUFFIXES = (".hdf5", ".h5")


def built_in_datasets() -> dict[str, Path]:
    """The datasets that come with the package, by name: every HDF5 file of its folder `embedded`."""
    folder = Path(__file__).parent / "embedded"
    return {path.stem: path for path in sorted(folder.glob("*.hdf5"))}


def load_dataset(source: str | Path) -> Dataset:
    """Read a built-in dataset or one of D4RL's by its name, or an HDF5 file in the D4RL layout by its path."""
    from tether.data.catalogue import find_known, load_known, nearest
    from tether.data.d4rl import read_d4rl

    name, path = str(source), Path(source).expanduser()
    built_in, known = built_in_datasets(), find_known(name)
    if name in built_in:
        return read_d4rl(built_in[name])
    if known is not None:
        return load_known(known)
    if path.suffix in _SUFFIXES or path.is_file():
        return read_d4rl(path)
    raise TetherError(f"no dataset named {name!r}{nearest(name, built_in)} (or give a path to an .hdf5 file)")

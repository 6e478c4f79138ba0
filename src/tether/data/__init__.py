"""Datasets: `load_dataset("hopper_medium-v2.hdf5")`, `"minari:ID"`, or by name, of those in the package and of D4RL's.

dataset.py                 a log of transitions: columns, episodes, bounds, and where it came from
selected.py                rows of columns that stay on disk
columns.py                 what follows from the episodes, for agents that ask for it
transforms.py              split, subsample, filter, join
rewards.py                 rewards scaled for training, and what that does to the order of episodes
provenance.py, info.py     how a dataset came to be, and what is in it
bounds.py, choices.py      what actions may be
arrays.py                  a dataset from arrays in memory
files/                     HDF5 in the D4RL layout, in memory and on disk
tables/                    CSV, Parquet and NPZ files of a machine
minari/                    Minari's datasets
named/                     D4RL's datasets by name, and downloading them
embedded/                  the dataset that comes with the package
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tether.data.dataset import Dataset, LoadNotes
from tether.errors import TetherError

__all__ = ["Dataset", "LoadNotes", "Located", "built_in_datasets", "load_dataset", "locate"]

OnRows = Callable[[int, int], None]

_SUFFIXES = (".hdf5", ".h5")
_TABLES = (".csv", ".csv.gz", ".parquet", ".npz")


@dataclass
class Located:
    """A dataset that has been found, and is read when it is needed."""

    name: str
    env_id: str | None
    sha256: str
    discrete: bool  # its actions are choices
    read: Callable[[bool | None, OnRows | None], Dataset]
    dataset: Dataset | None = None

    def load(self, on_disk: bool | None = False, on_rows: OnRows | None = None) -> Dataset:
        """Read it, once; see `load_dataset`."""
        if self.dataset is None:
            self.dataset = self.read(on_disk, on_rows)
        return self.dataset


def built_in_datasets() -> dict[str, Path]:
    """The datasets that come with the package, by name: every HDF5 file of its folder `embedded`."""
    folder = Path(__file__).parent / "embedded"
    return {path.stem: path for path in sorted(folder.glob("*.hdf5"))}


def load_dataset(source: str | Path, on_disk: bool | None = False, on_rows: OnRows | None = None) -> Dataset:
    """Read a built-in dataset or one of D4RL's by name, an HDF5 file in the D4RL layout by its path, or Minari's by `minari:ID`.

    `on_disk` leaves the columns of an HDF5 file on disk (see `tether.data.files.mapped`); None: where they do not fit in memory.
    `on_rows(done, total)` is called while they are written out for that.
    """
    return locate(source).load(on_disk, on_rows)


def locate(source: str | Path) -> Located:
    """Find a dataset and what identifies it: of a file, what it declares and its hash, while its columns stay unread."""
    from tether.data.named.catalogue import check_here, find_known, load_known, nearest

    name, path = str(source), Path(source).expanduser()
    if name.startswith("minari:"):
        return _locate_minari(name.removeprefix("minari:"))
    built_in, known = built_in_datasets(), find_known(name)
    if name in built_in:
        return _locate_file(built_in[name])
    if known is not None:
        check_here(known)
        return _locate_file(
            known.path, known.name, lambda on_disk, on_rows: load_known(known, partial(_read, on_disk=on_disk, on_rows=on_rows))
        )
    if name.lower().endswith(_TABLES):
        raise TetherError(
            f"{name} is a table, not a dataset yet; say what its columns are: tether data import {name} --observation NAMES "
            f"--action NAMES --reward NAME --terminated NAME --out {path.name.partition('.')[0]}.hdf5"
        )
    if path.suffix in _SUFFIXES or path.is_file():
        return _locate_file(path)
    raise TetherError(f"no dataset named {name!r}{nearest(name, built_in)} (or give a path to an .hdf5 file)")


def _locate_file(path: Path, name: str | None = None, read: Callable[..., Dataset] | None = None) -> Located:
    from tether.data.files.d4rl import identify

    env_id, sha256, discrete = identify(path, name)
    plainly = lambda on_disk, on_rows: _read(path, name, on_disk, on_rows)  # noqa: E731
    return Located(name or path.stem, env_id, sha256, discrete, read or plainly)


def _locate_minari(dataset_id: str) -> Located:
    """Minari keeps no hash of a dataset, so it is read at once."""
    from tether.data.minari.reading import read_minari

    def read(on_disk: bool | None, on_rows: OnRows | None) -> Dataset:
        if on_disk:
            raise TetherError("a Minari dataset is read into memory; only an HDF5 file can stay on disk")
        return dataset

    dataset = read_minari(dataset_id)
    return Located(dataset.name, dataset.env_id, dataset.sha256, dataset.spec.discrete, read)


def _read(path: Path, name: str | None, on_disk: bool | None, on_rows: OnRows | None) -> Dataset:
    from tether.data.files.d4rl import read_d4rl
    from tether.data.files.mapped import fits_in_memory, map_d4rl

    if on_disk if on_disk is not None else not fits_in_memory(path):
        return map_d4rl(path, on_rows or (lambda done, total: None), name)
    return read_d4rl(path, name)

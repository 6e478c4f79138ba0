"""Datasets: `load_dataset("hopper_medium-v2.hdf5")`, `"minari:ID"`, or by name, of those in the package and of D4RL's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tether.data.dataset import Dataset, LoadNotes
from tether.errors import TetherError

__all__ = ["Dataset", "LoadNotes", "built_in_datasets", "load_dataset"]

OnRows = Callable[[int, int], None]

_SUFFIXES = (".hdf5", ".h5")


def built_in_datasets() -> dict[str, Path]:
    """The datasets that come with the package, by name: every HDF5 file of its folder `embedded`."""
    folder = Path(__file__).parent / "embedded"
    return {path.stem: path for path in sorted(folder.glob("*.hdf5"))}


def load_dataset(source: str | Path, on_disk: bool | None = False, on_rows: OnRows | None = None) -> Dataset:
    """Read a built-in dataset or one of D4RL's by name, an HDF5 file in the D4RL layout by its path, or Minari's by `minari:ID`.

    `on_disk` leaves the columns of an HDF5 file on disk (see `tether.data.files.mapped`); None: where they do not fit in memory.
    `on_rows(done, total)` is called while they are written out for that.
    """
    from tether.data.named.catalogue import find_known, load_known, nearest

    def read_file(path: Path, name: str | None = None) -> Dataset:
        return _read_hdf5(path, name, on_disk, on_rows)

    name, path = str(source), Path(source).expanduser()
    if name.startswith("minari:"):
        from tether.data.minari.reading import read_minari

        if on_disk:
            raise TetherError("a Minari dataset is read into memory; only an HDF5 file can stay on disk")
        return read_minari(name.removeprefix("minari:"))
    built_in, known = built_in_datasets(), find_known(name)
    if name in built_in:
        return read_file(built_in[name])
    if known is not None:
        return load_known(known, read_file)
    if path.suffix in _SUFFIXES or path.is_file():
        return read_file(path)
    raise TetherError(f"no dataset named {name!r}{nearest(name, built_in)} (or give a path to an .hdf5 file)")


def _read_hdf5(path: Path, name: str | None, on_disk: bool | None, on_rows: OnRows | None) -> Dataset:
    from tether.data.files.d4rl import read_d4rl
    from tether.data.files.mapped import fits_in_memory, map_d4rl

    if on_disk if on_disk is not None else not fits_in_memory(path):
        return map_d4rl(path, on_rows or (lambda done, total: None), name)
    return read_d4rl(path, name)

"""What the commands that write datasets share: no file is replaced unasked, progress while it lasts, one line a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tether.data import Dataset


def check_outputs(paths: list[Path], overwrite: bool) -> None:
    """Refuse, before anything is read, to write what is there already or could not be written."""
    from tether.data.files.writing import check_writable
    from tether.errors import TetherError

    if len({path.resolve() for path in paths}) != len(paths):
        raise TetherError(f"{paths[0]} is named twice; every part needs a file of its own")
    for path in paths:
        if path.is_file() and not overwrite:
            raise TetherError(f"{path} is there already; give another name, or --overwrite")
        check_writable(path)


def write_datasets(datasets: dict[Path, Dataset]) -> None:
    """Write all files or none, and say what is in each."""
    from tether.data.files.writing import bytes_of, save_datasets
    from tether.progress import progress

    total, done = sum(bytes_of(dataset) for dataset in datasets.values()), 0
    with progress("writing", round(total / 1e6), "MB", enabled=total > 100e6) as bar:

        def on_bytes(more: int) -> None:
            nonlocal done
            done += more
            bar.update(round(done / 1e6))

        save_datasets(datasets, on_bytes)
    for path, dataset in datasets.items():
        returns = dataset.episode_returns
        rows = f"{dataset.size:,} transitions, {len(returns):,} episodes"
        print(f"{path}: {rows}, return {returns.mean():,.1f} ± {returns.std():,.1f}, {path.stat().st_size / 1e6:.1f} MB")

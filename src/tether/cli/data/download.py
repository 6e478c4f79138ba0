"""`tether data download`: D4RL's files, to where their names are looked up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tether.progress import Bar


def download(name: str, /, url: str | None = None, sha256: str | None = None, overwrite: bool = False) -> None:
    """Fetch one of D4RL's datasets, after which its name is enough: tether train --dataset NAME.

    Names are the paper's 24 tasks with a version, such as hopper-medium-v2 or pen-human-v1 (all: tether data list). Files are
    kept in the folder TETHER_DATA, by default tether/data in the user's cache folder, with their size and sha256 beside them. An
    interrupted download goes on where it stopped when the same command is given again.

    Examples:
        tether data download hopper-medium-v2
        tether data download d4rl/pen-human-v1
        tether data download hopper-medium-v2 --url https://example.org/mirror/hopper_medium-v2.hdf5

    Args:
        name: The dataset.
        url: Another place to get the file from than D4RL's own.
        sha256: What the file must have; another is not kept. D4RL publishes none.
        overwrite: Fetch it again though it is there.
    """
    import sys

    from tether.data.files.d4rl import sha256_of
    from tether.data.named.catalogue import find_known, nearest
    from tether.data.named.download import download as fetch
    from tether.errors import TetherError

    known = find_known(name)
    if known is None:
        raise TetherError(f"D4RL has no dataset {name!r} of the paper's tasks{nearest(name)}")
    if known.path.exists() and not overwrite:
        if sha256 is not None and (found := sha256_of(known.path)) != sha256.lower():
            raise TetherError(
                f"{known.path} is there already, and its sha256 is {found}, not {sha256}; --overwrite fetches it anew"
            )
        print(f"{known.path} is there already; left as it is (--overwrite fetches it anew)")
        return
    try:
        record = fetch(known, lambda total, start: _megabytes(known.name, total, start), url, sha256)
    except KeyboardInterrupt:
        print("what has arrived is kept; the same command goes on from there", file=sys.stderr)
        raise
    print(f"{known.path}: {record['size'] / 1e6:.1f} MB, {record['transitions']:,} transitions, sha256 {record['sha256']}")


@dataclass(frozen=True)
class _InMegabytes:
    bar: Bar

    def update(self, step: int) -> None:
        self.bar.update(round(step / 1e6))


@contextmanager
def _megabytes(title: str, total: int, start: int) -> Iterator[_InMegabytes]:
    from tether.progress import progress

    with progress(title, round(total / 1e6), "MB", start=round(start / 1e6)) as bar:
        yield _InMegabytes(bar)

"""`tether data split`: episodes to train on, and episodes kept apart."""

from __future__ import annotations

from pathlib import Path


def split(source: str, /, train: Path, held_out: Path, share: float = 0.1, seed: int = 0, overwrite: bool = False) -> None:
    """Split a dataset between episodes into two files: one to train on, one held out.

    Episodes are drawn at random until they hold at least the share of the transitions; none is in both files. A dataset of a
    single episode is cut in two by rows.

    Examples:
        tether data split hopper_medium-v2.hdf5 --train train.hdf5 --held-out held-out.hdf5
        tether data split hopper_medium-v2.hdf5 --train train.hdf5 --held-out held-out.hdf5 --share 0.2 --seed 7

    Args:
        source: A dataset: a name (see `tether data list`) or a path to an HDF5 file in the D4RL layout.
        train: The file for the episodes that stay.
        held_out: The file for those that were drawn.
        share: Of the transitions, to hold out.
        seed: Of the draw.
        overwrite: Replace the files if they are there.
    """
    from tether.cli.data.output import check_outputs, write_datasets
    from tether.data import load_dataset
    from tether.data.transforms import check_share, split_episodes

    check_share("--share", share)
    check_outputs([train, held_out], overwrite)
    kept, drawn = split_episodes(load_dataset(source), share, seed)
    write_datasets({train: kept, held_out: drawn})

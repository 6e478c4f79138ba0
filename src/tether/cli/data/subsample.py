"""`tether data subsample`: less of the same."""

from __future__ import annotations

from pathlib import Path


def subsample(
    source: str,
    /,
    out: Path,
    episodes: int | None = None,
    transitions: int | None = None,
    share: float | None = None,
    seed: int = 0,
    overwrite: bool = False,
) -> None:
    """Draw a part of a dataset at random: whole episodes, or single transitions.

    Give one of --episodes, --transitions and --share. What is drawn stays in its order. An episode that loses some of its
    transitions keeps the return it was recorded with.

    Examples:
        tether data subsample hopper_medium-v2.hdf5 --out tenth.hdf5 --share 0.1
        tether data subsample hopper_medium-v2.hdf5 --out ten.hdf5 --episodes 10 --seed 7
        tether data subsample hopper_medium-v2.hdf5 --out sparse.hdf5 --transitions 50000

    Args:
        source: A dataset: a name (see `tether data list`) or a path to an HDF5 file in the D4RL layout.
        out: The file to write.
        episodes: So many whole episodes.
        transitions: So many single transitions, of whatever episodes.
        share: Whole episodes until they hold at least this share of the transitions.
        seed: Of the draw.
        overwrite: Replace the file if it is there.
    """
    from tether.cli.data.output import check_outputs, write_datasets
    from tether.data import load_dataset, transforms
    from tether.errors import TetherError

    if [episodes, transitions, share].count(None) != 2:
        raise TetherError("say how much to draw with one of --episodes, --transitions and --share")
    if share is not None:
        transforms.check_share("--share", share)
    check_outputs([out], overwrite)
    dataset = load_dataset(source)
    write_datasets({out: transforms.subsample(dataset, episodes=episodes, transitions=transitions, share=share, seed=seed)})

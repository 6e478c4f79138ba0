"""`tether data filter`: the episodes that did well, or badly."""

from __future__ import annotations

from pathlib import Path


def filter_episodes(
    source: str,
    /,
    out: Path,
    min_return: float | None = None,
    max_return: float | None = None,
    best_share: float | None = None,
    overwrite: bool = False,
) -> None:
    """Keep the episodes of a dataset whose return is within limits, or the best of them.

    Returns are those `tether data info` shows: of the episode as recorded, unscaled.

    Examples:
        tether data filter hopper_medium-v2.hdf5 --out good.hdf5 --min-return 1500
        tether data filter hopper_medium-v2.hdf5 --out best.hdf5 --best-share 0.1

    Args:
        source: A dataset: a name (see `tether data list`) or a path to an HDF5 file in the D4RL layout.
        out: The file to write.
        min_return: The lowest return to keep.
        max_return: The highest return to keep.
        best_share: Of the episodes within the limits, the share with the highest returns; at least one.
        overwrite: Replace the file if it is there.
    """
    from tether.cli.data.output import check_outputs, write_datasets
    from tether.data import load_dataset
    from tether.data.transforms import check_share, filter_by_return
    from tether.errors import TetherError

    if min_return is None and max_return is None and best_share is None:
        raise TetherError("say what to keep with --min-return, --max-return or --best-share")
    if best_share is not None:
        check_share("--best-share", best_share)
    check_outputs([out], overwrite)
    write_datasets({out: filter_by_return(load_dataset(source), minimum=min_return, maximum=max_return, best_share=best_share)})

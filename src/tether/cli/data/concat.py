"""`tether data concat`: several datasets as one."""

from __future__ import annotations

from pathlib import Path


def concat(sources: tuple[str, ...], /, out: Path, env_id: str | None = None, overwrite: bool = False) -> None:
    """Join datasets of one environment into one file, in the given order.

    Where their action bounds differ, the environment's are taken; without a known environment, the widest.

    Examples:
        tether data concat medium.hdf5 expert.hdf5 --out medium-expert.hdf5
        tether data concat hopper_medium-v2.hdf5 mine.hdf5 --out both.hdf5 --env-id Hopper-v4

    Args:
        sources: Two datasets or more: names (see `tether data list`) or paths to HDF5 files in the D4RL layout.
        out: The file to write.
        env_id: The environment of the whole, where the datasets name different ones, or none.
        overwrite: Replace the file if it is there.
    """
    from tether.cli.data.output import check_outputs, write_datasets
    from tether.data import load_dataset
    from tether.data.transforms import concatenate

    check_outputs([out], overwrite)
    joined = concatenate([load_dataset(source) for source in sources], env_id)
    if clipped := joined.notes.action_entries_clipped:
        low, high = joined.spec.action_low, joined.spec.action_high
        print(f"{clipped:,} of {joined.transitions.action.size:,} action entries were outside {low} to {high} and are clipped")
    write_datasets({out: joined})

"""`tether data export`: a dataset in another library's format."""

from __future__ import annotations

from typing import Literal


def export(source: str, /, to: Literal["minari"], id: str, author: str | None = None, description: str | None = None) -> None:
    """Write a dataset in another library's format; read back, it gives the same transitions.

    Minari keeps it in its own folder (MINARI_DATASETS_PATH, default ~/.minari/datasets) and loads it by its id.

    Examples:
        tether data export halfcheetah-mixed-tether --to minari --id mine/halfcheetah/mixed-v0
        tether data export log.hdf5 --to minari --id plant/reactor-v0 --author "Ada Lovelace"

    Args:
        source: The name of a built-in dataset, a path to an HDF5 file in the D4RL layout, or minari:ID.
        to: The format: minari.
        id: What Minari shall call it: namespace/name-vN.
        author: Kept in Minari's metadata.
        description: Kept in Minari's metadata. Default: the dataset's name and hash.
    """
    from tether.data import load_dataset
    from tether.data.minari.exporting import export_minari

    dataset = load_dataset(source)
    made = export_minari(dataset, id, author, description)
    print(f"wrote {dataset.size:,} transitions in {made.episodes:,} episodes to {made.path}")
    if made.pieces:
        print(f"{made.pieces:,} of them begin where a row does not go on from the one before; Minari's episodes have no breaks")
    if dataset.env_id is not None and made.env_id is None:
        print(f"environment {dataset.env_id} cannot be made here, so Minari was given none")
    print(f"load it with minari.load_dataset({id!r}), or with --dataset minari:{id}")

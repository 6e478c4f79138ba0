"""`tether data minari`: what Minari has, here and on its server."""

from __future__ import annotations


def minari(remote: bool = False, prefix: str = "", download: str | None = None) -> None:
    """List Minari's datasets on this machine or on its server, or download one.

    A downloaded dataset is used as --dataset minari:ID. Minari's own library does the work and keeps the data in its own folder
    (MINARI_DATASETS_PATH, default ~/.minari/datasets). Needs pip install 'tether-rl[minari]'.

    Examples:
        tether data minari
        tether data minari --remote --prefix mujoco/
        tether data minari --download mujoco/hopper/medium-v0
        tether train --dataset minari:mujoco/hopper/medium-v0

    Args:
        remote: List what can be downloaded, in place of what is here.
        prefix: List only ids that begin so.
        download: The id of a dataset to fetch.
    """
    from tether.data.minari import reading as datasets

    if download is not None:
        dataset_id = download.removeprefix(datasets.PREFIX)
        datasets.download(dataset_id)
        print(f"use it with --dataset {datasets.PREFIX}{dataset_id}")
        return
    found = {id: about for id, about in datasets.list_datasets(remote).items() if id.startswith(prefix)}
    if not found:
        print(f"no Minari dataset {'on the server' if remote else 'on this machine'}{f' begins with {prefix}' if prefix else ''}")
        if not remote:
            print("see what there is with: tether data minari --remote")
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("id", "environment", title="Minari datasets" + (" to download" if remote else ""), title_justify="left")
    for column in ("steps", "episodes"):
        table.add_column(column, justify="right")
    for dataset_id, about in found.items():
        counts = (f"{about.get(name, 0):,}" for name in ("total_steps", "total_episodes"))
        table.add_row(escape(dataset_id), escape(datasets.environment_of(about) or "-"), *counts)
    Console().print(table)

"""`tether data list`: what datasets there are."""

from __future__ import annotations


def list_datasets() -> None:
    """List the datasets that come with the package.

    Examples:
        tether data list
    """
    from tether.data import built_in_datasets, load_dataset

    built_in = built_in_datasets()
    if not built_in:
        print("no built-in datasets; give a path to an .hdf5 file in the D4RL layout instead of a name")
        return
    from rich.console import Console
    from rich.table import Table

    table = Table()
    table.add_column("name", no_wrap=True)
    for column in ("environment", "transitions", "episodes", "mean return"):
        table.add_column(column)
    for name in built_in:
        dataset = load_dataset(name)
        mean_return = f"{dataset.episode_returns.mean():.1f}"
        table.add_row(name, dataset.env_id or "-", f"{dataset.size:,}", f"{len(dataset.episode_ends):,}", mean_return)
    Console().print(table)

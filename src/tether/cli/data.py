"""`tether data`: what datasets there are and what is in them."""

from __future__ import annotations

from typing import Any


def info(source: str, /, json: bool = False) -> None:
    """Say what is in a dataset: size, episodes, returns, bounds, and what reading it changed.

    Examples:
        tether data info hopper_medium-v2.hdf5
        tether data info hopper_medium-v2.hdf5 --json

    Args:
        source: The name of a built-in dataset (see `tether data list`) or a path to an HDF5 file in the D4RL layout.
        json: Print one JSON object instead of a table.
    """
    from tether.data import load_dataset
    from tether.data.info import describe

    facts = describe(load_dataset(source))
    if json:
        from json import dumps

        print(dumps(facts, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title=facts["name"], title_justify="left", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")  # a hash cut short is no use
    for label, value in _rows(facts):
        table.add_row(label, value)
    Console().print(table)


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


def _rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Label and text of each line of the table."""
    notes, score, reward = facts["notes"], facts["normalised_score"], facts["reward"]
    return [
        ("environment", facts["env_id"] or "unknown"),
        ("transitions", f"{facts['transitions']:,}"),
        ("episodes", f"{facts['episodes']:,} (ends {notes['episode_ends']})"),
        ("episode length", _spread(facts["episode_length"], digits=0)),
        ("episode return", _spread(facts["episode_return"], digits=1)),
        ("normalised score", f"{score['mean']:.1f} ± {score['std']:.1f}" if score else "no reference returns known"),
        ("observation", f"{facts['observation_size']} numbers{_image(facts)}"),
        ("action", _action(facts)),
        ("reward", f"{reward['min']:.4g} to {reward['max']:.4g}" + (" (constant: nothing to learn)" * reward["constant"])),
        ("terminated", f"{facts['terminated_share']:.3%} of transitions"),
        ("time limit", f"{facts['truncated_share']:.3%} of transitions"),
        ("successors", notes["successors"] + (" from the next row" if notes["successors"] == "shifted" else "")),
        ("rows dropped", f"{notes['rows_dropped']:,} of {notes['rows_read']:,} (no known successor)"),
        ("actions clipped", f"{notes['action_entries_clipped']:,} entries"),
        ("sha256", facts["sha256"]),
    ]


def _image(facts: dict[str, Any]) -> str:
    return f" (an image of {' x '.join(map(str, facts['observation_shape']))})" if facts["observation_shape"] else ""


def _action(facts: dict[str, Any]) -> str:
    if facts["discrete"]:
        return f"one of {facts['action_size']} choices"
    return f"{facts['action_size']} numbers {_bounds(facts)} (bounds {_BOUNDS_FROM[facts['notes']['action_bounds']]})"


_BOUNDS_FROM = {
    "environment": "of the environment",
    "assumed": "assumed, no environment known",
    "measured": "measured from the recorded actions",
}


def _spread(values: dict[str, float], digits: int) -> str:
    inner = " | ".join(f"{values[key]:,.{digits}f}" for key in ("min", "first_quartile", "median", "third_quartile", "max"))
    return f"{values['mean']:,.1f} ± {values['std']:,.1f}\nmin, quartiles, max: {inner}"


def _bounds(facts: dict[str, Any]) -> str:
    """`in [-1, 1]` where all dimensions agree, else the widest range."""
    low, high = facts["action_low"], facts["action_high"]
    same = len(set(low)) == len(set(high)) == 1
    return f"in [{min(low):.4g}, {max(high):.4g}]" + ("" if same else ", each its own")

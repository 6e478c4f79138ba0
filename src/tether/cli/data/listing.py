"""`tether data list`: what datasets there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


_TASKS_TITLE = "their tasks: steps of an episode, returns that score 0 and 100, bonus weights (actor, critic)"


def list_datasets() -> None:
    """List the datasets that have a name: the package's own, and D4RL's with what is known of their tasks.

    Examples:
        tether data list
    """
    from rich.console import Console

    from tether.data.named.catalogue import data_folder

    console = Console()
    for table in (_built_in(), _d4rl(), _tasks()):
        console.print(table)
    print(f"tether data download NAME, such as hopper-medium-v2, fetches a dataset of D4RL's to {data_folder()}.")
    print("Any other dataset is given by the path of an HDF5 file in the D4RL layout.")


def _built_in() -> Table:
    from tether.data import built_in_datasets, load_dataset

    table = _table("built-in datasets", "name", "environment", "rows", "episodes", "mean return")
    for name in built_in_datasets():
        dataset = load_dataset(name)
        mean_return = f"{dataset.episode_returns.mean():.1f}"
        table.add_row(name, dataset.env_id or "-", f"{dataset.size:,}", f"{len(dataset.episode_ends):,}", mean_return)
    return table


def _d4rl() -> Table:
    from tether.data.named.catalogue import VERSIONS, known_datasets

    table = _table("D4RL's datasets of the paper's 24 tasks", "name, with -VERSION", "versions", "on this machine")
    downloaded: dict[tuple[str, str], list[str]] = {}  # versions by name and task
    for known in known_datasets().values():
        versions = downloaded.setdefault((f"{known.task.name}-{known.level}", known.task.group), [])
        if known.path.exists():
            versions.append(known.version)
    for (name, group), versions in downloaded.items():
        table.add_row(name, " ".join(VERSIONS[group]), " ".join(versions))
    return table


def _tasks() -> Table:
    from tether.environments.tasks import TASKS
    from tether.presets import rules_for

    table = _table(_TASKS_TITLE, "task", "environment", "steps", "at 0", "at 100", "weights")
    for task in TASKS.values():
        rules = (rule for rule in rules_for("paper", "td3", "cvae", task) if rule.group == task.group)  # what the task decides
        weights = ", ".join(f"{weight:g}" for rule in rules for weight in rule.settings.values())
        table.add_row(task.name, task.env_ids[0], str(task.horizon), f"{task.score_0:.1f}", f"{task.score_100:.1f}", weights)
    return table


def _table(title: str, *columns: str) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, no_wrap=number < 2)  # names are for copying
    return table

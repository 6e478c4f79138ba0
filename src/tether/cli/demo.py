"""`tether demo`: the main job on the embedded dataset, beside its two baselines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tether.config import RunConfig
    from tether.data.dataset import Dataset
    from tether.report.tables import Row

DATASET = "halfcheetah-mixed-tether"
# Shorter than the defaults, so that it ends in minutes: a third of the fit and a quarter of the training, for fewer rows.
LENGTH = {"training.steps": 15_000, "training.evaluate_every": 3_000}
SHORT = {"bonus.steps": 20_000, "agent.warm_up_steps": 6_000}
NO_LIMIT = {"training.value_limit": float("inf")}  # that it explodes is what is to be seen


class Method(NamedTuple):
    agent: str
    bonus: str
    settings: dict[str, Any]


OURS = "Tethered"
METHODS = {
    "Cloning": Method("bc", "none", {}),
    "TD3, no bonus": Method("td3", "none", NO_LIMIT),
    OURS: Method("tethered", "density", SHORT),
}


def demo(out: Path = Path("demo")) -> None:
    """Train the default agent, TD3 without a bonus and cloning on a log of three policies, and compare.

    Writes a run folder for each, curves.png and bonus.png. Interrupted, it goes on where it stopped when called again.

    Examples:
        tether demo
        tether demo --out somewhere

    Args:
        out: The folder to write to.
    """
    from rich.console import Console

    from tether.data import load_dataset
    from tether.report.curves import draw_curves
    from tether.report.tables import rich_table, run_row
    from tether.runs.reading import read_run
    from tether.training.run import run

    dataset = load_dataset(DATASET)
    configs = {label: _config(method, dataset.env_id) for label, method in METHODS.items()}
    folders = {label: out / f"{method.agent}-{method.bonus}" for label, method in METHODS.items()}
    for label, config in configs.items():
        run(config, folders[label])

    runs = {label: read_run(folder) for label, folder in folders.items()}
    draw_curves(list(runs.values()), out / "curves.png", labels=list(runs))
    _draw_bonus(configs[OURS], dataset, out / "bonus.png")
    rows = [*_rows_of_the_log(dataset), *(run_row(label, run) for label, run in runs.items())]
    steps = configs[OURS].training.steps
    title = f"{DATASET}: normalised score, mean ± std over episodes; one seed, {steps:,} steps"
    Console().print(rich_table(rows, title=title, heading="policy"))
    print(
        f"{out}/curves.png: score, bonus and Q over training; {out}/bonus.png: what the bonus makes of known and unknown actions"
    )


def _config(method: Method, env_id: str | None) -> RunConfig:
    from tether.config import make_config

    preset = "tether" if method.agent == "tethered" else "paper"
    return make_config(DATASET, env_id, method.agent, method.bonus, preset, overrides=LENGTH | method.settings)


def _rows_of_the_log(dataset: Dataset) -> list[Row]:
    """What was recorded: all of it, and the third of the episodes with the highest returns."""
    import numpy as np

    from tether.environments.tasks import find_task
    from tether.report.tables import Row, Score

    task = find_task(dataset.env_id)
    returns = dataset.episode_returns
    scores = np.sort(returns if task is None else task.normalised_score(returns))
    parts = {"the log": scores, "its best third": scores[-(len(scores) // 3) :]}
    return [Row(label, {"last": Score(float(part.mean()), float(part.std()))}) for label, part in parts.items()]


def _draw_bonus(config: RunConfig, dataset: Dataset, path: Path) -> None:
    from tether.data.transforms import split_episodes
    from tether.evaluation.discrimination import bonus_by_kind
    from tether.report.histograms import draw_bonus_histograms
    from tether.training.fit import cache_folder, fit_bonus

    fitted = fit_bonus(config.bonus, dataset, cache_folder())
    _, held_out = split_episodes(dataset, config.bonus.held_out_share, config.bonus.seed)
    found = bonus_by_kind(fitted.novelty, held_out)
    shown = {kind: values for kind, values in found.items() if kind not in ("noise 0.05", "noise 1")}
    draw_bonus_histograms(shown, path, f"Density bonus on held-out episodes of {dataset.name}")

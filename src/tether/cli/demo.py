"""`tether demo`: the main job on the embedded dataset, beside its two baselines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tether.config import RunConfig

DATASET = "halfcheetah-medium-tether"
# A CVAE a third as wide and a shorter training, so that it ends in minutes; the bonus keeps the whole of its fit.
SETTINGS = {"bonus.hidden_sizes": (256, 256), "training.steps": 15_000, "training.evaluate_every": 3_000}
METHODS = {"BC": ("bc", "none"), "TD3, no bonus": ("td3", "none"), "TD3-CVAE": ("td3", "cvae")}


def demo(out: Path = Path("demo")) -> None:
    """Train TD3-CVAE, TD3 without bonus and behaviour cloning on the embedded dataset, and compare them.

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
    from tether.report.tables import Row, Score, rich_table, run_row
    from tether.runs.reading import read_run
    from tether.training.run import run

    dataset = load_dataset(DATASET)
    configs = {label: _config(agent, bonus, dataset.env_id) for label, (agent, bonus) in METHODS.items()}
    folders = {label: out / "-".join(dict.fromkeys(METHODS[label])) for label in METHODS}
    results = {label: run(config, folders[label]) for label, config in configs.items()}

    runs = {label: read_run(folder) for label, folder in folders.items()}
    draw_curves(list(runs.values()), out / "curves.png", labels=list(runs))
    _draw_bonus(configs["TD3-CVAE"], dataset, out / "bonus.png")
    own = next(iter(results.values()))["dataset"]["score"]
    rows = [Row("the dataset", {"last": Score(own["mean"], own["std"])}), *(run_row(label, run) for label, run in runs.items())]
    steps = configs["TD3-CVAE"].training.steps
    title = f"{DATASET}: normalised score, mean ± std over episodes; one seed, {steps:,} steps"
    Console().print(rich_table(rows, title=title, heading="policy"))
    print(
        f"{out}/curves.png: score, bonus and Q over training; {out}/bonus.png: what the bonus makes of known and unknown actions"
    )


def _config(agent: str, bonus: str, env_id: str | None) -> RunConfig:
    from tether.config import make_config

    settings: dict[str, Any] = {
        name: value for name, value in SETTINGS.items() if bonus != "none" or not name.startswith("bonus.")
    }
    if bonus == "none":
        settings["training.value_limit"] = float("inf")  # that it explodes is what is to be seen
    return make_config(DATASET, env_id, agent, bonus, "paper", overrides=settings)


def _draw_bonus(config: RunConfig, dataset: Any, path: Path) -> None:
    from tether.data.transforms import split_episodes
    from tether.evaluation.discrimination import bonus_by_kind
    from tether.report.histograms import draw_bonus_histograms
    from tether.training.fit import cache_folder, fit_bonus

    fitted = fit_bonus(config.bonus, dataset, cache_folder())
    _, held_out = split_episodes(dataset, config.bonus.held_out_share, config.bonus.seed)
    found = bonus_by_kind(fitted.novelty, held_out)
    shown = {kind: values for kind, values in found.items() if kind not in ("noise 0.05", "noise 1")}
    draw_bonus_histograms(shown, path, f"CVAE bonus on held-out episodes of {dataset.name}")

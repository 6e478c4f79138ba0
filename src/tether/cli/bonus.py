"""`tether bonus`: which bonus can tell a known action from an unknown one, and lead an actor back to the known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tether.data import Dataset

TABLE_KINDS = ("shuffled", "uniform", "other", "noise 0.25", "noise 0.5")  # those of them that there are, in 80 columns
FIGURE_KINDS = ("data", *TABLE_KINDS, "noise 1")


def bonus(
    dataset: str, /, bonuses: str | None = None, out: Path = Path("bonus-lab"), seed: int = 0, probe_steps: int = 10_000
) -> None:
    """Fit bonuses to a dataset and compare what they make of known and unknown actions.

    Each is fitted (once: fits are cached) and judged on observations of held-out episodes with the recorded action, a shuffled
    one, a uniform one, and the recorded one with noise. Then an actor follows the bonus alone: its distance from recorded actions
    is compared with that of behaviour cloning (share 0) and of chance (share 1). Discrete actions are compared with shuffled and
    uniform ones and with any other than the recorded; the probe then takes the choice with the lowest bonus.

    Bonuses have scales of their own. The column "weight" tells what to multiply the weights of the first bonus by for each of the
    others, so that a uniform action costs as much more than a recorded one: the paper's weights are for its CVAE.

    Writes bonus.json, histograms.png and slices.png. Interrupted, the same command goes on where it stopped.

    Examples:
        tether bonus halfcheetah-mixed-tether
        tether bonus hopper_medium-v2.hdf5 --bonuses cvae,rnd,rnd-film --out lab/hopper
        tether bonus hopper_medium-v2.hdf5 --bonuses cvae,cvae:elbo=sum,cvae:hidden_sizes=256x256
        tether bonus cartpole.hdf5 --bonuses rnd,count,count-exact

    Args:
        dataset: A dataset: a name (see `tether data list`), a path to an HDF5 file in the D4RL layout, or minari:ID.
        bonuses: Names with commas between; settings of a bonus follow its name after colons, sizes as 256x256. Default: all, but
            count-exact only where actions are discrete.
        out: The folder to write to.
        seed: Of the fits, the held-out episodes, the unknown actions and the probe.
        probe_steps: Gradient steps of the actor that follows the bonus alone, and of cloning beside it.
    """
    from rich.console import Console

    from tether import storage
    from tether.data import load_dataset
    from tether.errors import TetherError
    from tether.experiments.bonus_lab import parse_entries, run_lab, usual_entries, weight_ratios
    from tether.report.histograms import draw_histogram_panels
    from tether.report.slices import draw_slices
    from tether.runs.result import versions

    if probe_steps < 1:
        raise TetherError(f"--probe-steps is {probe_steps}; it must be at least 1")
    entries = None if bonuses is None else parse_entries(bonuses, seed)
    loaded = load_dataset(dataset)
    entries = entries or parse_entries(usual_entries(loaded.spec), seed)
    with storage.exclusive(out):
        findings = run_lab(entries, loaded, out, probe_steps, seed, print)
        shown = {f.label: {kind: f.bonuses[kind] for kind in FIGURE_KINDS if kind in f.bonuses} for f in findings}
        draw_histogram_panels(shown, out / "histograms.png", f"bonus of held-out pairs of {loaded.name}")
        where = "of every choice at observations" if loaded.spec.discrete else "around a recorded action"
        draw_slices({f.label: f.slice for f in findings}, out / "slices.png", f"bonus {where} of {loaded.name}", _names(loaded))
        report = {
            "dataset": {"name": loaded.name, "sha256": loaded.sha256, "transitions": loaded.size},
            "seed": seed,
            "probe_steps": probe_steps,
            "bonuses": [
                finding.record | {"weight_ratio": ratio} for finding, ratio in zip(findings, weight_ratios(findings), strict=True)
            ],
            "versions": versions(),
        }
        storage.write_json(out / "bonus.json", report)
    Console().print(_table(report))
    print(f"{out}/histograms.png, {out}/slices.png, {out}/bonus.json (quantiles, false positives at 95 % recall, rates)")


def _names(dataset: Dataset) -> list[str]:
    """Of the actions with their units, or of the choices, as the user's table has them."""
    from tether.data.provenance import imported_columns

    columns = imported_columns(dataset.provenance) or {}
    if dataset.spec.discrete:
        return [str(name) for name in columns.get("choices", ())]
    units = columns.get("units", {})
    return [
        f"{name} [{units[name]}]" if units.get(name, "") not in ("", "1") and units[name] not in name else name
        for name in columns.get("action", ())
    ]


def _table(report: dict[str, Any]) -> Any:
    from rich.table import Table

    title = f"{report['dataset']['name']}: AUROC; the probe's distance (0 as cloning, 1 as chance)"
    table = Table(title=title, title_justify="left")
    table.add_column("bonus", overflow="fold", min_width=10)
    shown = [kind for kind in TABLE_KINDS if kind in report["bonuses"][0]["kinds"]]
    for column in (*(kind.replace("noise ", "± ") for kind in shown), "probe", "weight", "fit s"):
        table.add_column(column, justify="right", no_wrap=True)
    for record in report["bonuses"]:
        aurocs = (f"{record['kinds'][kind]['auroc']:.3f}" for kind in shown)
        probe = f"{record['probe']['share']:.2f}" if record["probe"] else "-"
        weight = f"{record['weight_ratio']:.3g}" if record["weight_ratio"] else "-"
        table.add_row(record["bonus"], *aurocs, probe, weight, f"{record['fit_seconds']:.0f}")
    return table

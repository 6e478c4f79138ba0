"""One page about an imported log, before anything is trained on it: numbers as Markdown, and one figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tether.data.dataset import Dataset
from tether.data.info import DISCOUNT, describe
from tether.data.rewards import normalise_rewards, order_kept, scaling_warning
from tether.data.tables.dates import spell_span
from tether.data.tables.importing import ColumnFacts, Imported
from tether.environments.tasks import find_task
from tether.report.figures import COLOURS, GREY, save_figure, style
from tether.report.log_choices import choice_lines, choice_remarks, draw_choices
from tether.report.tables import markdown_lines
from tether.storage import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BINS = 20  # of an action's range
SEEN = 0.001  # a bin with this share of the rows counts as seen
MOST_ROWS = 100_000  # that are drawn
NEIGHBOURS = 20_000  # rows among which the nearest is looked for
MOST_ACTIONS = 24  # that the figure shows
WIDE = 1e3  # ratio of the largest to the smallest spread of observations that is worth a warning


def write_log_page(imported: Imported, dataset: Dataset, page: Path, figure: Path) -> list[str]:
    """Write both, and return the lines that deserve a user's attention."""
    coverage = [] if imported.choices else action_coverage(dataset)
    remarks = find_remarks(imported, dataset, coverage)
    save_figure(log_figure(dataset, action_names(imported), imported.choices), figure)
    with replacing(page) as temporary:
        temporary.write_text(_markdown(imported, dataset, coverage, remarks, figure.name), encoding="utf-8")
    return remarks


def action_names(imported: Imported) -> list[str]:
    return [spell_column(fact) for fact in imported.columns if fact.role == "action"]


def spell_column(fact: ColumnFacts) -> str:
    """With its unit, unless the name already says it."""
    return fact.name if fact.unit is None or fact.unit in fact.name else f"{fact.name} [{fact.unit}]"


def action_coverage(dataset: Dataset) -> list[dict[str, float]]:
    """For each action: the share of its range that was tried, and that of its variance which observations do not explain."""
    shares = action_histogram(dataset)
    left, variance = unexplained_variance(dataset)
    unexplained = np.divide(left, variance, out=np.zeros_like(variance), where=variance > 0)
    return [
        {"range_seen": float((share >= SEEN).mean()), "unexplained": float(rest)}
        for share, rest in zip(shares, unexplained, strict=True)
    ]


def unexplained_variance(dataset: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """(A,) of each action, the variance that the observations do not explain, and all of it.

    The first is what a linear fit leaves or, if less, what two rows of nearly the same observation differ by; both are too
    large rather than too small. A log of a controller without noise has next to none: it never shows what else could be done.
    """
    rows = _sample(dataset.size, NEIGHBOURS)
    observation = _scaled(np.asarray(dataset.transitions.observation)[rows])
    action = np.asarray(dataset.transitions.action)[rows].astype(np.float64)
    left = np.minimum(_left_by_a_line(observation, action), _left_by_neighbours(observation, action))
    return left, action.var(axis=0)


def _left_by_a_line(observation: np.ndarray, action: np.ndarray) -> np.ndarray:
    """(A,) variance around a linear fit."""
    inputs = np.column_stack([observation, np.ones(len(observation))])
    return (action - inputs @ np.linalg.lstsq(inputs, action, rcond=None)[0]).var(axis=0)


def _left_by_neighbours(observation: np.ndarray, action: np.ndarray) -> np.ndarray:
    """(A,) half the mean squared difference from the row nearest in observation: the variance, were it at the same place."""
    from scipy.spatial import KDTree

    if len(observation) < 2:
        return np.zeros(action.shape[1])
    _, nearest = KDTree(observation).query(observation, k=2)
    rows = np.arange(len(observation))
    other = np.where(nearest[:, 0] == rows, nearest[:, 1], nearest[:, 0])  # equal observations come in any order
    return 0.5 * np.mean(np.square(action - action[other]), axis=0)


def action_histogram(dataset: Dataset) -> np.ndarray:
    """(A, BINS): the share of rows in each part of each action's range."""
    low, high = np.asarray(dataset.spec.action_low), np.asarray(dataset.spec.action_high)
    placed = (np.asarray(dataset.transitions.action) - low) / (high - low) * BINS
    bins = np.clip(placed.astype(np.int64), 0, BINS - 1)
    return np.stack([np.bincount(column, minlength=BINS) for column in bins.T]) / dataset.size


def find_remarks(imported: Imported, dataset: Dataset, coverage: list[dict[str, float]]) -> list[str]:
    """What a careful reader would stop at."""
    found, remarks = imported.findings, []

    def remark(count: int, text: str) -> None:
        if count:
            remarks.append(text)

    whole = ", and each piece keeps the return of its whole episode" if imported.returns is not None else ""
    remark(found.incomplete_dropped, f"{found.incomplete_dropped:,} incomplete rows dropped; their episodes are cut there{whole}")
    remark(found.duplicates_dropped, f"{found.duplicates_dropped:,} rows repeat another of their time, value for value; dropped")
    remark(
        found.conflicts_dropped, f"{found.conflicts_dropped:,} rows have the time of another but other values; dropped as asked"
    )
    remark(found.repeats, f"{found.repeats:,} rows equal the one before; without --time it cannot be told whether they are one")
    remark(found.reordered, f"{found.reordered:,} rows were not in the order of their time; sorted")
    cut = f"; {found.gaps_cut:,} episodes cut there" if found.gaps_cut else "; bridged as one step, unless --max-gap cuts them"
    if found.gaps and found.longest_gap is not None and found.median_step is not None:
        longest, usual = (spell_span(span, found.time_kind) for span in (found.longest_gap, found.median_step))
        times = f"the longest {longest}, before {found.longest_gap_at}; a usual step is {usual}"
        remarks.append(f"{found.gaps:,} gaps in time ({times}){cut}")
    remark(found.after_end, f"{found.after_end:,} rows come after a terminated row of their own episode; taken for new episodes")
    remark(found.lone, f"{found.lone:,} episodes of a single row that did not terminate; they give no transition")
    clipped = dataset.notes.action_entries_clipped
    remark(clipped, f"{clipped:,} action entries lie outside the bounds; clipped to them")
    for fact in imported.columns:
        remark(fact.low == fact.high, f"{fact.role} {fact.name} is always {fact.low:g}")
    spreads = [fact.std for fact in imported.columns if fact.role == "observation" and fact.std > 0]
    if spreads and max(spreads) > WIDE * min(spreads):
        remarks.append(
            f"the spreads of the observations differ by a factor of {max(spreads) / min(spreads):,.0f}, and networks see "
            "them as they are unless told to scale them: td3 does so by the default preset, others (and --preset paper) by "
            "--set agent.normalise_observations=true"
        )
    if imported.choices:
        left, variance = unexplained_variance(dataset)
        return [*remarks, *choice_remarks(dataset, imported.choices, float(left.sum() / max(variance.sum(), 1e-12)))]
    _, shifted = normalise_rewards(dataset, "range")  # what presets have on the paper's tasks; choices are never shifted
    reversing = scaling_warning(dataset, shifted, order_kept(dataset, shifted, DISCOUNT), "training.reward_scaling")
    if reversing and find_task(dataset.env_id) and not shifted.is_constant:  # a reward that is always the same is said above
        remarks.append(reversing)
    names = action_names(imported)
    flat = [name for name, fact in zip(names, coverage, strict=True) if fact["unexplained"] < 0.01]
    remark(
        len(flat), f"{', '.join(flat)}: all but determined by the observations, so the log shows nothing else that could be done"
    )
    return remarks


def log_figure(dataset: Dataset, names: list[str], choices: tuple[str, ...] = ()) -> Figure:
    """Returns, episode lengths, what was done, and where it was done. `names` are those of the action columns."""
    from matplotlib.figure import Figure

    lengths = dataset.episode_ends - dataset.episode_starts
    with style():
        figure = Figure(
            figsize=(12.0, 8.0 + 0.18 * max(0, min(max(len(names), len(choices)), MOST_ACTIONS) - 8)), layout="constrained"
        )
        (returns, durations), (actions, coverage) = figure.subplots(2, 2)
        _histogram(returns, dataset.episode_returns, "episode return", COLOURS[0])
        _histogram(durations, lengths, "episode length (transitions)", COLOURS[2])
        durations.xaxis.get_major_locator().set_params(integer=True)
        if choices:
            draw_choices(actions, dataset, choices)
        else:
            _draw_actions(figure, actions, dataset, names)
        _draw_coverage(figure, coverage, dataset)
        figure.suptitle(f"{dataset.name}: {dataset.size:,} transitions, {len(lengths):,} episodes")
    return figure


def _histogram(axes: Axes, values: np.ndarray, label: str, colour: str) -> None:
    axes.hist(values, bins=min(40, max(8, round(np.sqrt(len(values))))), color=colour, alpha=0.8)
    middle = float(np.median(values))
    axes.axvline(middle, color=GREY, linestyle="--", linewidth=1.5, label=f"median {middle:,.4g}")
    axes.set_xlabel(label)
    axes.set_ylabel("episodes")
    axes.legend()


def _draw_actions(figure: Figure, axes: Axes, dataset: Dataset, names: list[str]) -> None:
    """How often each part of each action's range was chosen: outlines for a few actions, a row of shades each for many."""
    shares = action_histogram(dataset)[:MOST_ACTIONS]
    bounds = zip(names, dataset.spec.action_low, dataset.spec.action_high, strict=False)
    labels = [f"{_shortened(name)}, {low:.3g} to {high:.3g}" for name, low, high in bounds][: len(shares)]
    hidden = len(names) - len(shares)
    axes.set_title("what was done" + (f" ({hidden} more actions not shown)" if hidden > 0 else ""))
    if len(shares) <= len(COLOURS):
        for share, label, colour in zip(shares, labels, COLOURS, strict=False):
            axes.stairs(share, np.linspace(0.0, 1.0, BINS + 1), color=colour, label=label, linewidth=2.0, fill=len(shares) == 1)
        axes.set_ylim(0.0, 1.35 * shares.max())  # room for the legend
        axes.set_ylabel("share of rows")
        axes.legend(loc="upper center", ncols=2 if len(shares) > 3 else 1)
    else:
        image = axes.imshow(shares, aspect="auto", cmap="Blues", vmin=0.0, extent=(0.0, 1.0, len(shares) - 0.5, -0.5))
        axes.set_yticks(range(len(labels)), labels, fontsize=9)
        axes.grid(visible=False)
        figure.colorbar(image, ax=axes, label="share of rows")
    axes.set_xticks([0.0, 0.5, 1.0], ["lowest", "middle", "highest"])
    axes.set_xlabel("part of the action's range")


def _draw_coverage(figure: Figure, axes: Axes, dataset: Dataset) -> None:
    """Rows by the two directions in which the scaled observations vary most."""
    rows = _sample(dataset.size, MOST_ROWS)
    scaled = _scaled(np.asarray(dataset.transitions.observation)[rows])
    _, sizes, directions = np.linalg.svd(scaled, full_matrices=False)
    places = scaled @ directions[:2].T
    if places.shape[1] == 1:
        places = np.column_stack([places, np.asarray(dataset.transitions.action)[rows, :1]])
    drawn = axes.hexbin(places[:, 0], places[:, 1], gridsize=45, bins="log", mincnt=1, cmap="viridis", linewidths=0.1)
    total = float(np.sum(sizes**2))
    axes.set_title(
        f"where it was done ({np.sum(sizes[:2] ** 2) / total:.0%} of the variation)" if total > 0 else "where it was done"
    )
    axes.set_xlabel("first principal component of the observations")
    axes.set_ylabel("second" if scaled.shape[1] > 1 else "first action")
    axes.grid(visible=False)
    figure.colorbar(drawn, ax=axes, label="rows", shrink=0.8)


def _shortened(name: str) -> str:
    return name if len(name) <= 24 else f"{name[:23]}…"


def _scaled(observation: np.ndarray) -> np.ndarray:
    """With mean 0 and spread 1 in every dimension that varies."""
    observation = observation.astype(np.float64)
    spread = observation.std(axis=0)
    return (observation - observation.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def _sample(size: int, most: int) -> np.ndarray:
    """Rows to look at where all would take too long: the same ones each time."""
    return np.arange(size) if size <= most else np.sort(np.random.default_rng(0).choice(size, most, replace=False))


def _markdown(imported: Imported, dataset: Dataset, coverage: list[dict[str, float]], remarks: list[str], figure: str) -> str:
    facts = describe(dataset)
    parents = imported.attributes["provenance"]["parents"]
    sections = [
        f"# {dataset.name}",
        f"{dataset.size:,} transitions in {facts['episodes']:,} episodes, from {imported.findings.rows_read:,} rows of "
        f"{len(parents):,} file{'s' * (len(parents) != 1)}. sha256 `{dataset.sha256}`.",
        f"![returns, lengths, actions, coverage]({figure})",
        "## To look at\n\n" + "\n".join(f"- {remark}" for remark in remarks) if remarks else "Nothing stood out.",
        "## Taken for granted\n\n" + "\n".join(f"- {text}" for text in imported.assumptions),
        "## Episodes\n\n" + markdown_lines(_episode_lines(facts)),
        "## Columns\n\n" + markdown_lines(_column_lines(imported.columns)),
        *_action_sections(imported, dataset, coverage),
        "## Files\n\n" + markdown_lines([["file", "sha256"], *([parent["name"], parent["sha256"]] for parent in parents)]),
    ]
    return "\n\n".join(section.rstrip() for section in sections) + "\n"


def _episode_lines(facts: dict[str, Any]) -> list[list[str]]:
    keys = ("mean", "std", "min", "first_quartile", "median", "third_quartile", "max")
    heading = ["", "mean", "std", "min", "quartile", "median", "quartile", "max"]
    rows = [
        [name.replace("_", " "), *(f"{facts[name][key]:,.6g}" for key in keys)] for name in ("episode_return", "episode_length")
    ]
    return [heading, *rows]


def _column_lines(columns: list[ColumnFacts]) -> list[list[str]]:
    heading = ["column", "role", "type", "unit", "min", "mean", "max", "std"]
    return [
        heading,
        *([*_texts(fact), *(f"{value:.4g}" for value in (fact.low, fact.mean, fact.high, fact.std))] for fact in columns),
    ]


def _texts(fact: ColumnFacts) -> list[str]:
    return [fact.name, fact.role, fact.type, fact.unit or "not said"]


def _action_sections(imported: Imported, dataset: Dataset, coverage: list[dict[str, float]]) -> list[str]:
    if imported.choices:
        return ["## Actions\n\n" + markdown_lines(choice_lines(dataset, imported.choices))]
    return [
        "## Actions\n\n" + markdown_lines(_action_lines(imported, dataset, coverage)),
        "A part of the range is seen if it, a twentieth, holds a thousandth of the rows. Unexplained is the share of an action's "
        "variance that the observations do not determine, at most: what the log knows of doing otherwise.",
    ]


def _action_lines(imported: Imported, dataset: Dataset, coverage: list[dict[str, float]]) -> list[list[str]]:
    lines = [["action", "lowest", "highest", "range seen", "unexplained"]]
    bounds = zip(action_names(imported), dataset.spec.action_low, dataset.spec.action_high, coverage, strict=True)
    for name, low, high, fact in bounds:
        lines.append([name, f"{low:.6g}", f"{high:.6g}", f"{fact['range_seen']:.0%}", f"{fact['unexplained']:.0%}"])
    return lines

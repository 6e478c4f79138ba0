"""The tables of docs/results.md hold what the run files behind them say, to the last digit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import pytest
from pages import ROOT, tables_of, text_of

from tether.report.gathered import group_runs
from tether.report.statistics import collect_scores, interquartile_means, task_lines
from tether.runs.reading import Run, find_runs

PROOF = ROOT / "results" / "proof"
ANCHOR_UNTIL = 20_000
SEEDS = 3
# Of a column: the variant of the plan, whose scores, and until which step.
COLUMNS = {
    "cloning": ("cloning", "last", None),
    "10%-BC": ("best-tenth", "last", None),
    "TD3+BC": ("td3-bc", "last", None),
    "TD3+BC, our settings": ("td3-bc-our-critics", "last", None),
    "IQL": ("iql", "last", None),
    "ReBRAC": ("rebrac", "last", None),
    "TD3-CVAE": ("paper", "last", None),
    "anchor": ("tethered", "last", ANCHOR_UNTIL),
    "`tethered`": ("tethered", "last", None),
    "its last ten": ("tethered", "last_ten", None),
    "five": ("five", "last", None),
    "five, unbounded": ("five-unbounded", "last", None),
}
# Told below the table: of which variant, and whose scores.
TOLD = {
    "cloning, scaled": ("cloning-scaled", "last", None),
    "TD3+BC, our settings, last ten": ("td3-bc-our-critics", "last_ten", None),
}
# Of the table of long runs: the variants with 60,000 and with 300,000 steps.
LONG = {
    "`tethered`": ("tethered", "long"),
    "`tethered`, five, unbounded": ("five-unbounded", "five-unbounded-long"),
    "TD3+BC": ("td3-bc", "td3-bc-long"),
    "TD3+BC, our settings": ("td3-bc-our-critics", "td3-bc-our-critics-long"),
}
LONG_COLUMNS = ["60,000 steps", "300,000 steps", "its last ten"]


TABLES = [table for table in tables_of("docs/results.md") if set(table[0][1:]) <= set(COLUMNS)]


@cache
def runs_of(task: str) -> list[Run]:
    return find_runs((PROOF / task,))


@cache
def shown(tasks: tuple[str, ...], column: str) -> tuple[dict[str, str], str]:
    """The cells of a column by task, and its interquartile mean over them, as `tether report --statistics` prints them."""
    return spelt(tasks, *(COLUMNS | TOLD)[column])


def spelt(
    tasks: Sequence[str], variant: str, score: str, until: int | None, seeds: Sequence[str] = ()
) -> tuple[dict[str, str], str]:
    # A variant that has another name on a log has its paper's settings for that log.
    runs = [run for task in tasks for run in runs_of(task) if run.path.parent.name in (variant, f"{variant}-on-{task}")]
    runs = [run for run in runs if not seeds or run.path.name in seeds]
    scores = collect_scores(group_runs([run.within(until=until) for run in runs]), score)
    (mean,) = interquartile_means(scores).values()
    (number,) = {len(values) for values in scores.by_method.values()}
    return dict(task_lines(scores)[1:]), mean.spell() if number > 1 else f"{mean.value:.1f}"


@cache
def cell(log: str, column: str) -> str:
    """As `tether report --statistics` prints it; where seeds are missing, with how many there are."""
    variant = COLUMNS[column][0]
    names = (variant, f"{variant}-on-{log}")
    seeds = sum(run.path.parent.name in names for run in runs_of(log))
    assert seeds, (log, column)
    return spelt((log,), *COLUMNS[column])[0][log] + ("" if seeds == SEEDS else f" ({seeds} seeds)" if seeds > 1 else " (1 seed)")


def name_of(label: str) -> str:
    return label.split(" (")[0]


def test_the_page_has_the_tables():
    assert [len(table) - 1 for table in TABLES] == [9 + 1, 2, 4]  # the logs and the mean over them; the hand tasks; IQL's four
    assert {column for table in TABLES for column in table[0][1:]} == set(COLUMNS)


@pytest.mark.parametrize(("table", "column"), [(place, column) for place, table in enumerate(TABLES) for column in table[0][1:]])
def test_a_column_is_what_the_runs_say(table: int, column: str):
    heading, *lines = TABLES[table]
    logs = [line for line in lines if not line[0].startswith("interquartile mean")]
    place, names = heading.index(column), tuple(name_of(line[0]) for line in logs)
    assert [line[place] for line in logs] == [cell(name, column) for name in names]
    assert [line[place] for line in lines if line not in logs] == [shown(names, column)[1] for line in lines if line not in logs]


def test_the_long_runs_are_what_their_files_say():
    (table,) = [table for table in tables_of("docs/results.md") if table[0][3:] == LONG_COLUMNS]
    for log, method, named, *cells in table[1:]:
        short, long = LONG[method]
        seeds = [f"s{seed}" for seed in named.split(", ")]
        assert sorted(run.path.name for run in runs_of(log) if run.path.parent.name == long) == seeds
        told = [(short, "last"), (long, "last"), (long, "last_ten")]
        assert cells == [spelt((log,), variant, score, None, seeds)[0][log] for variant, score in told]
    shown = {(log, LONG[method][1]) for log, method, *_ in table[1:]}
    assert shown == {(place.parents[1].name, place.name) for _, long in LONG.values() for place in PROOF.glob(f"*/*/{long}")}


@pytest.mark.parametrize(
    ("variant", "log", "told"),
    [
        ("paper", "hopper-medium", "over the last ten evaluations it has {}"),
        ("tethered", "hopper-medium", "(`tethered` {:.4})"),
        ("rebrac", "hopper-medium-expert", "with {} over the last ten evaluations"),
    ],
)
def test_what_is_told_of_the_last_ten_is_what_the_runs_say(variant: str, log: str, told: str):
    assert told.format(spelt((log,), variant, "last_ten", None)[0][log]) in text_of("docs/results.md")


def test_what_is_told_of_bounded_values_is_what_the_runs_say():
    told, _ = spelt(("pen-expert",), "td3-bc-our-critics-bounded", "last", None)
    assert f"bounded values has {told['pen-expert']} on pen" in text_of("docs/results.md")
    nine = tuple(name_of(line[0]) for line in TABLES[0][1:-1])
    variants = ("td3-bc-our-critics-bounded", "td3-bc-our-critics", "tethered")
    bounded, without, ours = (spelt(nine, variant, "last", None, ["s32"])[1] for variant in variants)
    assert f"bounded values has {bounded} ({without} without), `tethered` {ours}." in text_of("docs/results.md")
    assert f"the one seed that was run, {bounded} where `tethered` has {ours}." in text_of("README.md")


@pytest.mark.parametrize("label", [line[0] for table in TABLES for line in table[1:] if "(" in line[0]])
def test_a_log_is_described_as_it_was(label: str):
    mean, rows = re.fullmatch(r".* \((.*); (.*)\)", label).groups()
    for run in runs_of(name_of(label)):
        data = run.result["dataset"]
        assert (f"{data['score']['mean']:.1f}", f"{data['transitions']:,}") == (mean, rows)


# Of a line of README's table: the column of the page.
README_LINES = {
    "behaviour cloning": "cloning",
    "cloning of the best tenth of the episodes": "10%-BC",
    "TD3+BC, its paper's settings": "TD3+BC",
    "TD3+BC, our settings": "TD3+BC, our settings",
    "`tethered`, the default": "`tethered`",
}


def test_the_table_of_the_readme_is_what_the_runs_say():
    nine = tuple(name_of(line[0]) for line in TABLES[0][1:-1])
    (table,) = [table for table in tables_of("README.md") if table[0][1:] == ["the nine, interquartile mean", "pen", "door"]]
    lines = {label: cells for label, *cells in table[1:]}
    assert lines.pop("the log itself") == ["", *(re.findall(r"\((.*);", line[0])[0] for line in TABLES[1][1:])]
    assert lines.keys() == README_LINES.keys()
    for label, column in README_LINES.items():
        hands = shown(("pen-expert", "door-expert"), column)[0]
        assert lines[label] == [shown(nine, column)[1], hands["pen-expert"], hands["door-expert"]]


@pytest.mark.parametrize("column", ["`tethered`", "cloning", "10%-BC", *TOLD])
def test_means_in_the_text_are_what_the_runs_say(column: str):
    nine = tuple(name_of(line[0]) for line in TABLES[0][1:-1])
    assert shown(nine, column)[1] in text_of("docs/results.md")


# Told in words on the page and in README: where a method is above another by the whole interval.
ALL = {name_of(line[0]) for table in TABLES[:2] for line in table[1:] if "(" in line[0]}
MEDIUM = {"hopper-medium", "halfcheetah-medium", "walker2d-medium"}
HANDS = {"pen-expert", "door-expert"}


@pytest.mark.parametrize(
    ("one", "other", "logs"),
    [
        ("`tethered`", "cloning", ALL),
        ("`tethered`", "10%-BC", MEDIUM | HANDS | {"hopper-medium-replay", "halfcheetah-medium-replay"}),
        ("10%-BC", "`tethered`", set()),
        ("`tethered`", "TD3+BC, our settings", HANDS | {"hopper-medium", "walker2d-medium", "hopper-medium-replay"}),
        ("TD3+BC, our settings", "`tethered`", {"hopper-medium-expert"}),
    ],
)
def test_the_logs_where_one_is_above_another_are_those_that_are_told(one: str, other: str, logs: set[str]):
    def ends(column: str, log: str) -> list[float]:
        return [float(end) for end in re.findall(r"\[(.*), (.*)\]", cell(log, column))[0]]

    assert len(ALL) == 9 + len(HANDS)
    assert {log for log in ALL if ends(one, log)[0] > ends(other, log)[1]} == logs

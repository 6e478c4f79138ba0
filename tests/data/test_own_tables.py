"""Your own tables: every number here can be counted by hand in the few rows beside it."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from tether.data import Dataset, load_dataset
from tether.data.files.writing import write_d4rl
from tether.data.tables.files import find_files, natural_order
from tether.data.tables.importing import Imported, ImportOptions, import_tables
from tether.data.transforms import filter_by_return
from tether.errors import TetherError

pyarrow = pytest.importorskip("pyarrow", reason="needs the extra tables")

HEADER = "run,t,obs_1,obs_2,obs_10,act,r,done,cut"
# Run a terminates at its third row; run b is cut after two.
ROWS = [
    "a,0.0,1,2,10,0.5,1.0,0,0",
    "a,0.1,1.1,2.1,10.1,-0.5,2.0,0,0",
    "a,0.2,1.2,2.2,10.2,0.0,3.0,1,0",
    "b,0.0,5,6,7,0.25,4.0,0,0",
    "b,0.1,5.1,6.1,7.1,-0.25,5.0,0,1",
]
OPTIONS = {
    "observation": ("obs_*",),
    "action": ("act",),
    "reward": "r",
    "terminated": "done",
    "truncated": "cut",
    "episode": "run",
    "time": "t",
}

WriteCsv = Callable[..., Path]


@pytest.fixture
def write_csv(tmp_path: Path) -> WriteCsv:
    def write(rows: list[str] = ROWS, name: str = "log.csv", header: str = HEADER) -> Path:
        path = tmp_path / name
        path.write_text("\n".join([header, *rows]) + "\n")
        return path

    return write


def read(*paths: Path, **changed) -> Imported:
    return import_tables(paths, ImportOptions(**(OPTIONS | changed)))


def message(*paths: Path, **changed) -> str:
    with pytest.raises(TetherError) as caught:
        read(*paths, **changed)
    return str(caught.value)


def test_columns_find_their_roles_in_natural_order(write_csv: WriteCsv):
    imported = read(write_csv())
    np.testing.assert_allclose(imported.rows.observation[0], [1, 2, 10])  # obs_10 is the last
    np.testing.assert_allclose(imported.rows.action[:, 0], [0.5, -0.5, 0.0, 0.25, -0.25])
    np.testing.assert_allclose(imported.rows.reward, [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(imported.rows.terminated, [0, 0, 1, 0, 0])
    np.testing.assert_array_equal(imported.truncated, [0, 0, 0, 0, 1])
    assert [fact.name for fact in imported.columns] == ["obs_1", "obs_2", "obs_10", "act", "r"]
    assert natural_order("obs_2") < natural_order("obs_10") < natural_order("obs_x")


def test_columns_are_in_the_order_in_which_they_are_asked_for(write_csv: WriteCsv):
    imported = read(write_csv(), observation=("obs_10", "obs_*"), env_id="Pendulum-v1")
    np.testing.assert_allclose(imported.rows.observation[0], [10, 1, 2])
    assert "Pendulum-v1 has its observations in this order: obs_10, obs_1, obs_2" in imported.assumptions
    np.testing.assert_allclose(read(write_csv(), observation=("obs_*", "!obs_1")).rows.observation[0], [2, 10])


def test_the_file_that_is_written_reads_as_transitions(write_csv: WriteCsv, tmp_path: Path):
    imported = read(write_csv(), action_low=(-2.0,), action_high=(2.0,))
    path = tmp_path / "log.hdf5"
    write_d4rl(path, imported.rows, imported.truncated, imported.spec, imported.attributes, compact=True)
    dataset = load_dataset(path)
    # Three rows of a; of b only the first has a successor.
    np.testing.assert_allclose(dataset.transitions.next_observation[:, 0], [1.1, 1.2, 1.2, 5.1], rtol=1e-6)
    np.testing.assert_array_equal(dataset.transitions.terminated, [0, 0, 1, 0])
    np.testing.assert_array_equal(dataset.truncated, [0, 0, 0, 1])
    np.testing.assert_allclose(dataset.episode_returns, [6.0, 9.0])
    assert (dataset.spec.action_low, dataset.spec.action_high) == ((-2.0,), (2.0,))
    assert dataset.notes.action_bounds == "recorded"
    provenance = dataset.provenance
    assert provenance["operation"] == "import"
    assert provenance["arguments"]["columns"]["observation"] == ["obs_1", "obs_2", "obs_10"]
    assert [parent["name"] for parent in provenance["parents"]] == ["log.csv"]


def test_csv_parquet_and_npz_give_the_same_rows(write_csv: WriteCsv, tmp_path: Path):
    import pyarrow.csv
    import pyarrow.parquet

    table = pyarrow.csv.read_csv(write_csv())
    pyarrow.parquet.write_table(table, tmp_path / "log.parquet")
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress((tmp_path / "log.csv").read_bytes()))
    columns = table.to_pydict()
    observation = np.stack([columns[name] for name in ("obs_1", "obs_2", "obs_10")], axis=1)
    flags = {name: np.array(columns[name]) for name in ("t", "act", "r", "done", "cut")}
    np.savez(tmp_path / "log.npz", obs=observation, run=np.array([1, 1, 1, 2, 2]), **flags)
    from_csv, from_parquet = read(tmp_path / "log.csv"), read(tmp_path / "log.parquet")
    from_npz = read(tmp_path / "log.npz", observation=("obs",))
    for other in (from_parquet, from_npz, read(tmp_path / "packed.csv.gz")):
        for mine, theirs in zip(from_csv.rows, other.rows, strict=True):
            np.testing.assert_array_equal(mine, theirs)
        np.testing.assert_array_equal(from_csv.truncated, other.truncated)
    assert [fact.name for fact in from_npz.columns][:3] == ["obs_0", "obs_1", "obs_2"]


def test_rows_are_sorted_by_time_within_their_episode(write_csv: WriteCsv):
    shuffled = [ROWS[i] for i in (4, 1, 3, 0, 2)]
    imported = read(write_csv(shuffled))
    np.testing.assert_allclose(imported.rows.reward, [4, 5, 1, 2, 3])  # b is named first
    np.testing.assert_array_equal(imported.truncated, [0, 1, 0, 0, 0])
    assert imported.findings.reordered > 0


def test_a_row_written_twice_counts_once_and_two_that_differ_are_refused(write_csv: WriteCsv):
    imported = read(write_csv([*ROWS[:2], ROWS[1], *ROWS[2:], ROWS[4]]))
    np.testing.assert_allclose(imported.rows.reward, [1, 2, 3, 4, 5])
    assert imported.findings.duplicates_dropped == 2  # the last row of b, too, which ends it
    conflicting = [*ROWS[:2], "a,0.1,1.1,2.1,10.1,-0.5,2.5,0,0", *ROWS[2:]]
    assert message(write_csv(conflicting)).startswith("log.csv, row 3: has the time (0.1) and the episode of log.csv, row 2")


def test_repeats_without_a_time_are_told_and_kept(write_csv: WriteCsv):
    imported = read(write_csv([ROWS[0], ROWS[0], *ROWS[1:]]), time=None)
    assert (len(imported.rows.reward), imported.findings.repeats) == (6, 1)


GAP = ["a,0.0,1,2,3,0,1,0,0", "a,0.1,1,2,4,0,2,0,0", "a,0.9,1,2,5,0,3,0,0", "a,1.0,1,2,6,0,4,1,0"]


def test_a_gap_is_told_and_cut_only_where_asked_for(write_csv: WriteCsv):
    told = read(write_csv(GAP))
    np.testing.assert_array_equal(told.truncated, [0, 0, 0, 0])
    found = told.findings
    assert (found.gaps, found.gaps_cut, found.longest_gap_at) == (1, 0, "log.csv, row 3")
    assert (found.median_step, found.longest_gap) == (pytest.approx(0.1), pytest.approx(0.8))
    cut = read(write_csv(GAP), max_gap=0.5)
    np.testing.assert_array_equal(cut.truncated, [0, 1, 0, 0])
    assert cut.findings.gaps_cut == 1


def test_dates_are_times_in_seconds(tmp_path: Path):
    import pyarrow.parquet

    start = datetime(2026, 3, 2, 6)
    offsets = [0.0, 0.05, 0.1, 3.1]
    table = pyarrow.table(
        {
            "t": [start + timedelta(seconds=offset) for offset in offsets],
            "x": [1.0, 2.0, 3.0, 4.0],
            "u": [0.1, 0.2, 0.3, 0.4],
            "r": [0.0, 0.0, 0.0, 1.0],
        }
    )
    pyarrow.parquet.write_table(table, tmp_path / "log.parquet")
    plain = {"truncated": None, "episode": None, "terminated": "none", "observation": ("x",), "action": ("u",)}
    found = read(tmp_path / "log.parquet", **plain).findings
    assert (found.median_step, found.longest_gap) == (pytest.approx(0.05), pytest.approx(3.0))


def test_incomplete_rows_are_refused_with_their_place(write_csv: WriteCsv):
    broken = [ROWS[0], "a,0.1,1.1,,10.1,-0.5,2.0,0,0", *ROWS[2:]]
    said = message(write_csv(broken))
    assert said.startswith("log.csv, row 2: column 'obs_2' is empty or not a finite number (1 such rows")
    assert "--drop-incomplete-rows" in said
    assert "row 3: column 'r'" in message(write_csv([*ROWS[:2], "a,0.2,1.2,2.2,10.2,0.0,inf,1,0", *ROWS[3:]]))


@pytest.mark.parametrize("empty", ["a,0.2,1,,1,0,9,0,0", "a,,1,1,1,0,9,0,0", ",0.2,1,1,1,0,9,0,0"], ids=["value", "time", "run"])
def test_dropped_rows_cut_their_episode_there(write_csv: WriteCsv, empty: str):
    """Four rows of one run, the third of them without a value, its time or its run: what is left is two pieces."""
    rows = ["a,0.0,1,1,1,0,1,0,0", "a,0.1,1,1,2,0,2,0,0", empty, "a,0.3,1,1,3,0,3,0,0", "a,0.4,1,1,4,0,4,1,0"]
    imported = read(write_csv(rows), drop_incomplete_rows=True)
    np.testing.assert_allclose(imported.rows.reward, [1, 2, 3, 4])
    np.testing.assert_array_equal(imported.truncated, [0, 1, 0, 0])
    assert imported.findings.incomplete_dropped == 1


def test_without_episodes_flags_and_files_end_them(write_csv: WriteCsv, tmp_path: Path):
    one, two = write_csv(name="log_2.csv"), write_csv([ROWS[0]], name="log_10.csv")
    imported = read(one, two, episode=None, time=None)
    np.testing.assert_array_equal(imported.truncated, [0, 0, 0, 0, 1, 1])
    assert imported.findings.lone == 1
    assert any(
        "no --episode: an episode ends after a row that is terminated or truncated" in said for said in imported.assumptions
    )
    assert find_files([tmp_path]) == [one, two]  # a folder, in natural order


def test_time_that_goes_back_without_episodes_is_refused(write_csv: WriteCsv):
    rows = ["a,0.0,1,1,1,0,1,0,0", "a,0.1,1,1,2,0,2,0,0", "b,0.0,1,1,3,0,3,0,0"]
    assert message(write_csv(rows), episode=None) == (
        "log.csv, row 3: the time goes back from 0.1 to 0; if an episode begins there, say so with --episode or --truncated"
    )


def test_an_episode_in_two_files_is_one_or_two_only_as_told(write_csv: WriteCsv):
    first, second = write_csv(ROWS[:2], "one.csv"), write_csv(ROWS[2:], "two.csv")
    assert message(first, second).startswith("two.csv: has an episode 'a', as one.csv has; say --episode-ids per-file")
    np.testing.assert_array_equal(read(first, second, episode_ids="across-files").truncated, [0, 0, 0, 0, 1])
    np.testing.assert_array_equal(read(first, second, episode_ids="per-file").truncated, [0, 1, 0, 0, 1])


def test_rows_after_an_end_are_told(write_csv: WriteCsv):
    imported = read(write_csv([*ROWS[:3], "a,0.3,1.3,2.3,10.3,0.0,3.0,0,0", *ROWS[3:]]))
    assert imported.findings.after_end == 1


def test_bounds_are_given_or_measured_and_units_stay(write_csv: WriteCsv):
    measured = read(write_csv())
    np.testing.assert_allclose(measured.rows.action[:, 0], [0.5, -0.5, 0.0, 0.25, -0.25])
    np.testing.assert_allclose(measured.attributes["action_low"], [-0.51], rtol=1e-6)  # a hundredth of the range of 1
    np.testing.assert_allclose(measured.attributes["action_high"], [0.51], rtol=1e-6)
    np.testing.assert_allclose(read(write_csv(), env_id="Pendulum-v1").attributes["action_low"], [-2.0])
    tiny = [row.replace(",0.5,", ",1e-6,").replace(",-0.5,", ",2e-6,") for row in ROWS[:2]]
    np.testing.assert_allclose(read(write_csv(tiny)).attributes["action_high"], [2.01e-6], rtol=1e-4)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"action_low": (-1.0,)}, "give both --action-low and --action-high, or neither"),
        (
            {"action_low": (-1.0, -1.0), "action_high": (1.0,)},
            "--action-low has 2 numbers; give one for all actions or one for each of 1",
        ),
        ({"action_low": (1.0,), "action_high": (1.0,)}, "--action-low must be below --action-high"),
        ({"observation": ("obz_*",)}, "log.csv: no column matches --observation 'obz_*'; did you mean"),
        ({"reward": "rr"}, "log.csv: no column 'rr' for --reward; did you mean r?"),
        (
            {"observation": ("*", "!run")},
            "column 'act' is matched by --observation and by --action; leave it out with --observation",
        ),
        ({"observation": ("obs_*", "!obs_*")}, "--observation obs_* !obs_* leaves no column"),
        (
            {"observation": ("obs_*", "run"), "episode": None},
            "log.csv: column 'run' is 'a' in row 1, expected a number",
        ),
        ({"terminated": "obs_1", "observation": ("obs_2",)}, "log.csv: column 'obs_1' is '1.1' in row 2, expected 0 or 1"),
        ({"max_gap": 1.0, "time": None}, "--max-gap is about time, and no --time"),
        ({"env_id": "os:system"}, "--env-id is 'os:system'"),
        ({"env_id": "Pendulun-v1"}, "--env-id Pendulun-v1: no environment 'Pendulun-v1' in Gymnasium; did you mean Pendulum-v1"),
        ({"env_id": "MountainCarContinuous-v0"}, "has observations of 2 numbers, the log has 3"),
        ({"env_id": "CartPole-v1", "observation": ("obs_*", "cut"), "truncated": None}, "expected one of 0, 1"),
    ],
)
def test_what_does_not_fit_is_said(write_csv: WriteCsv, options: dict, said: str):
    assert said in message(write_csv(), **options)


def test_every_file_must_have_the_same_columns(write_csv: WriteCsv):
    first = write_csv(ROWS[:3], "one.csv")
    lacking = write_csv(["b,0,1,2,3,4,5,0,0"], "two.csv", HEADER.replace("obs_10", "obs_11"))
    assert message(first, lacking).startswith("two.csv: no column 'obs_10', which one.csv has; did you mean obs_1 or obs_11")
    more = write_csv(["b,0,1,2,3,4,5,0,0,1"], "three.csv", HEADER + ",obs_11")
    assert message(first, more) == "three.csv: --observation matches 'obs_11' too, which one.csv does not have"
    words = write_csv(["b,0,1,2,low,4,5,0,0"], "four.csv")
    assert message(first, words) == "four.csv: column 'obs_10' is 'low' in row 1, expected a number"


def test_units_come_from_metadata_or_brackets(tmp_path: Path):
    import pyarrow.parquet

    fields = [
        pyarrow.field("speed [m/s]", pyarrow.float64()),
        pyarrow.field("valve", pyarrow.float32(), metadata={"unit": "%"}),
        pyarrow.field("r", pyarrow.int64()),
    ]
    table = pyarrow.table([[1.0, 2.0], [3.0, 4.0], [5, 6]], schema=pyarrow.schema(fields))
    pyarrow.parquet.write_table(table, tmp_path / "log.parquet")
    plain = {"truncated": None, "episode": None, "time": None, "terminated": "none"}
    columns = read(tmp_path / "log.parquet", observation=("speed [m/s]",), action=("valve",), **plain).columns
    assert [(fact.unit, fact.type) for fact in columns] == [("m/s", "double"), ("%", "float"), (None, "int64")]


def test_files_that_cannot_be_read_are_named(tmp_path: Path, write_csv: WriteCsv):
    for name in ("log.parquet", "log.npz", "bent.csv"):
        (tmp_path / name).write_bytes(HEADER.encode() + b"\na,0.0,1\n\x00\xff" if name == "bent.csv" else b"not a table")
        assert message(tmp_path / name).startswith(f"{name}: cannot be read")
    (tmp_path / "empty.csv").write_text("")
    assert message(tmp_path / "empty.csv").startswith("empty.csv: cannot be read")
    assert message(write_csv([])) == "log.csv: has no rows"
    assert "two columns are both named 'r'" in message(write_csv(["1,2"], header="r,r"))
    assert message(tmp_path / "nowhere.csv").endswith("nowhere.csv: no such file")
    (tmp_path / "log.xlsx").write_bytes(b"")
    assert "not a table that is read" in message(tmp_path / "log.xlsx")
    (tmp_path / "none").mkdir()
    assert "no table in this folder" in message(tmp_path / "none")
    assert "is given twice" in message(tmp_path / "log.csv", tmp_path / "log.csv")
    np.savez(tmp_path / "object.npz", a=np.array([{}], dtype=object))
    assert "object.npz: cannot be read" in message(tmp_path / "object.npz")


def test_a_log_without_any_successor_is_refused(write_csv: WriteCsv):
    assert "no row has a successor" in message(write_csv([ROWS[0], ROWS[3]]))


def test_a_number_too_large_is_named(write_csv: WriteCsv):
    assert "column 'r' is 1e+300 in row 1" in message(write_csv(["a,0.0,1,2,10,0.5,1e300,0,0", *ROWS[1:]]))


VALVE_HEADER = "run,obs_1,valve,r,done"
VALVE = ["a,1,open,1,0", "a,2,closed,2,0", "a,3,half,3,1", "b,4,open,4,0", "b,5,open,5,0"]
VALVE_OPTIONS = {"action": ("valve",), "truncated": None, "time": None, "action_choices": ("closed", "half", "open")}


def test_named_choices_become_one_hot_rows_in_the_order_of_their_names(write_csv: WriteCsv, tmp_path: Path):
    imported = read(write_csv(VALVE, header=VALVE_HEADER), **VALVE_OPTIONS)
    assert imported.spec.discrete
    np.testing.assert_array_equal(np.argmax(imported.rows.action, axis=1), [2, 0, 1, 2, 2])
    np.testing.assert_array_equal(imported.rows.action.sum(axis=1), 1)
    path = tmp_path / "valve.hdf5"
    write_d4rl(path, imported.rows, imported.truncated, imported.spec, imported.attributes, compact=True)
    dataset = load_dataset(path)
    assert (dataset.spec.discrete, dataset.spec.action_size) == (True, 3)
    np.testing.assert_array_equal(np.argmax(dataset.transitions.action, axis=1), [2, 0, 1, 2])  # the last row has no successor
    assert dataset.provenance["arguments"]["columns"]["choices"] == ["closed", "half", "open"]


@pytest.mark.parametrize("spelled", [["0", "2", "1", "2", "0"], ["0.0", "2.0", "1.0", "2.0", "0.0"]])
def test_numbered_choices_are_whole_numbers_of_any_type(write_csv: WriteCsv, spelled: list[str]):
    rows = [row.replace(row.split(",")[2], number) for row, number in zip(VALVE, spelled, strict=True)]
    imported = read(write_csv(rows, header=VALVE_HEADER), **VALVE_OPTIONS | {"action_choices": ("4",)})
    np.testing.assert_array_equal(np.argmax(imported.rows.action, axis=1), [0, 2, 1, 2, 0])
    assert imported.rows.action.shape == (5, 4)  # the fourth is there to be chosen, though it never was


def test_the_environment_says_whether_actions_are_choices(write_csv: WriteCsv):
    pushes = [f"{row.split(',')[0]},0.1,2,3,4,{index % 2},1,0" for index, row in enumerate(VALVE)]
    header = VALVE_HEADER.replace("obs_1", "obs_1,obs_2,obs_3,obs_4")
    imported = read(write_csv(pushes, header=header), **VALVE_OPTIONS | {"action_choices": None, "env_id": "CartPole-v1"})
    assert imported.rows.action.tolist() == [[1, 0], [0, 1], [1, 0], [0, 1], [1, 0]]
    assert imported.choices == ("0", "1")


def test_whole_numbers_are_continuous_until_told_otherwise_and_the_doubt_is_said(write_csv: WriteCsv):
    rows = [row.replace(row.split(",")[2], str(index % 3)) for index, row in enumerate(VALVE)]
    imported = read(write_csv(rows, header=VALVE_HEADER), **VALVE_OPTIONS | {"action_choices": None})
    assert not imported.spec.discrete
    assert "if it is a choice, say --action-choices 3" in imported.assumptions[-1]
    assert "--action-choices" not in " ".join(read(write_csv()).assumptions)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"action_choices": ("closed", "open")}, "column 'valve' is 'half' in row 3, expected one of closed, open"),
        ({"action_choices": ("3",)}, "is 'open' in row 1, expected one of 0, 1, 2; name the choices instead"),
        (
            {"action_choices": ("open",)},
            "--action-choices is open, expected how many there are (2 to 10,000), or the name of each",
        ),
        ({"action_choices": ("1",)}, "--action-choices is 1, expected how many"),
        ({"action_choices": ("open", "half", "open")}, "--action-choices has 'open' twice"),
        (
            {"action": ("valve", "obs_1"), "observation": ("done",), "terminated": "none"},
            "for one column, and --action matches 2",
        ),
        ({"action_low": (0.0,), "action_high": (1.0,)}, "choices have no bounds"),
    ],
)
def test_choices_that_do_not_fit_are_said(write_csv: WriteCsv, options: dict, said: str):
    assert said in message(write_csv(VALVE, header=VALVE_HEADER), **VALVE_OPTIONS | options)


def test_a_missing_choice_is_an_incomplete_row(write_csv: WriteCsv):
    rows = ["a,1,open,1,0", "a,2,,2,0", "a,3,half,3,1", "b,4,open,4,0", "b,5,open,5,0"]
    path = write_csv(rows, header=VALVE_HEADER)
    assert "row 2: column 'valve' is empty" in message(path, **VALVE_OPTIONS)
    assert len(read(path, **VALVE_OPTIONS | {"drop_incomplete_rows": True}).rows.reward) == 4


# Pieces of episodes

COSTS = "run,t,x,act,r,done"


def costs(run: str, steps: int, broken: int | None = None, ends: bool = True) -> list[str]:
    """An episode that costs 1 a step; one row of it may lack its observation."""
    return [f"{run},{t},{'' if t == broken else t},0.1,-1,{int(ends and t == steps - 1)}" for t in range(steps)]


def imported_costs(rows: list[str], write_csv: WriteCsv, tmp_path: Path, **options) -> Dataset:
    given = {"observation": ("x",), "truncated": None, "drop_incomplete_rows": True} | options
    imported = read(write_csv(rows, header=COSTS), **given)
    path = tmp_path / "costs.hdf5"
    write_d4rl(
        path, imported.rows, imported.truncated, imported.spec, imported.attributes, compact=True, returns=imported.returns
    )
    return load_dataset(path)


@pytest.mark.parametrize("named", [True, False])
def test_a_piece_of_an_episode_does_not_pass_for_the_best(named: bool, write_csv: WriteCsv, tmp_path: Path):
    """Run a costs 4. Run b costs 10, and its row 7 lacks a number: pieces of 7 and 2 rows, which seem to cost 7 and 2."""
    options = {} if named else {"episode": None, "time": None}
    dataset = imported_costs([*costs("a", 4), *costs("b", 10, broken=7)], write_csv, tmp_path, **options)
    assert dataset.episode_returns.tolist() == [-4.0, -10.0, -10.0]
    best = filter_by_return(dataset, best_share=0.3)
    assert (best.size, best.episode_returns.tolist()) == (4, [-4.0])


def test_a_gap_cuts_pieces_of_a_named_episode_and_episodes_of_a_log_that_names_none(write_csv: WriteCsv, tmp_path: Path):
    rows = [row for t, row in enumerate(costs("a", 12)) if not 4 <= t < 9]  # four rows, a gap, three rows
    pieces = imported_costs(rows, write_csv, tmp_path, max_gap=2.0)
    assert pieces.episode_returns.tolist() == [-7.0, -7.0]
    apart = imported_costs(rows, write_csv, tmp_path, max_gap=2.0, episode=None)
    assert apart.episode_returns.tolist() == [-4.0, -3.0]


def test_a_dropped_row_at_an_end_still_counts_and_a_missing_reward_does_not(write_csv: WriteCsv, tmp_path: Path):
    rows = [*costs("a", 4, broken=0), *costs("b", 3)]
    rows[-2] = "b,1,1,0.1,,0"  # its reward is not known
    dataset = imported_costs(rows, write_csv, tmp_path)
    # Of a three rows are left. Of b the first has no successor and is in no transition; the last one is.
    assert dataset.episode_returns.tolist() == [-4.0, -2.0]


def test_an_import_of_whole_episodes_has_the_sums_of_their_rewards(write_csv: WriteCsv):
    assert read(write_csv()).returns is None


# Names and words as logs have them


def test_brackets_in_a_column_s_name_are_text(write_csv: WriteCsv):
    """As a choice of letters, `w_? [rad/s]` would match `w_x r` and none of those meant."""
    header = "w_x [rad/s],w_y [rad/s],w_x r,act,r,done"
    path = write_csv(["1,2,9,0.5,1,0", "3,4,9,0.5,1,1"], header=header)
    options = {"truncated": None, "episode": None, "time": None}
    for patterns in (("w_? [rad/s]",), ("w_x [rad/s]", "w_y [rad/s]"), ("w_*", "!w_x r")):
        imported = read(path, observation=patterns, **options)
        np.testing.assert_allclose(imported.rows.observation, [[1, 2], [3, 4]])


@pytest.mark.parametrize(("no", "yes"), [("no", "yes"), ("N", "Y"), ("FALSE", "True"), ("false ", " true"), ("0", "yes")])
def test_flags_may_be_words(no: str, yes: str, write_csv: WriteCsv):
    rows = [f"a,{t},{t},0.1,1,{yes if t == 2 else no}" for t in range(3)]
    imported = read(write_csv(rows, header=COSTS), observation=("x",), truncated=None)
    np.testing.assert_array_equal(imported.rows.terminated, [0, 0, 1])


def test_a_flag_that_is_no_word_for_one_is_named_and_an_empty_one_is_missing(write_csv: WriteCsv):
    rows = ["a,0,0,0.1,1,no", "a,1,1,0.1,1,maybe", "a,2,2,0.1,1,yes"]
    said = message(write_csv(rows, header=COSTS), observation=("x",), truncated=None)
    assert said.startswith("log.csv: column 'done' is 'maybe' in row 2, expected 0 or 1, true or false, yes or no, on or off")
    rows[1] = "a,1,1,0.1,1,"
    assert "row 2: column 'done' is empty" in message(write_csv(rows, header=COSTS), observation=("x",), truncated=None)

"""Which rows of a log are one episode, and in which order: ids that come again, clocks, marks and units. All counted by hand."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from small_tables import read, refused

from tether.data.tables.importing import Imported

pyarrow = pytest.importorskip("pyarrow", reason="needs the extra tables")


def write(folder: Path, text: str, name: str = "log.csv") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def write_parquet(folder: Path, name: str = "log.parquet", **columns) -> Path:
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table(columns), folder / name)
    return folder / name


def episodes(imported: Imported) -> list[list[float]]:
    """The observations of each."""
    found: list[list[float]] = [[]]
    for value, last in zip(imported.rows.observation[:, 0].tolist(), imported.truncated.tolist(), strict=True):
        found[-1].append(value)
        if last:
            found.append([])
    return found[:-1]


def said(imported: Imported) -> str:
    return "\n".join(imported.assumptions)


# Ids that come again

RESTARTED = [("1", 101.5), ("1", 102.5), ("1", 103.5), ("2", 201.5), ("2", 202.5), ("2", 203.5)]
RESTARTED += [("1", 901.5), ("1", 902.5), ("1", 903.5)]


def identified(rows: list[tuple[str, float]], times: list[float] | None = None) -> str:
    times = times or [float(number) for number in range(len(rows))]
    return "ep,t,x,u,r\n" + "".join(f"{id},{time},{x},0.5,1\n" for (id, x), time in zip(rows, times, strict=True))


def test_an_id_that_begins_again_without_a_time_is_asked_about(tmp_path: Path):
    """A logger counts its runs from 1 again: 103.5 must not be followed by 901.5."""
    path = write(tmp_path, identified(RESTARTED))
    text = refused(path, episode="ep")
    assert text.startswith("log.csv, row 7: episode '1' begins again after another one, and no --time says whether")
    assert "--episode-ids per-stretch" in text
    assert "row 7: episode '1' begins again" in refused(path, episode="ep", episode_ids="per-file")
    apart = read(path, episode="ep", episode_ids="per-stretch")
    assert episodes(apart) == [[101.5, 102.5, 103.5], [201.5, 202.5, 203.5], [901.5, 902.5, 903.5]]
    assert apart.findings.comes_back == 0
    assert "no --episode says which column" in refused(path, episode_ids="per-stretch")
    # Where the old run has ended, nothing is its successor: no need to ask.
    flagged = identified(RESTARTED).replace("r\n", "r,end\n").replace(",1\n", ",1,0\n").replace("103.5,0.5,1,0", "103.5,0.5,1,1")
    imported = read(write(tmp_path, flagged), episode="ep", truncated="end")
    assert episodes(imported) == [[101.5, 102.5, 103.5], [901.5, 902.5, 903.5], [201.5, 202.5, 203.5]]


def test_an_id_whose_time_begins_again_is_not_sorted_into_the_old_run(tmp_path: Path):
    times = [0, 1, 2, 0, 1, 2, 0.37, 1.37, 2.37]
    text = refused(write(tmp_path, identified(RESTARTED, times)), episode="ep", time="t")
    assert text.startswith("log.csv, row 7: episode '1' begins again after another one, and its time goes back from 2 to 0.37")
    # By a clock that goes on it may be one episode with a pause: that is taken, and said.
    imported = read(write(tmp_path, identified(RESTARTED)), episode="ep", time="t")
    assert episodes(imported) == [[101.5, 102.5, 103.5, 901.5, 902.5, 903.5], [201.5, 202.5, 203.5]]
    assert (imported.findings.comes_back, imported.findings.comes_back_at) == (1, "'1', log.csv, row 7")
    assert "in the order of t (1 places, the first '1', log.csv, row 7)" in said(imported)


def test_machines_side_by_side_and_a_block_written_twice_are_no_new_runs(tmp_path: Path):
    rows = [("a", 1.5), ("a", 2.5), ("b", 11.5), ("a", 3.5), ("b", 12.5), ("a", 4.5), ("b", 13.5), ("b", 14.5)]
    imported = read(write(tmp_path, identified(rows)), episode="ep")
    assert episodes(imported) == [[1.5, 2.5, 3.5, 4.5], [11.5, 12.5, 13.5, 14.5]]
    assert "is the same episode, in the order of rows (4 places, the first 'a', log.csv, row 4)" in said(imported)
    twice = [*RESTARTED[:6], *RESTARTED[1:3]]
    imported = read(write(tmp_path, identified(twice, [0, 1, 2, 3, 4, 5, 1, 2])), episode="ep", time="t")
    assert episodes(imported) == [[101.5, 102.5, 103.5], [201.5, 202.5, 203.5]]
    assert (imported.findings.duplicates_dropped, imported.findings.comes_back) == (2, 0)


IDLE = [("run1", 101.5), ("run1", 102.5), ("NULL", 201.5), ("NULL", 203.5), ("run2", 301.5), ("run2", 302.5), ("NULL", 901.5)]


@pytest.mark.parametrize("word", ["NULL", "nan", "None"])
def test_words_for_nothing_name_no_episode(tmp_path: Path, word: str):
    rows = [(word if id == "NULL" else id, x) for id, x in IDLE]
    assert "log.csv, row 3: column 'ep' is empty" in refused(write(tmp_path, identified(rows)), episode="ep")
    columns = {"ep": [id for id, _ in rows], "x": [x for _, x in rows], "u": [0.5] * 7, "r": [1.0] * 7}
    for path in (write(tmp_path, identified(rows)), write_parquet(tmp_path, **columns)):
        imported = read(path, episode="ep", drop_incomplete_rows=True)
        assert episodes(imported) == [[101.5, 102.5], [301.5, 302.5]]
        assert imported.findings.incomplete_dropped == 3


def test_a_whole_number_and_its_float_are_one_id(tmp_path: Path):
    one = write(tmp_path, identified([("7", 1.5), ("7", 2.5)]), "one.csv")
    two = write(tmp_path, identified([("7.0", 3.5), ("7.0", 4.5)]), "two.csv")
    assert refused(one, two, episode="ep").startswith("two.csv: has an episode '7', as one.csv has; say --episode-ids")
    imported = read(one, two, episode="ep", episode_ids="across-files")
    assert episodes(imported) == [[1.5, 2.5, 3.5, 4.5]]
    assert "ep: ids such as '7.0' are those without the decimal mark" in said(imported)
    assert "decimal mark" not in said(read(two, episode="ep"))


# Dates in digits

DAYS = ["31102025235957", "31102025235958", "01112025000000", "01112025000001"]  # the last second of October is missing


def stamped(times: list[str]) -> str:
    return "ep,t,x,u,r\n" + "".join(f"1,{time},{number},0.5,1\n" for number, time in enumerate(times))


def test_a_pattern_reads_dates_in_digits(tmp_path: Path):
    """As numbers 01112025000000 is before 31102025235957, and without its zero in front strptime would see day 11, month 12."""
    numbers = {"ep": [1] * 4, "t": [int(day) for day in DAYS], "x": [0.0, 1, 2, 3], "u": [0.5] * 4, "r": [1.0] * 4}
    paths = [write(tmp_path, stamped(DAYS), "one.csv"), write(tmp_path, stamped([str(int(day)) for day in DAYS]), "two.csv")]
    for path in (*paths, write_parquet(tmp_path, **numbers)):
        imported = read(path, episode="ep", time="t", time_format="%d%m%Y%H%M%S")
        assert episodes(imported) == [[0, 1, 2, 3]]
        assert "t is from 2025-10-31 23:59:57 to 2025-11-01 00:00:01" in said(imported)
    # 235959 is before midnight, and 1 is 00:00:01 after it.
    clock = write_parquet(tmp_path, ep=[1, 1], t=[235959, 1], x=[0.0, 1], u=[0.5, 0.5], r=[1.0, 1.0])
    assert episodes(read(clock, episode="ep", time="t", time_format="%H%M%S")) == [[0, 1]]
    short = write(tmp_path, stamped(["20251031", "2025111"]))
    text = refused(short, time="t", time_format="%Y%m%d")
    assert "is '2025111' in row 2, 7 digits where --time-format '%Y%m%d' takes 8" in text
    assert "takes 17 or 20" in refused(write(tmp_path, stamped(["1112025000000123"])), time="t", time_format="%d%m%Y%H%M%S%f")


def test_a_time_format_that_cannot_be_used_is_refused(tmp_path: Path):
    others = {"x": [0.0, 1.0], "u": [0.5, 0.5], "r": [1.0, 1.0]}
    for times, kind in (([0.5, 1.5], "double"), ([datetime(2025, 1, 1), datetime(2025, 1, 2)], "timestamp[us]")):
        text = refused(write_parquet(tmp_path, t=times, **others), time="t", time_format="%Y%m%d")
        assert text.startswith(f"log.parquet: column 't' has type {kind} (the first is ")
        assert "--time-format %Y%m%d is for dates in text" in text
    text = refused(write(tmp_path, stamped(DAYS)), time="t", time_format="day-first")
    assert "column 't' has numbers (the first is '31102025235957'), and --time-format day-first is for dates in text" in text


# Marks of thousands


def test_a_number_that_begins_with_zero_has_no_marks_of_thousands(tmp_path: Path):
    path = write(tmp_path, "x;u;r\n0.5;0,512;1\n0.6;0,513;1\n")
    text = refused(path, decimal=".")
    assert text == "log.csv: column 'u' is '0,512' in row 1, expected a number; if ',' is its decimal mark, say --decimal ','"
    # 50,000 rows tell that the point is the decimal mark; after them another one was set.
    rows = "0.5;0.512;1\n" * 50_000 + "0.6;0,512;1\n"
    assert "column 'u' is '0,512' in row 50001, expected a number" in refused(write(tmp_path, f"x;u;r\n{rows}"))


def test_marks_of_thousands_in_a_time_are_told(tmp_path: Path):
    path = write(tmp_path, "t;x;u;r\n1.000;0,5;0,1;1\n1.050;0,6;0,1;1\n1.100;0,7;0,1;1\n")
    assert "t: marks of thousands are taken out, as of '1.000'" in said(read(path, time="t"))


# Clocks within an episode


def test_midnight_passes_between_files_of_one_episode(tmp_path: Path):
    evening = write(tmp_path, "ep,t,x,u,r\n" + "".join(f"1,23:59:{57 + n},{n}.5,0.5,1\n" for n in range(3)), "a.csv")
    morning = write(tmp_path, "ep,t,x,u,r\n" + "".join(f"1,00:00:0{n},{10 + n}.5,0.5,1\n" for n in range(3)), "b.csv")
    imported = read(evening, morning, episode="ep", time="t", episode_ids="across-files")
    assert episodes(imported) == [[0.5, 1.5, 2.5, 10.5, 11.5, 12.5]]
    assert imported.findings.median_step == pytest.approx(1.0)
    assert "where one of an episode falls by more than half a day, midnight has passed" in said(imported)
    assert episodes(read(evening, morning, time="t")) == [[0.5, 1.5, 2.5], [10.5, 11.5, 12.5]]


def test_midnight_passes_over_a_missing_time_and_for_each_episode(tmp_path: Path):
    path = write(tmp_path, "ep,t,x,u,r\n1,23:59:59,0.5,0.5,1\n1,,1.5,0.5,1\n1,00:00:01,2.5,0.5,1\n1,00:00:02,3.5,0.5,1\n")
    imported = read(path, episode="ep", time="t", drop_incomplete_rows=True)
    assert episodes(imported) == [[0.5], [2.5, 3.5]]
    # The clock of machine b is two seconds late: it is not for a second and a third midnight that it stands before a's.
    clocks = [("a", "23:59:59"), ("b", "23:59:57"), ("a", "00:00:00"), ("b", "23:59:58"), ("a", "00:00:01"), ("b", "23:59:59")]
    text = "ep,t,x,u,r\n" + "".join(f"{id},{time},{number},0.5,1\n" for number, (id, time) in enumerate(clocks))
    imported = read(write(tmp_path, text), episode="ep", time="t")
    assert episodes(imported) == [[0, 2, 4], [1, 3, 5]]
    assert imported.findings.gaps == 0


def test_times_of_day_with_the_newest_first_are_refused(tmp_path: Path):
    path = write(tmp_path, "ep,t,x,u,r\n0,08:00:00,9,0.5,1\n1,00:00:00,1.5,0.5,1\n1,23:59:59,0.5,0.5,1\n")
    text = refused(path, episode="ep", time="t")
    assert text.startswith("log.csv: column 't' rises from 00:00:00 to 23:59:59 within an episode, in row 3: is the newest")
    morning_and_night = write(tmp_path, "ep,t,x,u,r\n0,06:00,1,0,1\n0,06:01,2,0,1\n1,20:00,3,0,1\n1,20:01,4,0,1\n")
    assert episodes(read(morning_and_night, episode="ep", time="t")) == [[1, 2], [3, 4]]


def berlin(clock: list[str]) -> str:
    return "ep,t,x,u,r\n" + "".join(f"1,2025-10-26 {time},{number},0.5,1\n" for number, time in enumerate(clock))


def test_the_hour_that_comes_twice_is_found_at_any_pace(tmp_path: Path):
    """A row every five minutes from 01:30 to 02:55, and then, where the clock went back, from 02:00:07 on."""
    first = [f"{1 + minute // 60:02}:{minute % 60:02}:00" for minute in range(30, 120, 5)]
    path = write(tmp_path, berlin([*first, "02:00:07", "02:05:07", "02:10:07", "03:00:07"]))
    text = refused(path, episode="ep", time="t")
    assert text.startswith("log.csv, row 19: the time goes back by an hour, from 2025-10-26 02:55:00 to 2025-10-26 02:00:07")
    imported = read(path, episode="ep", time="t", time_zone="Europe/Berlin")
    assert episodes(imported) == [[float(number) for number in range(22)]]


def test_the_hour_that_comes_twice_is_found_where_machines_alternate(tmp_path: Path):
    clocks = [("a", "02:59:58"), ("b", "02:59:58"), ("a", "02:59:59"), ("b", "02:59:59"), ("a", "02:00:00"), ("b", "02:00:00")]
    text = "ep,t,x,u,r\n" + "".join(f"{id},2025-10-26 {time},{n},0.5,1\n" for n, (id, time) in enumerate(clocks))
    assert refused(write(tmp_path, text), episode="ep", time="t").startswith("log.csv, row 5: the time goes back by an hour")


def test_a_late_row_is_no_clock_that_goes_back(tmp_path: Path):
    clock = ["09:00", "09:30", "10:00", "10:30", "11:30", "11:00", "12:00", "12:30", "13:00"]
    imported = read(write(tmp_path, berlin(clock)), episode="ep", time="t")
    assert episodes(imported) == [[0, 1, 2, 3, 5, 4, 6, 7, 8]]


# Units, and times that cannot be


def pressures(unit: str, *values: float) -> str:
    return f"p,u,r\n{unit},%,-\n" + "".join(f"{value},0.{number},1.5\n" for number, value in enumerate(values))


def test_a_column_has_one_unit_in_all_files(tmp_path: Path):
    bar = write(tmp_path, pressures("bar", 1.01, 1.02), "a.csv")
    mbar = write(tmp_path, pressures("mbar", 1010.1, 1020.2), "b.csv")
    text = refused(bar, mbar, observation=("p",))
    assert text.startswith("b.csv: the unit of column 'p' is 'mbar', and in a.csv it is 'bar'; units are not converted")
    silent = write(tmp_path, "p,u,r\n1.03,0.5,1.5\n1.04,0.6,1.5\n", "c.csv")
    assert "c.csv: the unit is not named as in other files: p (bar), u (%)" in said(read(bar, silent, observation=("p",)))
    assert "unit is not named" not in said(read(bar, observation=("p",)))


def test_units_in_parquet_files_are_compared(tmp_path: Path):
    import pyarrow.parquet

    paths = []
    for unit in ("s", "ms"):
        fields = [pyarrow.field(name, pyarrow.float64(), metadata={"unit": unit} if name == "t" else None) for name in "txur"]
        table = pyarrow.table([[0.0, 1.0]] * 4, schema=pyarrow.schema(fields))
        paths.append(tmp_path / f"{unit}.parquet")
        pyarrow.parquet.write_table(table, paths[-1])
    assert refused(*paths, time="t").startswith("ms.parquet: the unit of column 't' is 'ms', and in s.parquet it is 's'")


def test_a_time_beyond_all_times_is_named(tmp_path: Path):
    others = {"x": [0.0, 1.0], "u": [0.5, 0.5], "r": [1.0, 1.0]}
    path = write_parquet(tmp_path, t=[datetime(2025, 1, 1), datetime(9999, 12, 31)], **others)
    assert refused(path, time="t").startswith("log.parquet: column 't' is '9999-12-31 00:00:00.000000' in row 2, which")
    for time in ("9999-12-31 23:59:59.9999999", "0000-01-01 00:00:00"):
        path = write(tmp_path, stamped(["2025-01-01 00:00:00", time]))
        assert f"column 't' is {time!r} in row 2; years are from 1 to 9999" in refused(path, time="t", episode="ep")
    path = write(tmp_path, stamped(["0001-01-01 00:00:00", "0001-01-01 00:00:01"]))
    imported = read(path, time="t", time_zone="Europe/Berlin")  # UTC is of the year before
    assert "t is from -62135600008 s from 1970 to -62135600007 s from 1970 UTC" in said(imported)

"""CSV files as machines in Germany, France and the United States write them. Every number can be read off the text beside it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from small_tables import read, refused

from tether.data import locate
from tether.data.tables.importing import Imported
from tether.errors import TetherError

pytest.importorskip("pyarrow", reason="needs the extra tables")


def write(folder: Path, text: str, encoding: str = "utf-8", name: str = "log.csv") -> Path:
    (folder / name).write_bytes(text.encode(encoding))
    return folder / name


def rewards(imported: Imported) -> list[float]:
    return imported.rows.reward.tolist()


GERMAN = """Prüfstand 7;;
Zeit;Winkel [rad];Drehzahl [rad/s];Moment [Nm];Güte;Ende
24.12.2025 13:05:01,250;0,5;1.234,5;-1,5;-0,25;nein
24.12.2025 13:05:01,300;0,625;-7;1;-1,5;nein
24.12.2025 13:05:01,350;1;0;0;-2;ja
"""
GERMAN_COLUMNS = {
    "observation": ("Winkel [rad]", "*[rad/s]"),
    "action": ("Moment [Nm]",),
    "reward": "Güte",
    "terminated": "Ende",
    "time": "Zeit",
}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252"])
def test_a_german_file_is_read_in_any_encoding(tmp_path: Path, encoding: str):
    imported = read(write(tmp_path, GERMAN, encoding), **GERMAN_COLUMNS)
    np.testing.assert_allclose(imported.rows.observation, [[0.5, 1234.5], [0.625, -7], [1, 0]])
    np.testing.assert_allclose(imported.rows.action[:, 0], [-1.5, 1, 0])
    assert rewards(imported) == [-0.25, -1.5, -2.0]
    assert imported.rows.terminated.tolist() == [0, 0, 1]
    assert imported.findings.median_step == pytest.approx(0.05, abs=1e-6)
    assert [fact.unit for fact in imported.columns] == ["rad", "rad/s", "Nm", None]
    said = "\n".join(imported.assumptions)
    for guess in (
        "delimited by semicolons",
        "the line before the header",
        "the comma is the decimal mark",
        "marks of thousands are taken out, as of '1.234,5'",
        "24.12.2025 13:05:01,250 is 24 December 2025",
        "Zeit is from 2025-12-24 13:05:01.25 to 2025-12-24 13:05:01.35",
    ):
        assert guess in said
    assert ("encoded as" in said) == (encoding not in ("utf-8", "utf-8-sig"))


def test_a_french_file_groups_by_spaces_and_a_swiss_one_by_apostrophes(tmp_path: Path):
    french = write(tmp_path, "x;u;r\n1\u202f234,5;0,5;1\n12 345;1,5;vide\n".replace("vide", "2"))
    np.testing.assert_allclose(read(french).rows.observation[:, 0], [1234.5, 12345])
    swiss = write(tmp_path, "x;u;r\n1'234.5;0.5;1\n7;1.5;2\n")
    np.testing.assert_allclose(read(swiss).rows.observation[:, 0], [1234.5, 7])


AMERICAN = """# bench 7, firmware 1.2
# started by J. Doe
t, x, u, r, ok
s, psi, V, -, -
12/24/2025 1:05:01.250 PM, "1,234.5", 0.5, -1, Yes
# paused
12/24/2025 1:05:01.300 PM, 7, +1.5, NA, no
12/24/2025 1:05:01.350 PM, 8, 1.5, 3, no
12/24/2025 1:05:01.400 PM, 9, 1.5, 3, no
"""


def test_an_american_file_with_comments_units_and_am_pm(tmp_path: Path):
    path = write(tmp_path, AMERICAN.replace("\n", "\r\n"))
    options = {"time": "t", "observation": ("x", "ok")}
    assert refused(path, **options).startswith("log.csv, row 2 (line 7): column 'r' is empty or not a finite number")
    imported = read(path, **options, drop_incomplete_rows=True)
    np.testing.assert_allclose(imported.rows.observation, [[1234.5, 1], [8, 0], [9, 0]])
    assert [fact.unit for fact in imported.columns] == ["psi", None, "V", None]
    said = "\n".join(imported.assumptions)
    for guess in (
        "lines that begin with # are comments",
        "has units",
        "ok: Yes is 1, no is 0",
        "is 24 December 2025",
        "13:05:01.25",
    ):
        assert guess in said, guess


def test_a_header_may_be_a_comment_and_none_at_all_is_refused(tmp_path: Path):
    path = write(tmp_path, "# made by savetxt\n# x,u,r\n1.5,2,3\n4,5,6\n")
    np.testing.assert_allclose(read(path).rows.observation[:, 0], [1.5, 4])
    assert "write the names of the columns above it" in refused(write(tmp_path, "1.5,2,3\n4,5,6\n"))


def test_what_stands_in_a_text_or_in_a_name_is_no_delimiter(tmp_path: Path):
    rows = "".join(f"{number},2,3,left;right\n" for number in range(6))
    assert len(read(write(tmp_path, f"x,u,r,note\n{rows}")).rows.reward) == 6
    rows = "".join(f"{number},5;2,5;3\n" for number in range(6))  # three fields by commas, too, as the header has
    named = read(write(tmp_path, f"Druck, bar;Hub, mm;r\n{rows}"), observation=("Druck, bar",), action=("Hub, mm",))
    assert named.rows.observation[:, 0].tolist() == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]


def test_options_go_before_guesses(tmp_path: Path):
    path = write(tmp_path, "a;b\nx|u|r\n!no\n0,5|1|2\n1,5|2|3\n")
    told = {"delimiter": "|", "comment": "!", "skip_lines": 1, "decimal": ",", "encoding": "latin-1"}
    assert read(path, **told).rows.observation[:, 0].tolist() == [0.5, 1.5]
    assert "--encoding is 'utf-99'" in refused(path, encoding="utf-99")
    assert "--encoding" in refused(write(tmp_path, "x;u;r\nä;1;1\n", "cp1252"), encoding="utf-8")


THREE_DIGITS = "x;u;r\n1.234;2;3\n5.678;2;3\n"


def test_what_may_be_a_thousand_is_asked_unless_something_tells(tmp_path: Path):
    path = write(tmp_path, THREE_DIGITS)
    said = refused(path)
    assert said.startswith("log.csv: is '1.234' a little more than 1, or 1234?")
    assert "--decimal '.'" in said
    assert read(path, decimal=".").rows.observation[0, 0] == pytest.approx(1.234)
    assert read(path, decimal=",").rows.observation[0, 0] == 1234
    other = write(tmp_path, "x;u;r\n1,5;2;3\n2,5;3;4\n", name="other.csv")
    both = read(path, other)  # the same machine: the comma is its decimal mark
    assert both.rows.observation[0, 0] == 1234
    assert any("where other files have it" in text for text in both.assumptions)
    # Between commas the point can only be the decimal mark.
    assert read(write(tmp_path, THREE_DIGITS.replace(";", ","))).rows.observation[0, 0] == pytest.approx(1.234)
    assert "has both '1,5' and '2.25'" in refused(write(tmp_path, "x;u;r\n1,5;2.25;3\n2,5;3;4\n"))


def dated(*times: str) -> str:
    return "t;run;x;u;r\n" + "".join(f"{time};a;{number};1;{number}\n" for number, time in enumerate(times))


@pytest.mark.parametrize(
    ("times", "option", "expected"),
    [
        (("03/04/2025 10:00", "25/04/2025 10:00"), None, "2025-04-03 10:00"),
        (("03/04/2025 10:00", "03/25/2025 10:00"), None, "2025-03-04 10:00"),
        (("03/04/2025 10:00", "03/04/2025 10:01"), "day-first", "2025-04-03 10:00"),
        (("03/04/2025 10:00", "03/04/2025 10:01"), "month-first", "2025-03-04 10:00"),
        (("2025-12-24T13:05:01+01:00", "2025-12-24T13:06:01+01:00"), None, "2025-12-24 12:05:01"),
        (("24-Dez-2025 12:00:01 AM", "24-Dez-2025 12:00:02 AM"), None, "2025-12-24 00:00:01"),
        (("24.12.25", "25.12.25"), None, "2025-12-24"),
        (("20251224 130501", "20251224 130502"), "%Y%m%d %H%M%S", "2025-12-24 13:05:01"),
    ],
)
def test_dates_are_read_in_the_order_that_they_can_only_have(tmp_path: Path, times, option, expected: str):
    imported = read(write(tmp_path, dated(*times)), time="t", time_format=option)
    said = next(text for text in imported.assumptions if text.startswith("t is from"))
    assert datetime.fromisoformat(expected).isoformat(" ") in said


@pytest.mark.parametrize(
    ("times", "said"),
    [
        (
            ("03/04/2025", "03/05/2025"),
            "is '03/04/2025' day first or month first? No date of the log tells; say --time-format day-first",
        ),
        (("13/04/2025", "04/13/2025"), "'13/04/2025' has its day first and '04/13/2025' has it second"),
        (("24.12.2025 13:05", "31.11.2025 13:05"), "column 't' is '31.11.2025 13:05' in row 2, which is no time"),
        (("24.12.2025 13:05", "soon"), "column 't' is 'soon' in row 2, where others are times such as '24.12.2025 13:05'"),
        (("later", "soon"), "column 't' is 'later' in row 1, which is neither a number nor a time"),
        (("2025-12-24 13:05Z", "2025-12-24 13:06"), "is '2025-12-24 13:06' in row 2, without the time zone that others have"),
        (("2025-12-24 13:05", "2025-12-24 13:04"), "the time goes back from 2025-12-24 13:05:00 to 2025-12-24 13:04:00"),
    ],
)
def test_dates_that_cannot_be_read_are_shown(tmp_path: Path, times, said: str):
    assert said in refused(write(tmp_path, dated(*times)), time="t")


def test_the_hour_that_comes_twice_needs_a_zone(tmp_path: Path):
    """In Berlin 2025-10-26 03:00 was followed by 02:00: four rows half an hour apart, the last two of the second pass."""
    clock = ("01:30", "02:00", "02:30", "02:00", "02:30", "03:00")
    path = write(tmp_path, dated(*(f"26.10.2025 {time}" for time in clock)))
    named = {"time": "t", "episode": "run"}
    said = refused(
        write(tmp_path, dated(*(f"26.10.2025 02:{m:02}:{s}" for m in (59,) for s in (58, 59)), "26.10.2025 02:00:00")), **named
    )
    assert said.startswith("log.csv, row 3: the time goes back by an hour, from 2025-10-26 02:59:59 to 2025-10-26 02:00:00")
    path = write(tmp_path, dated(*(f"26.10.2025 {time}" for time in clock)))
    imported = read(path, **named, time_zone="Europe/Berlin")
    assert rewards(imported) == [0, 1, 2, 3, 4, 5]  # in the order in which they were written
    assert imported.findings.median_step == 1800.0
    assert "t is from 2025-10-25 23:30:00 to 2025-10-26 02:00:00 UTC" in imported.assumptions
    assert "--time-zone is 'Berlin'" in refused(path, **named, time_zone="Berlin")
    skipped = write(tmp_path, dated("30.03.2025 01:59", "30.03.2025 02:30"))
    assert "is 2025-03-30 02:30:00 in row 2, which Europe/Berlin skipped" in refused(skipped, **named, time_zone="Europe/Berlin")


def test_times_of_day_go_on_after_midnight(tmp_path: Path):
    imported = read(write(tmp_path, dated("23:59:59,5", "00:00:00,5", "00:00:01,5")), time="t", episode="run")
    assert rewards(imported) == [0, 1, 2]
    assert imported.findings.median_step == pytest.approx(1.0)


@pytest.mark.parametrize(("keep", "kept"), [("first", [0, 1, 4]), ("last", [0, 3, 4])])
def test_of_rows_of_one_time_the_first_or_the_last_is_kept(tmp_path: Path, keep: str, kept: list[float]):
    path = write(tmp_path, dated("0", "1", "1", "1", "2"))
    assert refused(path, time="t").endswith("(2 such rows); say which is to be kept: --duplicates first or last")
    imported = read(path, time="t", duplicates=keep)
    assert rewards(imported) == kept
    assert (imported.findings.conflicts_dropped, imported.findings.duplicates_dropped) == (2, 0)
    assert "--duplicates is about rows of one time" in refused(path, duplicates=keep)


def test_a_row_of_another_length_is_shown_and_dropped_if_asked(tmp_path: Path):
    path = write(tmp_path, "x,u,r\n1,2,3\n4,5,6\n7,8\n9,1,2\n3,4,5\n")
    assert "log.csv: cannot be read: row 3 (line 4) has 2 fields, the header has 3: '7,8'" in refused(path)
    imported = read(path, drop_incomplete_rows=True)
    assert rewards(imported) == [3, 6, 2, 5]
    assert imported.truncated.tolist() == [False, True, False, True]  # cut where the row was
    broken = "x,u,r\n1,5,2,5,3,5\n1,5,2,5,3,5\n"
    assert "is the comma its decimal mark too?" in refused(write(tmp_path, broken))


def test_a_value_is_named_with_its_row_and_what_would_do(tmp_path: Path):
    text = "x;u;r\n1.5;2;3\n4;5;" + "6,5\n"
    assert refused(write(tmp_path, text), decimal=".") == (
        "log.csv: column 'r' is '6,5' in row 2, expected a number; if ',' is its decimal mark, say --decimal ','"
    )


def test_parquet_has_the_same_words_for_times(tmp_path: Path):
    import pyarrow
    import pyarrow.parquet

    start = datetime(2026, 3, 2, 6, tzinfo=UTC)
    table = pyarrow.table({"t": [start, start], "x": [1.0, 2.0], "u": [1.0, 2.0], "r": [1.0, 2.0]})
    pyarrow.parquet.write_table(table, tmp_path / "log.parquet")
    assert "has the time (2026-03-02 06:00:00)" in refused(tmp_path / "log.parquet", time="t")


def test_a_table_is_no_dataset_yet():
    with pytest.raises(TetherError, match=r"bench.csv is a table, not a dataset yet; .* tether data import bench.csv"):
        locate("bench.csv")

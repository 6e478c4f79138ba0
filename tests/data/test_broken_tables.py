"""Tables that are damaged, or only look it: no row may vanish without a word. Every number can be read off the text beside it."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from small_tables import read, refused

from tether.data import locate
from tether.data.tables.dialect import CsvOptions
from tether.data.tables.importing import Imported
from tether.errors import TetherError

pytest.importorskip("pyarrow", reason="needs the extra tables")


def write(folder: Path, *lines: str, name: str = "log.csv") -> Path:
    (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder / name


def observed(imported: Imported) -> list[float]:
    return imported.rows.observation[:, 0].tolist()


def said(imported: Imported) -> str:
    return "\n".join(imported.assumptions)


# Files of a folder


def test_the_end_of_a_name_may_be_in_capitals(tmp_path: Path):
    import pyarrow.parquet

    folder = tmp_path / "logs"
    folder.mkdir()
    write(folder, "x,u,r", "1.5,0.1,1", "2.5,0.2,1", name="log_1.csv")
    write(folder, "x,u,r", "3.5,0.1,1", "4.5,0.2,1", name="LOG_2.CSV")
    (folder / "log_3.CSV.GZ").write_bytes(gzip.compress(b"x,u,r\n5.5,0.1,1\n6.5,0.2,1\n"))
    pyarrow.parquet.write_table(pyarrow.table({"x": [7.5], "u": [0.1], "r": [1.0]}), folder / "log_4.PARQUET")
    with (folder / "log_5.NPZ").open("wb") as file:
        np.savez(file, x=[8.5, 9.5], u=[0.1, 0.2], r=[1.0, 1.0])
    imported = read(folder)
    assert observed(imported) == [1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5]
    assert "passed over" not in said(imported)
    assert observed(read(folder / "LOG_2.CSV")) == [3.5, 4.5]
    with pytest.raises(TetherError, match=r"LOG_2\.CSV is a table, not a dataset yet"):
        locate("LOG_2.CSV")


def test_what_is_passed_over_in_a_folder_is_said(tmp_path: Path):
    write(tmp_path, "x,u,r", "1.5,0.1,1", "2.5,0.2,1")
    for name in ("run_10.xlsx", "run_9.xlsx", "log.csv.bak", "README", ".hidden"):
        (tmp_path / name).touch()
    (tmp_path / "older").mkdir()
    assert (
        f"{tmp_path}: passed over, as no table that is read: log.csv.bak, older/, README, run_9.xlsx and 1 more (.xlsx), 1 hidden"
        in read(tmp_path).assumptions
    )


# Columns of Parquet files


def write_categories(folder: Path) -> Path:
    import pyarrow
    import pyarrow.parquet

    columns = {
        "t": ["2026-01-02 00:00:00", "2026-01-02 00:00:01", "2026-01-02 00:00:02", "2026-01-02 00:00:03"],
        "x": ["1.5", "2.5", "3.5", "4.5"],
        "u": ["a", "b", "a", None],
        "run": [7, 7, 7, 7],
    }
    table = pyarrow.table({name: pyarrow.array(values).dictionary_encode() for name, values in columns.items()})
    pyarrow.parquet.write_table(table.append_column("r", pyarrow.array([1.0, 2.0, 3.0, 4.0])), folder / "log.parquet")
    return folder / "log.parquet"


def test_columns_of_categories_are_read_as_their_values(tmp_path: Path):
    path = write_categories(tmp_path)
    options = {"time": "t", "episode": "run", "action_choices": ("a", "b")}
    assert "row 4: column 'u' is empty" in refused(path, **options)
    imported = read(path, **options, drop_incomplete_rows=True)
    assert observed(imported) == [1.5, 2.5, 3.5]
    assert imported.rows.action.tolist() == [[1, 0], [0, 1], [1, 0]]
    assert imported.findings.median_step == 1.0
    assert "column 'u' is 'a' in row 1, expected a number" in refused(path)


def test_a_superscript_in_a_name_is_no_number(tmp_path: Path):
    path = write(tmp_path, "I1²,I10,I2,u,r", "1,10,2,0.1,1", "1,10,2,0.2,1")
    assert [fact.name for fact in read(path, observation=("I*",)).columns][:3] == ["I1²", "I2", "I10"]


# Quotes in a CSV file

HEADER = "x,u,r,note"
ONE = "1 quoted field goes"


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        # A stray quote, and no other below it.
        (
            ("1.5,0.1,1,ok", '2.5,0.2,1,"start', "3.5,0.3,1,ok", "4.5,0.4,1,ok"),
            "line 3 begins a field that does not end, so that all lines below it would be in it: '2.5,0.2,1,\"start'",
        ),
        # A note cut off; the next quote begins one.
        (
            ('1.5,0.1,1,"ok"', '2.5,0.2,1,"Mot', '3.5,0.3,1,"ok"', '4.5,0.4,1,"ok"'),
            "line 3 begins a field that goes on into line 4, which is a row by itself: '2.5,0.2,1,\"Mot'",
        ),
        # Two strays.
        (
            ("1.5,0.1,1,ok", '2.5,0.2,1,"start', "3.5,0.3,1,ok", '4.5,0.4,1,"stop', "5.5,0.5,1,ok"),
            "line 3 begins a field that goes on into line 4, which is a row by itself",
        ),
        # A row without a reward is one, too; so is one with a mark of inches at the end.
        (("1.5,0.1,1,ok", '2.5,0.2,1,"start', '3.5,0.3,,12"', "4.5,0.4,1,ok"), "goes on into line 4"),
        # The first rows, so that no row above tells what one looks like.
        (('1.5,0.1,1,"ok', '2.5,0.2,1,"ok"', "3.5,0.3,1,ok"), "line 2 begins a field that goes on into line 3"),
    ],
)
@pytest.mark.parametrize("comments", [(), ("# bench 7",)])  # with comments, lines are read in another way
def test_a_quote_that_would_swallow_rows_is_refused(tmp_path: Path, lines: tuple[str, ...], why: str, comments: tuple[str, ...]):
    path = write(tmp_path, HEADER, *lines, *comments)
    message = refused(path)
    assert message.startswith("log.csv: cannot be read: a quote in line ")
    assert why in message
    assert refused(path, drop_incomplete_rows=True) == message


@pytest.mark.parametrize(
    "lines",
    [
        ('"Mot,1.5,0.1,1', '"ok",2.5,0.2,1', "ok,3.5,0.3,1"),  # the row in which it begins was whole
        ('"Mot', '"ok",2.5,0.2,1', "ok,3.5,0.3,1"),  # text after the end of a field
        ('"12,1.5,0.1,1', '13",2.5,0.2,1', "ok,3.5,0.3,1"),
    ],
)
def test_so_it_is_in_the_first_column(tmp_path: Path, lines: tuple[str, ...]):
    path = write(tmp_path, "note,x,u,r", "ok,0.5,0,1", *lines)
    assert "line 3 begins a field that goes on into line 4, which is a row by itself" in refused(path)


@pytest.mark.parametrize(
    ("lines", "go"),
    [
        ((HEADER, "1.5,0.1,1,ok", '2.5,0.2,1,"start', '12:03, restarted, ""warm"", all fine"', "3.5,0.3,1,ok"), ONE),
        ((HEADER, "1.5,0.1,1,ok", '2.5,0.2,1,"start', "restarted, 1, 2, 3", "", 'fine"', "3.5,0.3,1,ok"), ONE),
        (("note,x,u,r", "ok,1.5,0.1,1", '"start', 'restarted",2.5,0.2,1', "ok,3.5,0.3,1"), ONE),
        (("x,note,u,r", "1.5,ok,0.1,1", '2.5,"start', 'restarted, fine",0.2,1', "3.5,ok,0.3,1"), ONE),
        (
            ('x,u,r,note,"more"', '1.5,0.1,1,"","a, b"', '2.5,0.2,1,"a', 'b","c', 'd"', '3.5,0.3,1,"12"" pipe",""'),
            "2 quoted fields go",
        ),
    ],
)
def test_a_note_of_several_lines_is_read_and_said(tmp_path: Path, lines: tuple[str, ...], go: str):
    imported = read(write(tmp_path, *lines))
    assert observed(imported) == [1.5, 2.5, 3.5]
    assert f"log.csv: {go} over several lines, the first at line 3" in imported.assumptions


def test_rows_and_lines_are_counted_past_a_note_of_several_lines(tmp_path: Path):
    path = write(tmp_path, HEADER, '1.5,0.1,1,"two', 'lines"', "", "2.5,0.2,1", "3.5,0.3,1,ok", "4.5,0.4,1,ok")
    assert "row 2 (line 5) has 3 fields, the header has 4" in refused(path)
    assert observed(read(path, drop_incomplete_rows=True)) == [1.5, 3.5, 4.5]
    path = write(tmp_path, HEADER, '1.5,0.1,1,"two', 'lines"', "2.5,0.2,1,ok", "3.5,,1,ok")
    assert "log.csv, row 3 (line 5): column 'u' is empty" in refused(path)


def test_quotes_that_swallow_nothing_are_left_alone(tmp_path: Path):
    path = write(tmp_path, HEADER, '1.5,0.1,1,12"', '"2.5",0.2,1,"a, ""b"""', "", '3.5,0.3,1,"cut')
    imported = read(path)
    assert observed(imported) == [1.5, 2.5, 3.5]
    assert "quoted" not in said(imported)
    for end in ("\r\n", "\r"):
        (tmp_path / "other.csv").write_bytes(end.join([HEADER, '1.5,0.1,1,"ok"', "", "2.5,0.2,1,ok"]).encode())
        assert observed(read(tmp_path / "other.csv")) == [1.5, 2.5]


def test_a_field_that_is_too_long_is_an_error(tmp_path: Path):
    path = write(tmp_path, HEADER, "1.5,0.1,1,ok", f"2.5,0.2,1,{'a' * 200_000}")
    assert refused(path) == "log.csv: cannot be read: field larger than field limit (131072)"


def test_lines_are_counted_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from tether.data.tables import separated

    monkeypatch.setattr(separated, "BLOCK", 7)
    (tmp_path / "log.csv").write_bytes(b'x,u,r\r\n1.5,2,3\r\n\r\n4.5,"5",6\r\n')
    assert separated._count_lines(tmp_path / "log.csv") == 3


# Comments


@pytest.mark.parametrize("error", ["#N/A", "#DIV/0!", "#REF!", "#VALUE!", "#NUM!", "#NAME?", "#NULL!", "#NV", "#WERT!", " #N/A "])
def test_an_error_of_excel_in_the_first_column_is_no_comment(tmp_path: Path, error: str):
    path = write(tmp_path, "x,u,r", "1.5,0.1,1", f"{error},0.2,1", "3.5,0.3,1", "4.5,0.4,1")
    message = refused(path)
    assert f"column 'x' is '{error}' in row 2" in message or "row 2: column 'x' is empty" in message
    path = write(tmp_path, "note,x,u,r", "ok,1.5,0.1,1", f"{error},2.5,0.2,1", "# paused", "ok,3.5,0.3,1")
    imported = read(path)
    assert observed(imported) == [1.5, 2.5, 3.5]
    assert "log.csv: 1 comment line stands between rows" in imported.assumptions


def test_an_empty_cell_of_excel_is_dropped_with_a_cut(tmp_path: Path):
    path = write(tmp_path, "x,u,r", "1.5,0.1,1", "2.5,0.1,1", "#N/A,0.2,1", "3.5,0.3,1", "4.5,0.4,1")
    imported = read(path, drop_incomplete_rows=True)
    assert observed(imported) == [1.5, 2.5, 3.5, 4.5]
    assert imported.truncated.tolist() == [False, True, False, True]
    assert "comments" not in said(imported)


def test_comments_between_rows_are_counted(tmp_path: Path):
    one = write(tmp_path, "# bench 7", "x,u,r", "# begins", "1.5,0.1,1", "# paused", "", "#2.5,0.2,1", "3.5,0.3,1", "# ends")
    two = write(tmp_path, "x,u,r", "1.5,0.1,1", "# paused", "3.5,0.3,1", name="two.csv")
    three = write(tmp_path, "# bench 7", "x,u,r", "1.5,0.1,1", "3.5,0.3,1", name="three.csv")
    assert "log.csv and 1 more: 3 comment lines stand between rows" in read(one, two, three).assumptions
    assert "between rows" not in said(read(three))


def test_a_comment_is_found_at_the_end_of_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from tether.data.tables import dialect

    for block in range(4, 12):
        monkeypatch.setattr(dialect, "BLOCK", block)
        path = write(tmp_path, "x,u,r", "1.5,0.1,1", "#N/A,0.2,1", "3.5,0.3,1")
        assert "row 2: column 'x'" in refused(path)  # and not (line 3): nothing was taken for a comment
        assert dialect.guess_dialect(path, CsvOptions()).comment is None
        path = write(tmp_path, "x,u,r", "1.5,0.1,1", "# paused", "3.5,0.3,1")
        assert dialect.guess_dialect(path, CsvOptions()).comment == "#"

"""No way to show runs is silent on those that have no result."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from written import write_all, write_run

from tether import cli
from tether.report import statistics
from tether.report.gathered import Gap, Gathered, gather
from tether.report.left_out import left_out_line
from tether.report.page.content import make_page
from tether.storage import write_json


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Of bc-none three seeds of three, of td3-cvae two of three, of iql-none none of two: those diverged."""
    names = []
    for seed in range(3):
        write_run(tmp_path, "mine", "bc-none", seed, 10.0 + seed)
        write_run(tmp_path, "mine", "td3-cvae", seed, 20.0 + seed, finished=seed != 1)
    for seed in range(2):
        names.append(f"mine/iql-none/s{seed}")
        why = f"critic/q is nan at step {seed + 1}00 (run s{seed}): the critic is exploding; there is no checkpoint yet"
        write_json(tmp_path / "_sweep" / "failed" / f"{names[-1]}.json", {"reason": why})
    write_json(tmp_path / "_sweep" / "plan.json", {"plan": "p", "runs": names, "chosen_by": "", "episodes": 0})
    return tmp_path


def line(runs: Path) -> str:
    return (
        f"3 runs: 1 unfinished ({runs}/mine/td3-cvae s1: at step 2,000 of 2,000), 2 failed ({runs}/mine/iql-none s0, s1, all its "
        "seeds: critic/q is nan at step 100 (run s0): the critic is exploding)"
    )


def test_a_line_says_which_runs_and_why(runs: Path):
    assert left_out_line(gather([runs])) == line(runs)
    assert left_out_line(gather([runs / "mine" / "bc-none"])) == ""


def test_runs_are_named_from_the_folder_that_was_asked_for(runs: Path, monkeypatch: pytest.MonkeyPatch):
    """Also those of which the head of a sweep alone knows, and that lie beside it."""
    monkeypatch.chdir(runs)
    assert {gap.folder for gap in gather([Path("mine")]).gaps} == {"mine/td3-cvae", "mine/iql-none"}


def test_seeds_that_failed_in_other_ways_are_told_apart():
    why = ["q is nan at step 1 of this very long run of ours", "q is nan at step 25 of this very long run of ours", "no space"]
    told = left_out_line(Gathered((), tuple(Gap(f"r/s{seed}", "failed", reason) for seed, reason in enumerate(why))))
    assert told == f"3 runs: 3 failed (r s0, s1, s2, all its seeds: {why[0]} and no space)"


def test_of_many_a_few_are_named_and_the_rest_are_counted():
    gaps = [Gap(f"r/m{number}/s0", "failed", "x" * 500) for number in range(9)] + [Gap("r/alone", "unreadable", "no")]
    told = left_out_line(Gathered((), tuple(gaps)))
    assert told.startswith(f"10 runs: 9 failed (r/m0 s0, its one seed: {'x' * 120}…; r/m1 s0")
    assert told.endswith("…; and 6 more), 1 unreadable (r/alone: no)")


@pytest.mark.parametrize("way", [[], ["--markdown"], ["--tasks"], ["--against", "bc-none"], ["--statistics", "--markdown"]])
def test_tables_say_what_they_leave_out(
    runs: Path, way: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    if "--statistics" in way:
        pytest.importorskip("rliable")
        monkeypatch.setattr(statistics, "RESAMPLES", 50)
    assert cli.main(["report", str(runs), *way]) == 0
    assert f"left out: {line(runs)}\n" in capsys.readouterr().out


def test_the_number_of_seeds_is_beside_how_many_there_should_be(runs: Path, capsys: pytest.CaptureFixture[str]):
    assert [group.seeds for group in gather([runs]).groups] == ["3", "2 of 3"]
    for way in ("--markdown", "--tasks"):
        assert cli.main(["report", str(runs), way]) == 0
        out = capsys.readouterr().out
        assert "(3 seeds)" in out
        assert "(2 of 3 seeds)" in out
    (runs / "mine" / "td3-cvae" / "s2" / "result.json").unlink()
    assert cli.main(["report", str(runs), "--markdown"]) == 0
    assert "td3-cvae (1 of 3 seeds)" in capsys.readouterr().out


def test_what_other_programs_read_has_it_too(runs: Path, capsys: pytest.CaptureFixture[str]):
    assert cli.main(["report", str(runs), "--latex"]) == 0
    assert f"% left out: {line(runs)}\n" in capsys.readouterr().out
    assert cli.main(["report", str(runs), "--csv"]) == 0
    out, told = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(out)))
    assert {(row["method"], row["seeds"], row["missing"]) for row in rows} == {("bc-none", "3", "0"), ("td3-cvae", "2", "1")}
    assert f"left out: {line(runs)}\n" in told


def test_the_page_says_it_below_its_table_and_beside_the_method(runs: Path):
    text = make_page(gather([runs]), "runs")
    table = text[text.index('<section id="table">') :].split("</section>")[0]
    assert f'<p class="note">Left out: {line(runs)}. <a href="#missing">' in table
    assert '<th scope="row">td3-cvae</th><td>2 of 3</td>' in text
    assert "<summary>td3-cvae: 2 of 3 seeds</summary>" in text


def test_runs_that_are_half_made_are_named_where_none_is_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_run(tmp_path, "mine", "bc-none", 0, 1.0, finished=False)
    told = f"1 run: 1 unfinished ({tmp_path}/mine/bc-none s0, its one seed: at step 2,000 of 2,000)"
    for way in ([], ["--tasks"], ["--statistics"], ["--against", "bc-none"], ["--csv"], ["--latex"]):
        assert cli.main(["report", str(tmp_path), *way]) == 2
        assert capsys.readouterr().err == f"error: no finished run in {tmp_path}; {told}\n"


def test_a_result_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_all(tmp_path)
    assert cli.main(["report", str(tmp_path), "--markdown"]) == 0
    out = capsys.readouterr().out
    assert "1 unreadable (" in out
    assert "| hopper-medium-v2/bc-none (2 seeds) " in out


def test_without_a_folder_it_says_what_it_takes(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["report"]) == 2
    assert capsys.readouterr().err == "error: tether report takes folders, such as runs\n"

"""`tether report --against`: every method beside one, with the same seeds."""

from __future__ import annotations

from pathlib import Path

import pytest
from written import write_run

from tether import cli
from tether.errors import TetherError
from tether.report.against import against_lines
from tether.report.gathered import gather


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """On mine: 10, 20, 30 beside 13, 19, 38 and of a seed that the first lacks; on yours one seed each."""
    for seed, plain, held in ((0, 10.0, 13.0), (1, 20.0, 19.0), (2, 30.0, 38.0)):
        write_run(tmp_path, "mine", "bc-none", seed, plain)
        write_run(tmp_path, "mine", "td3-cvae", seed, held)
    write_run(tmp_path, "mine", "td3-cvae", 7, 90.0)
    write_run(tmp_path, "yours", "bc-none", 0, 50.0)
    write_run(tmp_path, "yours", "td3-cvae", 0, 48.5)
    write_run(tmp_path, "yours", "iql-none", 4, 1.0)
    return tmp_path


def test_a_cell_is_the_mean_and_what_the_same_seeds_gained(runs: Path):
    lines, left_out = against_lines(gather([runs]).groups, "bc-none")
    assert lines == [
        ["method", "mine", "yours"],
        ["bc-none", "20.0 (3 seeds)", "50.0"],
        ["td3-cvae", "23.3, +3.3 [-1.0, +8.0] (3 seeds)", "48.5, -1.5"],  # 70 / 3, and 3, -1, 8
        ["iql-none", "–", "–"],
    ]
    assert left_out == [
        "td3-cvae on mine: seed 7, which bc-none has no run of",
        "iql-none on yours: seed 4, which bc-none has no run of",
    ]


def test_it_takes_the_score_that_is_asked_for(runs: Path):
    lines, _ = against_lines(gather([runs]).groups, "td3-cvae", "last_ten")
    assert lines[1] == ["td3-cvae", "35.0 (4 seeds)", "43.5"]  # 5 less than the last
    assert lines[2] == ["bc-none", "15.0, -3.3 [-8.0, +1.0] (3 seeds)", "45.0, +1.5"]


def test_a_method_that_is_not_there_and_units_that_do_not_compare_are_errors(runs: Path):
    groups = gather([runs]).groups
    with pytest.raises(TetherError, match=r"^--against bc-nine: there is no such method here; did you mean bc-none\?$"):
        against_lines(groups, "bc-nine")
    result = groups[0].runs[0].result
    assert result is not None
    result["score_unit"] = "return"
    with pytest.raises(TetherError, match=r"^mine: some scores are normalised and some are returns"):
        against_lines(groups, "bc-none")


def test_the_command_prints_it_and_what_it_left_out(runs: Path, capsys: pytest.CaptureFixture[str]):
    assert cli.main(["report", str(runs), "--against", "bc-none", "--markdown"]) == 0
    out = capsys.readouterr().out
    assert "| td3-cvae | 23.3, +3.3 [-1.0, +8.0] (3 seeds) | 48.5, -1.5 |\n" in out
    assert "left out: td3-cvae on mine: seed 7, which bc-none has no run of\n" in out
    assert cli.main(["report", str(runs), "--against", "bc-none"]) == 0
    assert "its mean difference from bc-none with the same seeds [least, most]" in " ".join(capsys.readouterr().out.split())
    for other in ("--tasks", "--statistics", "--policies", "--csv"):
        assert cli.main(["report", str(runs), "--against", "bc-none", other]) == 2

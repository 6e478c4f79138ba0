"""`tether report --tasks`: methods by tasks."""

from __future__ import annotations

from pathlib import Path

import pytest
from written import write_all, write_run

from tether import cli
from tether.report.by_task import by_task_lines
from tether.report.gathered import gather


def test_a_cell_is_last_last_ten_and_best_and_what_was_not_run_is_a_dash(tmp_path: Path):
    for seed in (0, 1):
        write_run(tmp_path, "mine", "bc-none", seed, 10.0 + seed)  # the last ten 5 less, the best 5 more
    write_run(tmp_path, "mine", "td3-cvae", 0, 50.0)
    write_run(tmp_path, "yours", "td3-cvae", 0, 60.0)
    assert by_task_lines(gather([tmp_path]).groups) == [
        ["method", "mine", "yours"],
        ["bc-none", "10.5 / 5.5 / 15.5 (2 seeds)", "–"],
        ["td3-cvae", "50.0 / 45.0 / 55.0", "60.0 / 55.0 / 65.0"],
    ]


def test_a_variant_of_two_sweeps_is_one_line_where_their_tasks_differ(tmp_path: Path):
    for plan, task, last in (("one", "mine", 10.0), ("two", "yours", 20.0)):
        for variant in ("plain", "wide"):
            write_run(tmp_path / plan, task, "bc-none", 0, last)
            method = tmp_path / plan / task / "bc-none"
            (method / variant).mkdir()
            (method / "s0").rename(method / variant / "s0")  # as a sweep has it
    lines = by_task_lines(gather([tmp_path]).groups)
    assert [line[0] for line in lines] == ["method", "plain", "wide"]
    assert lines[1][1:] == ["10.0 / 5.0 / 15.0", "20.0 / 15.0 / 25.0"]


def test_the_command_prints_it_and_what_its_choices_cost(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "runs").mkdir()
    write_all(tmp_path / "runs")
    assert cli.main(["report", str(tmp_path / "runs" / "hopper-medium-v2"), "--tasks", "--markdown"]) == 0
    heading, _, cloned, held, paper, *rest = capsys.readouterr().out.splitlines()
    assert [cell.strip() for cell in heading.split("|")[1:-1]] == ["method", "hopper-medium-v2"]
    assert "40.5 / 35.5 / 45.5 (2 seeds)" in cloned
    assert "**50.5** / **45.5** / **55.5** (2 seeds)" in held
    assert "55.9 ± 11.4" in paper
    assert rest[-1].startswith("the paper:")
    assert rest[-2].startswith("episodes in the environment that choices cost")
    assert cli.main(["report", str(tmp_path / "runs" / "hopper-medium-v2"), "--tasks", "--policies"]) == 2
    assert "--tasks is a table by itself" in capsys.readouterr().err

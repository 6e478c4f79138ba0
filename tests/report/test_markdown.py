"""The tables for a page have the paper's rule and its numbers, as LaTeX and the HTML have them."""

from __future__ import annotations

from pathlib import Path

import pytest
from written import write_all, write_run

from tether import cli


def cells(text: str) -> dict[str, list[str]]:
    """By the name of a line."""
    lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|") and "--" not in line]
    return {name.strip(): [cell.strip() for cell in rest] for name, *rest in lines}


def test_the_best_is_bold_what_reaches_it_is_underlined_and_the_papers_stand_beside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert cli.main(["report", str(write_all(tmp_path)), "--markdown"]) == 0
    out = capsys.readouterr().out
    # On hopper-medium-v2 seeds of 40, 41 and 50, 51; of the last ten 5 less, of the best 5 more.
    # On mine 10.5 and 10.0, both ± 0.5, so that the second reaches the first.
    # The paper has 29.0 for cloning and 55.9 ± 11.4 for TD3-CVAE, which reaches CQL's 58.0.
    assert cells(out) == {
        "run": ["last", "last ten", "best", "the paper"],
        "hopper-medium-v2/bc-none (2 seeds)": ["40.5 ± 0.5", "35.5 ± 0.5", "45.5 ± 0.5", "29.0"],
        "hopper-medium-v2/td3-cvae (2 seeds)": ["**50.5 ± 0.5**", "**45.5 ± 0.5**", "**55.5 ± 0.5**", "<u>55.9 ± 11.4</u>"],
        "mine/bc-none (2 seeds)": ["**10.5 ± 0.5**", "**5.5 ± 0.5**", "**15.5 ± 0.5**", ""],
        "mine/td3-cvae (2 of 6 seeds)": ["<u>10.0 ± 0.5</u>", "<u>5.0 ± 0.5</u>", "<u>15.0 ± 0.5</u>", ""],
    }
    assert "\nthe paper: Rezaeifar et al." in out


def test_methods_by_tasks_are_marked_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert cli.main(["report", str(write_all(tmp_path)), "--markdown", "--tasks"]) == 0
    out = capsys.readouterr().out
    found = cells(out)
    assert found["bc-none"] == ["40.5 / 35.5 / 45.5 (2 seeds)", "**10.5** / **5.5** / **15.5** (2 seeds)"]
    assert found["td3-cvae"][1] == "<u>10.0</u> / <u>5.0</u> / <u>15.0</u> (2 of 6 seeds)"
    assert found["TD3-CVAE (paper)"] == ["<u>55.9 ± 11.4</u>", ""]
    assert "\nthe paper: Rezaeifar et al." in out
    assert cli.main(["report", str(tmp_path), "--tasks"]) == 0
    out = capsys.readouterr().out
    assert "**" not in out
    assert "(paper)" not in out


def test_one_method_is_compared_with_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_run(tmp_path, "mine", "bc-none", 0, 1.0)
    for way in ([], ["--tasks"]):
        assert cli.main(["report", str(tmp_path), "--markdown", *way]) == 0
        out = capsys.readouterr().out
        assert "**" not in out
        assert "paper" not in out

"""The table for other programs, and the paper's numbers."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from written import write_all

from tether import cli
from tether.report.paper import marks, paper_method, paper_scores, paper_table
from tether.report.tables import Score


def test_every_number_is_a_line_of_the_csv(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert cli.main(["report", str(write_all(tmp_path)), "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == 2 * 2 * 3
    (row,) = [row for row in rows if (row["task"], row["agent"], row["score"]) == ("hopper-medium-v2", "td3", "last")]
    assert (row["mean"], row["std"], row["seeds"], row["mark"]) == ("50.5", "0.5", "2", "best")
    assert (row["paper_mean"], row["paper_std"], row["unit"]) == ("55.9", "11.4", "normalised")
    assert row["runs"].split() == [f"{tmp_path}/hopper-medium-v2/td3-cvae/s{seed}" for seed in (0, 1)]
    assert {row["paper_mean"] for row in rows if row["task"] == "mine"} == {""}


def test_what_choices_cost_is_told_beside_the_csv(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert cli.main(["report", str(write_all(tmp_path)), "--csv", "--until", "1000"]) == 0
    told = capsys.readouterr().err.splitlines()
    assert told[-2] == "of evaluations until step 1,000 alone"
    assert "of the step 0 for last and last ten, 16 for best; of settings 1,200 (proof: by the last score)" in told[-1]


def test_the_latex_table_is_in_the_form_of_the_papers(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert cli.main(["report", str(write_all(tmp_path)), "--latex"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:5] == [
        r"\begin{tabular}{lrrr}",
        r"\toprule",
        r"task & bc-none & td3-cvae & TD3-CVAE (paper) \\",
        r"\midrule",
    ]
    assert lines[5] == r"hopper-medium-v2 & 40.5 $\pm$ 0.5 & \textbf{50.5 $\pm$ 0.5} & \underline{55.9 $\pm$ 11.4} \\"
    assert lines[6] == r"mine & \textbf{10.5 $\pm$ 0.5} & \underline{10.0 $\pm$ 0.5} &  \\"
    assert lines[7:9] == [r"\bottomrule", r"\end{tabular}"]
    assert "; of settings 1,200 (proof: by the last score); runs here are among those" in lines[11]
    assert cli.main(["report", str(tmp_path), "--latex", "--score", "worst"]) == 2
    assert capsys.readouterr().err == "error: there is no score 'worst'; there is: last, last_ten, best\n"


# The paper's numbers


def test_the_papers_means_are_those_of_its_tasks():
    """The paper cuts its means off after a digit, or rounds them: a number copied wrongly moves one by a twelfth of it."""
    table = paper_table()
    tasks = list(table["tasks"].values())
    for group, rows in (("locomotion", tasks[:12]), ("manipulation", tasks[12:])):
        means = np.mean([row["mean"] for row in rows], axis=0)
        np.testing.assert_allclose(means, table["means"][group]["mean"], atol=0.1)
    assert {len(row["mean"]) for row in tasks} == {len(table["methods"])}


def test_a_dataset_of_any_version_is_found_and_another_is_not():
    assert paper_scores("hopper_medium-v2") == paper_scores("d4rl/hopper-medium-v0") == paper_scores("hopper-medium")
    assert paper_scores("pen-human-v1")["TD3-CVAE"] == Score(59.2, 14.3)
    assert paper_scores("pen-human-v1")["BC"] == Score(34.4, None)
    assert paper_scores("halfcheetah-mixed-tether") == {}


def test_methods_are_called_as_the_paper_calls_them():
    assert [paper_method(*pair) for pair in (("td3", "cvae"), ("bc", "none"), ("bear", "none"))] == ["TD3-CVAE", "BC", "BEAR"]
    assert paper_method("td3", "rnd") is None
    assert paper_method("bc", "none", {"best_share": 0.1}) is None


def test_the_rule_gives_the_marks_of_the_papers_own_table():
    # pen-human: BCQ has 68.9, and 59.2 + 14.3 reaches it. halfcheetah-medium: 43.2 + 0.4 is below BRAC-v's 46.3.
    assert marks(paper_scores("pen-human")) == {"BCQ": "best", "TD3-CVAE": "within"}
    assert marks(paper_scores("halfcheetah-medium")) == {"BRAC-v": "best"}
    assert marks(paper_scores("relocate-expert")) == {"TD3-CVAE": "best"}
    assert marks({"a": Score(1.0, 0.5), "b": Score(1.04, 0.0), "c": Score(0.4, 0.5)}) == {"a": "best", "b": "best"}

"""Tables say which score they show, and show it as the run has it."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from tether.errors import TetherError
from tether.report.tables import Row, Score, markdown_lines, markdown_table, rich_lines, rich_table, run_row, seeds_row
from tether.runs.reading import Run

MakeRun = Callable[..., Run]


def test_a_run_has_its_last_last_ten_and_best_score(make_run: MakeRun):
    assert run_row("TD3", make_run()).scores == {
        "last": Score(30.0, 3.0),
        "last ten": Score(25.0, 5.0),
        "best": Score(40.0, 1.0, step=2000),
    }
    assert run_row("TD3", make_run("b"), policy="target").scores["last"] == Score(50.0, 2.0)


def test_seeds_are_spread_by_the_means_of_their_runs(make_run: MakeRun):
    other = {name: {"mean": mean, "std": 9.0, "step": 1} for name, mean in (("last", 40.0), ("last_ten", 25.0), ("best", 44.0))}
    row = seeds_row("TD3", [make_run("s0"), make_run("s1", result={"score": other})])
    assert row.scores == {"last": Score(35.0, 5.0), "last ten": Score(25.0, 0.0), "best": Score(42.0, 2.0)}


def test_a_run_that_was_never_evaluated_has_no_scores(make_run: MakeRun):
    assert run_row("TD3", make_run(result={"score": None})).scores == {}


def test_a_run_without_what_is_asked_is_an_error(make_run: MakeRun):
    with pytest.raises(TetherError, match="s0 has not finished"):
        run_row("TD3", make_run("s0", finished=False))
    with pytest.raises(TetherError, match=r"s1 has no policy targte; did you mean target\?"):
        run_row("TD3", make_run("s1"), policy="targte")
    with pytest.raises(TetherError, match="there are no runs for TD3"):
        seeds_row("TD3", [])


ROWS = [Row("data", {"last": Score(39.04, 12.06)}), Row("TD3 [CVAE]", {"last": Score(5.0, 0.0), "best": Score(-6.0, 1.0, 2000)})]


def test_markdown_is_aligned_and_leaves_what_is_missing_empty():
    assert markdown_table(ROWS, heading="agent").splitlines() == [
        "| agent      |        last |                    best |",
        "| ---------- | ----------: | ----------------------: |",
        "| data       | 39.0 ± 12.1 |                         |",
        "| TD3 [CVAE] |   5.0 ± 0.0 | -6.0 ± 1.0 (step 2,000) |",
    ]


def test_the_terminal_shows_the_same_cells():
    shown = io.StringIO()
    Console(file=shown, width=80).print(rich_table(ROWS, title="normalised score", heading="agent"))
    for text in ("normalised score", "agent", "39.0 ± 12.1", "TD3 [CVAE]", "-6.0 ± 1.0 (step 2,000)"):
        assert text in shown.getvalue()


def test_a_bar_in_a_cell_does_not_end_it_and_a_bracket_is_no_markup():
    lines = [["what", "size"], ["|x| = [y]", "3"]]
    assert markdown_lines(lines).splitlines() == [
        "| what        | size |",
        "| ----------- | ---: |",
        "| \\|x\\| = [y] |    3 |",
    ]
    console = Console(width=80, file=io.StringIO())
    console.print(rich_lines(lines))
    assert "│ |x| = [y] │    3 │" in console.file.getvalue()


def test_a_long_label_goes_on_in_the_next_line():
    shown = io.StringIO()
    Console(file=shown, width=40).print(rich_lines([["run", "last"], [f"{'x' * 60}-rnd", "1.0 ± 2.0"]]))
    cells = [line.split("│")[1].strip() for line in shown.getvalue().splitlines() if line.startswith("│")]
    assert "".join(cells) == f"{'x' * 60}-rnd"

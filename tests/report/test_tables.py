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


def test_columns_that_do_not_fit_are_a_table_of_their_own_with_the_labels_again():
    """A label takes 6 + 3 characters, a score 17 + 3, the frame one more: 30 hold one score, 50 two."""
    scores = [f"{number}1.8 [27.5, 35.9]" for number in range(1, 4)]
    lines = [["task", "cloning", "td3-bc", "tethered"], ["hopper", *scores]]

    def tables(width: int) -> list[list[str]]:
        shown = io.StringIO()
        Console(file=shown, width=width).print(rich_lines(lines, title="last"))
        rows = [line.split("│")[1:-1] for line in shown.getvalue().splitlines() if line.startswith("│")]
        return [[cell.strip() for cell in row] for row in rows]

    first, second, third = scores
    assert tables(70) == [["hopper", first, second, third]]
    assert tables(50) == tables(69) == [["hopper", first, second], ["hopper", third]]
    assert tables(30) == tables(49) == [["hopper", first], ["hopper", second], ["hopper", third]]


def test_a_long_label_is_folded_before_a_column_goes_elsewhere():
    """20 + 3 of the label, twice 9 + 3, and one: 48."""
    lines = [["run", "last", "best"], ["x" * 60, "1.0 ± 2.0", "3.0 ± 4.0"]]
    assert rich_lines(lines).parts(48) == [[1, 2]]
    assert rich_lines(lines).parts(47) == [[1], [2]]


def test_a_label_is_folded_between_its_words():
    """A score takes 9 + 3, the frame 1 and the label's border 3: of 40 characters 24 are left for the label."""
    lines = [["run", "last"], ["halfcheetah-medium-expert/tethered-density/s0", "1.0 ± 2.0"]]
    shown = io.StringIO()
    Console(file=shown, width=40).print(rich_lines(lines))
    cells = [line.split("│")[1].strip() for line in shown.getvalue().splitlines() if line.startswith("│")]
    assert cells == ["halfcheetah-medium-", "expert/tethered-density/", "s0"]

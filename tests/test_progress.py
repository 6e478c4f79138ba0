"""Progress is readable in a log, alive in a terminal and silent when told to be."""

from __future__ import annotations

import io
import re
import subprocess
import sys

import pytest

from tether.progress import progress


def test_a_log_has_a_line_for_the_end_even_of_a_short_job():
    log = io.StringIO()
    with progress("training", 2000, file=log) as bar:
        bar.update(1000, score=1.0)
        bar.update(2000, **{"critic loss": 0.01234, "Q": 21.34, "score": 45.12})
    (line,) = log.getvalue().splitlines()
    assert re.fullmatch(r"training: 2,000/2,000 steps  0:00:0\d  \S+ steps/s  score 45\.1  critic loss 0\.0123  Q 21\.3", line)


def test_a_log_has_a_line_per_interval_with_the_fields_known_so_far():
    log = io.StringIO()
    with progress("collecting", 3, "rows", file=log, seconds_between_lines=0.0) as bar:
        bar.update(1, score=1234567.0)
        bar.update(2, phase="replay")
    first, second, last = log.getvalue().splitlines()
    assert first.startswith("collecting: 1/3 rows  0:00:00  ")
    assert first.endswith(" left  score 1,234,567")
    assert second.endswith("score 1,234,567  phase replay")
    assert last.startswith("collecting: 2/3 rows")


def test_the_rate_of_a_resumed_job_leaves_out_what_was_done_before():
    log = io.StringIO()
    with progress("training", 10**9, start=10**9 - 1, file=log):
        pass
    assert log.getvalue() == "training: 999,999,999/1,000,000,000 steps  0:00:00\n"


def test_the_rate_leaves_out_the_time_before_the_first_step(monkeypatch: pytest.MonkeyPatch):
    """A sweep fits for 200 seconds and then makes 100 steps a second: 900 steps are 9 seconds, not 20 minutes."""
    log, now, left = io.StringIO(), [1000.0], list[float | None]()
    monkeypatch.setattr("tether.progress.time.monotonic", lambda: now[0])
    with progress("sweep", 1300, file=log, seconds_between_lines=0.0) as bar:
        for seconds, step in ((0.0, 0), (200.0, 0), (1.0, 100), (3.0, 400)):
            now[0] += seconds
            bar.update(step)
            left.append(bar.seconds_left())
    assert log.getvalue().splitlines()[1:-1] == [
        "sweep: 0/1,300 steps  0:03:20",
        "sweep: 100/1,300 steps  0:03:21",
        "sweep: 400/1,300 steps  0:03:24  100 steps/s  0:00:09 left",
    ]
    assert left == [None, None, None, 9.0]  # others can ask for it


def test_an_error_still_ends_the_display_with_where_it_was():
    log = io.StringIO()

    def fail() -> None:
        with progress("training", 10, file=log) as bar:
            bar.update(4)
            raise ValueError("critic/loss is nan")

    with pytest.raises(ValueError, match="critic/loss is nan"):
        fail()
    assert log.getvalue().startswith("training: 4/10 steps")


def test_progress_can_be_turned_off(capfd: pytest.CaptureFixture[str]):
    log = io.StringIO()
    with progress("training", 10, enabled=False, file=log) as bar:
        bar.update(10, score=1.0)
    with progress("training", 10, enabled=False) as bar:
        bar.update(10)
    assert (log.getvalue(), capfd.readouterr()) == ("", ("", ""))


def test_a_terminal_shows_a_live_bar_on_stderr():
    script = """
from tether.progress import progress
with progress("training", 4000, start=1000) as bar:
    bar.update(2000, score=45.12)
    bar.update(4000, score=46.12)
print("done")
"""
    environment = {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "80"}
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, env=environment)
    assert done.stdout == "done\n"
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", done.stderr).splitlines()
    assert re.search(r"training .* 4,000/4,000 steps .*/s +0:00:00 left", shown[-2])
    assert shown[-1].strip() == "0:00:00  score 46.1"


def test_a_terminal_shows_the_parts_under_way_below_the_bar():
    script = """
from tether.progress import progress
with progress("sweep", 400) as bar:
    bar.update(100, running="2")
    bar.show_parts(["hopper/s0: step 60/100", "walker2d/s0: " + "fitting " * 12])
"""
    environment = {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "80"}
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, env=environment)
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", done.stderr).splitlines()
    assert [line.strip() for line in shown[-3:-1]] == ["0:00:00  running 2", "hopper/s0: step 60/100"]
    assert shown[-1].startswith("  walker2d/s0: fitting fitting")
    assert shown[-1].rstrip().endswith("…")
    assert max(map(len, shown)) <= 80

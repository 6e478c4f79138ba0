"""`tether watch`: when a log left the data and in which columns, or that it did not."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from shipped import shipped

from tether.cli import main
from tether.errors import TetherError
from tether.report.drift import Stretch, drifts, find_drift, read_seen, words
from tether.report.drift_page import make_page
from tether.runtime import Policy, load_policy

NAMES = ["level", "speed <m/s>", "load"]
BEGAN = 1_763_356_800  # 2025-11-17 05:20:00 UTC


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    """One that knows its columns, and has seen normal numbers."""
    made = shipped("deterministic")
    random = np.random.default_rng(5)
    known = replace(made.experience, observation=random.normal(size=(1_000, 3)).astype("f4"), action=np.zeros((1_000, 2), "f4"))
    path = tmp_path_factory.mktemp("watched") / "policy.safetensors"
    replace(made, about={"columns": {"observation": NAMES, "action": ["a", "b"]}}, experience=known).save(path)
    return load_policy(path)


def rows(number: int = 1_000, moved_from: int | None = None, column: int = 1) -> np.ndarray:
    found = 0.7 * np.random.default_rng(6).normal(size=(number, 3))
    if moved_from is not None:
        found[moved_from:, column] += 20.0
    return found.astype(np.float32)


def write(path, observations, **more):
    lines = [
        {"observation": row.tolist(), **{name: values[i] for name, values in more.items()}} for i, row in enumerate(observations)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_the_cumulative_sum_by_hand():
    bins = np.arange(0, 1_100, 100)
    # Above 0.15: 0.05 and then nothing; from the fourth on 0.85 each: 0.85, 1.7, and 2 at most. It began with the fourth.
    shares = [0.0, 0.2, 0.0, 1.0, 1.0, 1.0, 1.0, 0.1, 0.0, 0.0]
    assert drifts(shares, bins) == (Stretch(300, 700, ongoing=False),)
    assert drifts([0.0] * 7 + [1.0] * 3, bins) == (Stretch(700, 1_000, ongoing=True),)
    assert drifts([1.0] * 10, bins) == (Stretch(0, 1_000, ongoing=True),)
    assert drifts([0.15] * 10, bins) == ()
    assert drifts([0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0], bins) == ()  # 1.7, and forgotten again


def test_a_drift_ends_where_it_is_over_and_another_may_begin():
    bins = np.arange(0, 7_100, 100)
    # At 2 the sum is full, and takes 0.1 less with every usual stretch: after 20 of them the first drift is over.
    lone = [0.05] * 3 + [1.0] * 30 + [0.05] * 36 + [0.3]
    assert drifts(lone, bins) == (Stretch(300, 3_300, ongoing=False),)
    twice = [0.05] * 3 + [1.0] * 4 + [0.05] * 60 + [1.0] * 3
    assert drifts(twice, bins) == (Stretch(300, 700, ongoing=False), Stretch(6_700, 7_000, ongoing=True))
    soon = [0.05] * 3 + [1.0] * 4 + [0.05] * 10 + [1.0] * 3
    assert drifts(soon, bins) == (Stretch(300, 2_000, ongoing=True),)  # not over yet when it went on


def test_a_second_drift_is_told(policy, tmp_path):
    observations = rows(7_000)
    observations[300:700, 1] += 20.0
    observations[6_700:, 1] += 20.0
    seen = read_seen(write(tmp_path / "seen.jsonl", observations), policy)
    told = words(policy, seen, find_drift(policy, seen))
    assert told[0].startswith("Drift began at row 301 of 7,000: while it lasted 100% of what it saw was as unusual")
    assert told[0].endswith("It ended at row 701 of 7,000.")
    assert told[1].startswith("Drift began again at row 6,701 of 7,000: since then 100% of what it saw was as unusual")
    assert told[2].startswith("speed <m/s> left the data at row 301 of 7,000, and again, last at row 6,701 of 7,000: 100%")


def test_the_least_log_can_have_a_drift(policy, tmp_path):
    seen = read_seen(write(tmp_path / "seen.jsonl", rows(300, moved_from=0)), policy)
    told = words(policy, seen, find_drift(policy, seen))
    assert told[0].startswith("Drift began at row 1 of 300: since then 100% of what it saw was as unusual")


@pytest.mark.parametrize(
    ("time", "told"), [(12.5, "time 12.5"), (1_763_356_800_000, "time 1763356800000"), (-3e300, "time -3e+300")]
)
def test_a_time_that_is_no_date_is_told_as_it_is(time, told, policy, tmp_path):
    seen = read_seen(write(tmp_path / "seen.jsonl", rows(2), time=[time, time]), policy)
    assert seen.when(0) == f"{told} (row 1 of 2)"


def test_a_column_that_leaves_the_data_is_named_with_its_time(policy, tmp_path):
    path = write(tmp_path / "seen.jsonl", rows(moved_from=600), time=[BEGAN + i for i in range(1_000)])
    seen = read_seen(path, policy)
    drift = find_drift(policy, seen)
    assert drift.in_all == (Stretch(600, 1_000, ongoing=True),)
    assert drift.by_column == {1: (Stretch(600, 1_000, ongoing=True),)}
    told = words(policy, seen, drift)
    assert told[0].startswith(
        "Drift began at 2025-11-17 05:30:00 UTC (row 601 of 1,000): since then 100% of what it saw was as unusual"
    )
    assert told[1].startswith(
        "speed <m/s> left the data at 2025-11-17 05:30:00 UTC (row 601 of 1,000): 100% of its values are outside"
    )
    assert len(told) == 2


def test_a_log_like_the_data_has_no_drift(policy, tmp_path):
    seen = read_seen(write(tmp_path / "seen.jsonl", rows()), policy)
    drift = find_drift(policy, seen)
    assert (drift.in_all, drift.by_column) == ((), {})
    told = words(policy, seen, drift)
    assert told[0].startswith("No drift in familiarity: ")
    assert told[1] == "No column left the range in which 99% of its recorded values are."


def test_few_rows_say_nothing_and_say_so(policy, tmp_path):
    seen = read_seen(write(tmp_path / "seen.jsonl", rows(30, moved_from=0)), policy)
    told = words(policy, seen, find_drift(policy, seen))
    assert told == ["The log has 30 rows; with fewer than 300 nothing can be said of drift."]


def test_columns_by_name_dates_and_actions_are_read(policy, tmp_path):
    path = tmp_path / "seen.jsonl"
    lines = [
        {
            "time": "2025-11-17T05:20:02+00:00",
            "observation": {"load": 3.0, "level": 1.0, "speed <m/s>": 2.0},
            "action": [0.5, 1.0],
        },
        {
            "time": "2025-11-17T05:20:00+00:00",
            "observation": {"level": 4.0, "speed <m/s>": 5.0, "load": 6.0},
            "action": [0.0, 2.0],
        },
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    seen = read_seen(path, policy)
    np.testing.assert_array_equal(seen.rows, [[4.0, 5.0, 6.0], [1.0, 2.0, 3.0]])
    np.testing.assert_array_equal(seen.actions, [[0.0, 2.0], [0.5, 1.0]])
    assert seen.sorted_again
    assert seen.when(0) == "2025-11-17 05:20:00 UTC (row 1 of 2)"
    assert "The lines of the log were not in order of time and were sorted." in words(policy, seen, find_drift(policy, seen))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no lines"),
        ("{}\n", "line 1: there is no observation in it; it has nothing"),
        ('{"observation": [1, 2, 3]}\nnot json\n', "line 2: not valid JSON"),
        ('{"observation": [1, 2]}\n', r"takes observations of shape \(3,\) or \(B, 3\)"),
        ('{"observation": [1, 2, NaN]}\n', "has nan as 'load' in row 0"),
        ('{"observation": [1, 2, 3]}\n{"observation": {"level": 1}}\n', "not made of numbers"),
        ('{"observation": {"level": 1, "load": 2, "speed": 3}}\n', "knows no column 'speed'; did you mean"),
        ('{"observation": [1, 2, 3], "time": "noon"}\n', "line 1: its time is 'noon'"),
        ('{"observation": [1, 2, 3], "time": 1}\n{"observation": [1, 2, 3]}\n', "line 2: its time is None"),
        ('{"observation": [1, 2, 3], "action": [1]}\n', "the policy's own are taken"),
    ],
)
def test_a_bad_log_is_refused_with_its_place(text, message, policy, tmp_path):
    (tmp_path / "seen.jsonl").write_text(text)
    with pytest.raises(TetherError, match=message):
        read_seen(tmp_path / "seen.jsonl", policy)


class Tags(HTMLParser):
    """Counts what is opened, and refuses what is closed and was not."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.addresses = [], [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        self.addresses += [value for name, value in attributes if name in ("src", "href")]
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_one_sound_file_without_addresses(policy, tmp_path):
    path = write(tmp_path / "seen.jsonl", rows(moved_from=600), time=[BEGAN + i for i in range(1_000)])
    seen = read_seen(path, policy)
    drift = find_drift(policy, seen)
    text = make_page(policy, seen, drift, words(policy, seen, drift), "<seen>")
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert tags.addresses == []
    assert "http" not in text
    assert tags.seen.count("svg") == 3  # familiarity, the share of unusual rows, and the column that left
    assert tags.seen.count("line") > 0
    assert "speed &lt;m/s&gt;" in text
    assert "&lt;seen&gt;" in text
    assert "prefers-color-scheme: dark" in text
    assert "nan" not in text


def test_the_command(policy, tmp_path, capsys, request):
    made = shipped("deterministic")
    made.save(tmp_path / "policy.safetensors")
    path, out = write(tmp_path / "seen.jsonl", rows(moved_from=600)), tmp_path / "page.html"
    arguments = ["watch", str(path), "--policy", str(tmp_path / "policy.safetensors"), "--out", str(out)]
    assert main(arguments) == 0
    assert "Drift began at row 601 of 1,000" in capsys.readouterr().out
    assert out.read_text().startswith("<!doctype html>")
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["drift"]["row"], list(found["columns"])) == (600, ["1"])
    assert [(drift["end"], drift["ongoing"]) for drift in found["drifts"]] == [(1_000, True)]
    assert main([*arguments[:-1], str(tmp_path / "page.png")]) == 2
    assert "the page is an .html file" in capsys.readouterr().err
    assert main(["watch", str(tmp_path / "gone.jsonl"), *arguments[2:]]) == 2
    assert "there is no file" in capsys.readouterr().err

"""What a run writes down as it goes, and what a resumed one keeps of it."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from pendulum import files_of_at_most
from tensorboardX.proto.event_pb2 import Event, SessionLog

from tether.errors import TetherError
from tether.evaluation.rollout import EpisodeResults
from tether.runs.metrics import MetricsLog
from tether.runs.tensorboard import EventFile

RESULTS = {
    "online": EpisodeResults(np.array([1.0, 3.0]), np.array([10, 30])),
    "ema": EpisodeResults(np.zeros(2), np.ones(2, int)),
}
FIT = [{"fit_step": 1000, "bonus/loss": 2.0}, {"fit_step": 2000, "bonus/loss": 1.5}]


def lines(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def events(folder: Path) -> list[Event]:
    """Every event of every file, in order. A record is its length in 8 bytes, a checksum in 4, the event, a checksum in 4."""
    found = []
    for path in sorted((folder / "tensorboard").iterdir()):
        content = path.read_bytes()
        while content:
            length = int.from_bytes(content[:8], "little")
            found.append(Event.FromString(content[12 : 12 + length]))
            content = content[16 + length :]
    return found


def scalars(folder: Path) -> list[tuple[int, str, float]]:
    return [(event.step, value.tag, value.simple_value) for event in events(folder) for value in event.summary.value]


# Writing


def test_lines_and_events_say_the_same(tmp_path):
    with closing(MetricsLog(tmp_path, 0, "InvertedDoublePendulum-v5")) as log:
        log.fit(FIT)
        log.training(100, {"critic/loss": 0.5, "critic/q": 2.0})
        log.evaluation(100, RESULTS)
    assert lines(tmp_path) == [
        *FIT,
        {"step": 100, "critic/loss": 0.5, "critic/q": 2.0},
        {
            "step": 100,
            "evaluation": {
                "online": {"returns": [1.0, 3.0], "lengths": [10, 30]},
                "ema": {"returns": [0.0, 0.0], "lengths": [1, 1]},
            },
        },
    ]
    assert scalars(tmp_path) == [
        (1000, "fit/bonus/loss", 2.0),
        (2000, "fit/bonus/loss", 1.5),
        (100, "critic/loss", 0.5),
        (100, "critic/q", 2.0),
        (100, "evaluation/online", 2.0),
        (100, "evaluation/ema", 0.0),
    ]


def test_scores_are_normalised_where_there_is_a_reference(tmp_path):
    with closing(MetricsLog(tmp_path, 0, "Hopper-v4")) as log:
        # 100 (-20.272305 + 20.272305) / (3234.3 + 20.272305) and the same for 3234.3
        np.testing.assert_allclose(log.scores([-20.272305, 3234.3]), [0.0, 100.0])
        log.evaluation(100, {"online": EpisodeResults(np.array([-20.272305, 3234.3]), np.array([1, 1]))})
    assert lines(tmp_path)[0]["evaluation"]["online"]["returns"] == [-20.272305, 3234.3]  # raw
    assert scalars(tmp_path) == [(100, "evaluation/online", 50.0)]
    with closing(MetricsLog(tmp_path, 0, "InvertedDoublePendulum-v5")) as log:
        np.testing.assert_array_equal(log.scores([3.0]), [3.0])


def test_events_are_on_the_disk_as_soon_as_they_are_made(tmp_path):
    with closing(MetricsLog(tmp_path, 0, None)) as log:
        log.training(100, {"critic/loss": 0.5})
        assert scalars(tmp_path) == [(100, "critic/loss", 0.5)]


# Resuming


def test_a_resumed_run_drops_the_lines_past_its_checkpoint(tmp_path):
    with closing(MetricsLog(tmp_path, 0, None)) as log:
        log.fit(FIT)
        for step in (100, 200, 300):
            log.training(step, {"critic/loss": float(step)})
            log.evaluation(step, RESULTS)
    with closing(MetricsLog(tmp_path, 200, None)) as log:
        log.fit(FIT)
        assert list(log.evaluations) == [100, 200]
        assert log.evaluations[100]["online"] == {"returns": [1.0, 3.0], "lengths": [10, 30]}
    assert [record.get("step", record.get("fit_step")) for record in lines(tmp_path)] == [1000, 2000, 100, 100, 200, 200]


def test_tensorboard_is_told_to_drop_them_too(tmp_path):
    for step in (0, 200):
        with closing(MetricsLog(tmp_path, step, None)) as log:
            log.training(step + 100, {"critic/loss": 1.0})
    starts = [event.step for event in events(tmp_path) if event.session_log.status == SessionLog.START]
    assert starts == [201]
    assert len(list((tmp_path / "tensorboard").iterdir())) == 2


def test_a_run_that_starts_over_keeps_the_fit_and_nothing_else(tmp_path):
    with closing(MetricsLog(tmp_path, 0, None)) as log:
        log.fit(FIT)
        log.training(100, {"critic/loss": 1.0})
    with closing(MetricsLog(tmp_path, 0, None)) as log:
        log.fit(FIT)
        assert log.evaluations == {}
    assert lines(tmp_path) == FIT


def test_a_fit_that_was_half_written_is_completed(tmp_path):
    (tmp_path / "metrics.jsonl").write_text(json.dumps(FIT[0]) + '\n{"fit_step": 20')
    with closing(MetricsLog(tmp_path, 0, None)) as log:
        log.fit(FIT)
    assert lines(tmp_path) == FIT


def test_a_line_that_a_crash_cut_short_is_dropped(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 100, "critic/loss": 1.0}\n{"step": 200, "crit')
    with closing(MetricsLog(tmp_path, 200, None)) as log:
        log.training(200, {"critic/loss": 2.0})
    assert lines(tmp_path) == [{"step": 100, "critic/loss": 1.0}, {"step": 200, "critic/loss": 2.0}]


# A disk that is full


def test_a_full_disk_is_an_error_and_not_a_wait_for_ever(tmp_path):
    tags = {f"critic/{number}": 1.0 for number in range(20)}
    with closing(EventFile(tmp_path, 0)) as log, files_of_at_most(1_000):
        log.add(1, tags)  # about 500 bytes
        with pytest.raises(TetherError) as raised:
            log.add(2, tags | {f"more/{tag}": 1.0 for tag in tags})
    assert str(raised.value) == f"cannot write to {tmp_path}: File too large"


def test_events_that_cannot_be_put_anywhere_are_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TetherError, match=r"^cannot write to .*: Not a directory$"):
        EventFile(tmp_path / "file" / "tensorboard", 0)

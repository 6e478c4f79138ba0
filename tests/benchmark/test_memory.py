"""The parts of the measurement of rows on disk; the measurement itself takes minutes and is run by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tether.benchmark.memory import Comparison, drop_from_cache, write_rows
from tether.cli import main
from tether.data.files.d4rl import read_d4rl
from tether.data.files.mapped import map_d4rl


def test_the_rows_are_a_dataset_of_walker2ds_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TETHER_CACHE", str(tmp_path))
    path = tmp_path / "rows.hdf5"
    assert list(write_rows(path, 2_500)) == [2_500]
    dataset = read_d4rl(path)
    assert (dataset.spec.observation_size, dataset.spec.action_size) == (17, 6)
    np.testing.assert_array_equal(dataset.episode_ends, [1000, 2000, 2500])
    on_disk = map_d4rl(path)
    drop_from_cache(on_disk)  # and the numbers are there again when they are asked for
    np.testing.assert_array_equal(on_disk.transitions.action, dataset.transitions.action)


def test_the_ratio_is_of_medians():
    rates = {"memory": [100.0, 90.0, 10.0], "disk": [45.0, 300.0, 1.0], "cold": [9.0, 9.0, 9.0]}
    found = Comparison(rows=1, column_bytes=1, steps_per_second=rates)
    assert (found.ratio("disk"), found.ratio("cold")) == (0.5, 0.1)


@pytest.mark.parametrize("option", [["--most-rows", "10"], ["--memory-share", "1.5"], ["--repetitions", "0"]])
def test_what_cannot_be_measured_is_said(option: list[str], capsys):
    assert main(["bench", "--larger-than-memory", *option]) == 2
    assert "--memory-share within 0 and 1" in capsys.readouterr().err

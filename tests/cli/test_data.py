"""`tether data`: the numbers reach the screen, and as JSON they can be read back."""

from __future__ import annotations

import json

import h5py
import numpy as np
import pytest

from tether.cli.data.info import info
from tether.cli.data.listing import list_datasets
from tether.data import built_in_datasets
from tether.errors import TetherError


@pytest.fixture
def pen_file(tmp_path):
    """Two episodes of two steps, no successors, three action entries out of bounds, constant rewards."""
    path = tmp_path / "pen-human-v1.hdf5"
    actions = np.zeros((4, 24))
    actions[0, :3] = 2.0
    with h5py.File(path, "w") as file:
        file["observations"] = np.zeros((4, 45))
        file["actions"] = actions
        file["rewards"] = np.full(4, 0.5)
        file["terminals"] = np.zeros(4, dtype=bool)
        file["timeouts"] = np.array([False, True, False, True])
    return path


def test_info_as_json(pen_file, capsys):
    info(str(pen_file), json=True)
    facts = json.loads(capsys.readouterr().out)
    assert (facts["env_id"], facts["transitions"], facts["episodes"]) == ("AdroitHandPen-v1", 2, 2)
    assert (facts["notes"]["rows_dropped"], facts["notes"]["action_entries_clipped"]) == (2, 3)


def test_info_as_table(pen_file, capsys):
    info(str(pen_file))
    shown = capsys.readouterr().out
    assert "…" not in shown
    for text in ("AdroitHandPen-v1", "2 of 4", "3 entries", "in [-1, 1]", "45 numbers", "constant", "shifted from the next row"):
        assert text in shown


def test_info_of_an_unknown_name():
    with pytest.raises(TetherError, match="no dataset named 'nowhere'"):
        info("nowhere")


def test_list_names_every_built_in_dataset(capsys):
    list_datasets()
    shown = capsys.readouterr().out
    assert all(name in shown for name in built_in_datasets())
    assert shown.strip()

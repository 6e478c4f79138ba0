"""The dataset that comes with the package: small, from a real task, and made by `tether collect`."""

from __future__ import annotations

import json
from dataclasses import replace

import h5py
import numpy as np

from tether.collection.history import first_difference
from tether.collection.levels import Recipe, complete
from tether.collection.online import OnlineSettings
from tether.data import built_in_datasets, load_dataset

NAME = "halfcheetah-mixed-tether"


def test_it_is_small_and_of_poor_and_good_policies():
    dataset = load_dataset(NAME)
    assert built_in_datasets()[NAME].stat().st_size <= 6e6
    assert (dataset.env_id, dataset.notes.rows_read, len(dataset.episode_ends)) == ("HalfCheetah-v5", 50_000, 3 * 17)
    poor, middling, good = (part.mean() for part in np.split(dataset.episode_returns, 3))
    assert poor < 0.25 * good
    assert middling < 0.75 * good
    assert good > 12135.0 / 3
    assert not np.any(dataset.transitions.terminated)


def test_its_provenance_is_that_of_the_documented_command():
    """`tether collect HalfCheetah-v5 --out ... --level mixed --target-return 5000 --transitions 50000 --compact`."""
    recipe = Recipe(OnlineSettings("HalfCheetah-v5"), level="mixed", target_return=5_000.0)
    command = complete(replace(recipe, transitions=50_000, compact=True))
    with h5py.File(built_in_datasets()[NAME]) as file:
        assert first_difference(json.loads(file.attrs["options"]), command) is None
        assert (bytes(file.attrs["level"]), file.attrs["seed"]) == (b"mixed", 0)
        assert list(file.attrs["online_steps"]) == [20_000, 30_000, 70_000]
        assert [round(float(value)) for value in file.attrs["policy_return"]] == [1307, 2725, 5080]

"""The dataset that comes with the package: small, from a real task, and made by `tether collect`."""

from __future__ import annotations

import json
from dataclasses import replace

import h5py
import numpy as np

from tether.collection.history import first_difference, plain
from tether.collection.levels import Recipe, complete
from tether.collection.online import OnlineSettings
from tether.data import built_in_datasets, load_dataset

NAME = "hopper-medium-tether"


def test_it_is_small_and_medium_with_falls():
    dataset = load_dataset(NAME)
    assert built_in_datasets()[NAME].stat().st_size <= 6e6
    assert (dataset.env_id, dataset.notes.rows_read, len(dataset.episode_ends)) == ("Hopper-v5", 100_000, 219)
    assert 1078.1 < dataset.episode_returns.mean() < 0.5 * 3234.3  # from a third to half of the expert
    assert int(np.sum(dataset.transitions.terminated)) == 218  # every episode but the last, which is cut


def test_its_provenance_is_that_of_the_documented_command():
    """`tether collect Hopper-v5 --out hopper-medium-tether.hdf5 --transitions 100000 --compact`."""
    command = complete(replace(Recipe(OnlineSettings("Hopper-v5")), transitions=100_000, compact=True))
    with h5py.File(built_in_datasets()[NAME]) as file:
        assert first_difference(json.loads(file.attrs["options"]), plain(command)) is None
        assert (file.attrs["level"], file.attrs["seed"], list(file.attrs["online_steps"])) == ("medium", 0, [100_000])
        assert round(float(file.attrs["policy_return"][0])) == 1233

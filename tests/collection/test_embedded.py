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

NAME = "halfcheetah-medium-tether"


def test_it_is_small_and_medium():
    dataset = load_dataset(NAME)
    assert built_in_datasets()[NAME].stat().st_size <= 6e6
    assert (dataset.env_id, dataset.notes.rows_read, len(dataset.episode_ends)) == ("HalfCheetah-v5", 50_000, 50)
    assert 0.25 * 12135.0 < dataset.episode_returns.mean() < 12135.0 / 3  # below the third of the expert it has without noise
    assert not np.any(dataset.transitions.terminated)


def test_its_provenance_is_that_of_the_documented_command():
    """`tether collect HalfCheetah-v5 --out halfcheetah-medium-tether.hdf5 --transitions 50000 --noise 0.3 --compact`."""
    command = complete(replace(Recipe(OnlineSettings("HalfCheetah-v5")), transitions=50_000, noise=0.3, compact=True))
    with h5py.File(built_in_datasets()[NAME]) as file:
        assert first_difference(json.loads(file.attrs["options"]), command) is None
        assert (file.attrs["level"], file.attrs["seed"], list(file.attrs["online_steps"])) == ("medium", 0, [50_000])
        assert round(float(file.attrs["policy_return"][0])) == 4161

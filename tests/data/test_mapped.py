"""Columns on disk read as those in memory do, number for number, whatever kind of file they are from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

from tether.data import Dataset, load_dataset
from tether.data.files import mapped
from tether.data.files.d4rl import read_d4rl
from tether.data.files.mapped import map_d4rl
from tether.data.rewards import normalise_rewards
from tether.data.selected import Selected
from tether.data.transforms import split_episodes
from tether.errors import TetherError


@pytest.fixture(autouse=True)
def own_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, and blocks so small that even four rows make several."""
    monkeypatch.setenv("TETHER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(mapped, "BLOCK", 3)
    return tmp_path / "cache" / "columns"


def assert_same(one: Dataset, other: Dataset) -> None:
    for name, mine, theirs in zip(one.transitions._fields, one.transitions, other.transitions, strict=True):
        np.testing.assert_array_equal(np.asarray(mine), np.asarray(theirs), err_msg=name)
        assert mine.dtype == theirs.dtype
    for name in ("truncated", "episode_ends", "episode_returns"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    for name in ("spec", "name", "env_id", "sha256", "notes", "provenance"):
        assert getattr(one, name) == getattr(other, name), name


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"next_observations": None},
        {"timeouts": None},
        {"timeouts": None, "next_observations": None},
        {"timeouts": None, "next_observations": None, "env_id": "Hopper-v4"},
        {"rewards": np.ones((4, 1))},
        {"terminals": [0.0, 1.0, 0.0, 0.0]},
        {"actions": [[-4.0], [0.5], [6.0], [0.0]]},
        {"actions": [[-4.0], [0.5], [6.0], [0.0]], "env_id": "InvertedPendulum-v5"},
        {"terminals": [0, 0, 0, 1], "next_observations": None, "timeouts": [0, 0, 1, 0]},
    ],
    ids=lambda columns: " ".join(columns) or "all",
)
def test_every_kind_of_file_reads_the_same(write_hdf5, columns: dict):
    path = write_hdf5(**columns)
    assert_same(read_d4rl(path), map_d4rl(path))
    assert isinstance(map_d4rl(path).transitions.observation, np.memmap)


def test_real_files_read_the_same(shared_data: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mapped, "BLOCK", 300)
    for path in sorted((shared_data / "d4rl_excerpts").glob("*.hdf5")):
        assert_same(read_d4rl(path), map_d4rl(path))


def test_the_columns_are_written_once_and_never_half(write_hdf5, own_columns: Path, monkeypatch: pytest.MonkeyPatch):
    path = write_hdf5()
    seen: list[tuple[int, int]] = []

    def interrupt(done: int, total: int) -> None:
        seen.append((done, total))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        map_d4rl(path, interrupt)
    assert seen == [(3, 4)]
    assert not list(own_columns.rglob("*.npy"))
    map_d4rl(path, lambda done, total: seen.append((done, total)))
    assert seen[1:] == [(3, 4), (4, 4)]
    map_d4rl(path, lambda done, total: pytest.fail("written twice"))


def test_another_file_of_the_same_name_has_columns_of_its_own(write_hdf5):
    first = map_d4rl(write_hdf5())
    second = map_d4rl(write_hdf5(rewards=[9.0, 9.0, 9.0, 9.0]))
    np.testing.assert_array_equal(first.transitions.reward, [1, 2, 3, 4])
    np.testing.assert_array_equal(second.transitions.reward, [9, 9, 9, 9])


def test_what_is_wrong_with_a_row_is_said_with_its_number(write_hdf5):
    for columns, said in (
        ({"observations": [[0.0, 0], [0, 1], [1, 0], [1, np.nan]]}, "observations has 1 NaN or Inf values, the first in row 3"),
        ({"terminals": [0, 0, 0, 2]}, "terminals is 2 in row 3, expected 0 or 1"),
        ({"terminals": [0] * 4, "timeouts": [1] * 4, "next_observations": None}, "log.hdf5: no row has a successor"),
    ):
        with pytest.raises(TetherError, match=said):
            map_d4rl(write_hdf5(**columns))


def test_a_disk_without_room_is_found_out_first(write_hdf5, monkeypatch: pytest.MonkeyPatch, own_columns: Path):
    usage = mapped.shutil.disk_usage(Path(__file__))
    monkeypatch.setattr(mapped.shutil, "disk_usage", lambda path: usage._replace(free=3))
    with pytest.raises(TetherError, match="set TETHER_CACHE to a folder on a larger disk"):
        map_d4rl(write_hdf5())
    assert not list(own_columns.rglob("*.npy"))


def test_damaged_columns_are_said_to_be(write_hdf5, own_columns: Path):
    path = write_hdf5()
    map_d4rl(path)
    next(own_columns.rglob("action.npy")).write_bytes(b"nothing")
    with pytest.raises(TetherError, match=r"is damaged .*; delete it and it is made anew"):
        map_d4rl(path)


def test_a_dataset_stays_on_disk_where_memory_is_short(write_hdf5, monkeypatch: pytest.MonkeyPatch):
    path = write_hdf5()
    assert not load_dataset(path).on_disk
    assert not load_dataset(path, on_disk=None).on_disk
    assert load_dataset(path, on_disk=True).on_disk
    monkeypatch.setattr(mapped, "available_memory", lambda: 100)
    assert load_dataset(path, on_disk=None).on_disk
    monkeypatch.setattr("tether.data.minari.reading.read_minari", lambda name: load_dataset(path))
    with pytest.raises(TetherError, match="only an HDF5 file can stay on disk"):
        load_dataset("minari:a-v0", on_disk=True)


@pytest.fixture
def both(tmp_path: Path) -> tuple[Dataset, Dataset]:
    """Ten episodes of four rows, in memory and on disk."""
    random = np.random.default_rng(0)
    path = tmp_path / "ten.hdf5"
    with h5py.File(path, "w") as file:
        file["observations"], file["next_observations"] = random.normal(size=(2, 40, 2)).astype(np.float32)
        file["actions"], file["rewards"] = random.uniform(-1, 1, (40, 1)), random.normal(size=40)
        file["terminals"], file["timeouts"] = np.zeros(40, bool), np.arange(40) % 4 == 3
    return read_d4rl(path), map_d4rl(path)


def test_a_split_of_columns_on_disk_is_the_same_split_and_stays_there(both):
    for one, other in zip(*(split_episodes(dataset, 0.3, seed=1) for dataset in both), strict=True):
        assert_same(replace(one, provenance={}), replace(other, provenance={}))
        assert other.on_disk
        inner_one, inner_other = (split_episodes(part, 0.5, seed=2)[0] for part in (one, other))
        np.testing.assert_array_equal(inner_one.transitions.action, np.asarray(inner_other.transitions.action))


def test_scaled_rewards_leave_the_rest_on_disk(both):
    (one, scale), (other, same_scale) = (normalise_rewards(dataset) for dataset in both)
    assert scale == same_scale
    np.testing.assert_array_equal(one.transitions.reward, other.transitions.reward)
    assert other.on_disk


def test_selected_rows_read_as_an_array_of_them():
    selected = Selected(np.arange(10) * 10, np.array([7, 2, 5]))
    np.testing.assert_array_equal(selected[np.array([2, 0])], [50, 70])
    np.testing.assert_array_equal(selected[:2], [70, 20])
    np.testing.assert_array_equal(np.asarray(selected), [70, 20, 50])
    assert (len(selected), selected.shape) == (3, (3,))

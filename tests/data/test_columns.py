"""Columns that follow from the episodes, by hand: two episodes, of three rows and of two."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import tether
from tether.data import load_dataset
from tether.data.columns import COLUMNS, with_blank_columns, with_columns
from tether.data.dataset import Dataset
from tether.data.transforms import concatenate, split_episodes, subsample
from tether.errors import TetherError
from tether.types import Batch, Spec


@pytest.fixture
def dataset() -> Dataset:
    number = np.arange(5, dtype=np.float32)
    pair = np.stack([number, number], axis=1)
    reward = np.array([1.0, 2.0, 4.0, 8.0, 16.0], np.float32)
    terminated = np.array([0.0, 0.0, 1.0, 0.0, 0.0], np.float32)
    rows = Batch(pair, 10.0 * number[:, None], reward, pair, terminated)
    truncated = np.array([False] * 4 + [True])
    return Dataset(rows, truncated, np.array([3, 5]), np.array([7.0, 24.0]), Spec(2, (-1.0,), (1.0,)), "two", None, "0" * 64)


def test_the_next_action_is_that_of_the_next_row_of_the_episode(dataset: Dataset):
    rows = with_columns(dataset, ("next_action", "has_next_action"), 0.5)
    np.testing.assert_array_equal(rows.next_action[:, 0], [10.0, 20.0, 20.0, 40.0, 40.0])  # at an end, the row's own
    np.testing.assert_array_equal(rows.has_next_action, [1.0, 1.0, 0.0, 1.0, 0.0])


def test_the_return_to_go_is_discounted_and_stays_within_the_episode(dataset: Dataset):
    # 1 + 0.5 (2 + 0.5 * 4) = 3;  2 + 0.5 * 4 = 4;  4.   8 + 0.5 * 16 = 16;  16.
    np.testing.assert_allclose(with_columns(dataset, ("return_to_go",), 0.5).return_to_go, [3.0, 4.0, 4.0, 16.0, 16.0])


def test_of_rows_that_were_drawn_one_by_one_only_neighbours_follow_each_other(tmp_path):
    number = np.arange(11.0)
    whole = tether.dataset(
        observations=number[:, None], actions=number / 10.0, rewards=np.ones(11), terminated=np.zeros(11), episode_ends=[11]
    )
    made = subsample(whole, transitions=6, seed=0)
    tether.save_dataset(made, tmp_path / "drawn.hdf5")
    for drawn in (made, load_dataset(str(tmp_path / "drawn.hdf5")), split_episodes(concatenate([made, made]), 0.5, seed=0)[0]):
        seen = drawn.transitions.observation[:, 0].astype(int).tolist()
        follows = [after == now + 1 for now, after in pairwise(seen)] + [False]
        assert sum(follows) not in (0, 5)  # some do, some do not
        rows = with_columns(drawn, ("next_action", "has_next_action"), 0.5)
        np.testing.assert_array_equal(rows.has_next_action, follows)
        np.testing.assert_allclose(
            rows.next_action[:, 0], [(now + follow) / 10.0 for now, follow in zip(seen, follows, strict=True)]
        )
        with pytest.raises(TetherError, match="has rows that were drawn one by one, and what came between them is not there"):
            with_columns(drawn, ("return_to_go",), 0.5)


def test_the_rank_is_the_share_of_better_episodes(dataset: Dataset):
    np.testing.assert_array_equal(with_columns(dataset, ("episode_rank",), 0.5).episode_rank, [0.5, 0.5, 0.5, 0.0, 0.0])


def test_what_is_not_asked_for_is_not_made(dataset: Dataset):
    assert with_columns(dataset, (), 0.5)._fields == Batch._fields
    asked = with_columns(dataset, ("return_to_go",), 0.5)
    assert asked._fields == (*Batch._fields, "return_to_go")
    assert asked.action is dataset.transitions.action


def test_every_column_has_a_row_for_each_transition(dataset: Dataset):
    for name, column in zip(COLUMNS, with_columns(dataset, tuple(COLUMNS), 0.5)[5:], strict=True):
        # A float32 tells row numbers apart up to 16 million only.
        assert (len(column), column.dtype) == (5, np.int32 if name == "row" else np.float32)


def test_a_row_knows_its_number(dataset: Dataset):
    np.testing.assert_array_equal(with_columns(dataset, ("row",), 0.5).row, [0, 1, 2, 3, 4])


def test_a_column_that_there_is_not_is_refused(dataset: Dataset):
    with pytest.raises(TetherError, match=r"^there is no column next_acton to derive from a dataset; did you mean next_action"):
        with_columns(dataset, ("next_acton",), 0.5)


def test_blank_columns_have_the_shapes_of_the_real_ones(dataset: Dataset):
    names = tuple(COLUMNS)
    real, blank = with_columns(dataset, names, 0.5), with_blank_columns(dataset.transitions, names)
    assert [(column.shape, column.dtype) for column in blank] == [(column.shape, column.dtype) for column in real]


def test_next_actions_of_rows_on_disk_stay_there(dataset: Dataset, tmp_path):
    np.save(tmp_path / "action.npy", dataset.transitions.action)
    mapped = np.load(tmp_path / "action.npy", mmap_mode="r")
    on_disk = Dataset(**vars(dataset) | {"transitions": dataset.transitions._replace(action=mapped)})
    column = with_columns(on_disk, ("next_action",), 0.5).next_action
    assert not isinstance(column, np.ndarray)
    np.testing.assert_array_equal(column[np.array([0, 4])], [[10.0], [40.0]])

"""Columns that are not recorded but follow from the episodes: made once, and only those that an agent's traits ask for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from tether.data.dataset import Dataset
from tether.data.provenance import drawn_singly
from tether.data.selected import select
from tether.errors import TetherError, did_you_mean
from tether.types import Batch, batch_type


def with_columns(dataset: Dataset, names: Sequence[str], discount: float) -> Batch:
    """The transitions, with the named columns behind the recorded ones."""
    for name in names:
        if name not in COLUMNS:
            raise TetherError(f"there is no column {name} to derive from a dataset{did_you_mean(name, COLUMNS)}")
    return batch_type(tuple(names))(*dataset.transitions, *(COLUMNS[name](dataset, discount) for name in names))


def with_blank_columns(rows: Batch, names: Sequence[str]) -> Batch:
    """Rows that stand for others, as in measuring speed: the named columns are all zeros, whatever the leading axes."""
    like = {"next_action": 0.0 * rows.action, "row": (0.0 * rows.reward).astype(np.int32)}
    return batch_type(tuple(names))(*rows, *(like.get(name, 0.0 * rows.reward) for name in names))


def row(dataset: Dataset, discount: float) -> np.ndarray:
    """(N,) the row's own number, by which an agent finds what it keeps of each."""
    return np.arange(dataset.size, dtype=np.int32)


def next_action(dataset: Dataset, discount: float) -> Any:
    """(N, A) the action recorded at the next step; the row's own at the end of an episode, where there is none."""
    return select(dataset.transitions.action, np.arange(dataset.size) + _goes_on(dataset))


def has_next_action(dataset: Dataset, discount: float) -> np.ndarray:
    """(N,) 1 where the next action is recorded."""
    return _goes_on(dataset).astype(np.float32)


def return_to_go(dataset: Dataset, discount: float) -> np.ndarray:
    """(N,) the discounted sum of the recorded rewards from here to the end of the episode.

    Where a time limit cut the episode, what would have come after it is missing.
    """
    if drawn_singly(dataset.provenance):
        raise TetherError(
            f"{dataset.name} has rows that were drawn one by one, and what came between them is not there; the return from a row "
            "on needs whole episodes: tether data subsample --share or --episodes"
        )
    reward = np.asarray(dataset.transitions.reward, np.float64)
    found = np.empty(dataset.size, np.float32)
    for start, end in zip(dataset.episode_starts, dataset.episode_ends, strict=True):
        backwards = accumulate(reward[start:end][::-1].tolist(), lambda later, now: now + discount * later)
        found[start:end][::-1] = list(backwards)
    return found


def episode_rank(dataset: Dataset, discount: float) -> np.ndarray:
    """(N,) the share of episodes with a higher return than the row's own: 0 for the best."""
    ordered = np.sort(dataset.episode_returns)
    higher = len(ordered) - np.searchsorted(ordered, dataset.episode_returns, side="right")
    lengths = dataset.episode_ends - dataset.episode_starts
    return np.repeat(higher / len(ordered), lengths).astype(np.float32)


def _goes_on(dataset: Dataset) -> np.ndarray:
    """(N,) bool: the next row is of the same episode, and comes right after this one."""
    goes_on = np.ones(dataset.size, dtype=bool)
    goes_on[dataset.episode_ends - 1] = False
    if drawn_singly(dataset.provenance):  # else all rows between are there, and observations may have been measured anew
        after, then = (np.asarray(column) for column in (dataset.transitions.next_observation, dataset.transitions.observation))
        goes_on[:-1] &= (after[:-1] == then[1:]).all(axis=1)
    return goes_on


COLUMNS = {
    "row": row,
    "next_action": next_action,
    "has_next_action": has_next_action,
    "return_to_go": return_to_go,
    "episode_rank": episode_rank,
}

"""A log of transitions in memory: columns, episodes, bounds, and where it came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tether.data.selected import is_on_disk
from tether.types import Batch, Spec, spell_actions, spell_observations


@dataclass(frozen=True)
class LoadNotes:
    """What reading the file changed or assumed, so that nothing is done in silence."""

    rows_read: int = 0
    rows_dropped: int = 0  # the last step of an episode whose successor is not recorded
    action_entries_clipped: int = 0  # single numbers outside the bounds
    successors: str = "recorded"  # or "shifted": made from the next row of the same episode
    episode_ends: str = "recorded"  # or "inferred": the file has no timeouts column
    action_bounds: str = "environment"  # or "recorded": in the file; "assumed": [-1, 1]; "measured": the range of the actions
    observation_parts: str = ""  # of a flattened observation: its parts, in order, and how many numbers each has


@dataclass(frozen=True)
class Dataset:
    """Every transition of a log, in the order it was recorded. Columns are float32 NumPy arrays of equal length."""

    transitions: Batch
    truncated: np.ndarray  # (N,) bool: the last kept row of an episode that did not terminate
    episode_ends: np.ndarray  # (E,) int64: one past the last row of each episode, ascending; the last one is N
    episode_returns: np.ndarray  # (E,) float64: of the episode as recorded, dropped rows included, rewards unscaled
    spec: Spec
    name: str
    env_id: str | None
    sha256: str  # of the file; of the columns where there is no file; of the whole and the rows where it is a part
    notes: LoadNotes = field(default_factory=LoadNotes)
    # Operation, arguments and parents of what Tether made of other datasets; else what the file's attributes say.
    provenance: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        returns, ended = self.episode_returns, int(np.sum(np.asarray(self.transitions.terminated)[self.episode_ends - 1]))
        ends = f"{ended:,} episodes terminated, {len(returns) - ended:,} were cut"
        where = f" of {self.env_id}" if self.env_id else ""
        return (
            f"Dataset {self.name}: {self.size:,} transitions in {len(returns):,} episodes{where}\n"
            f"  observations: {spell_observations(self.spec)}; actions: {spell_actions(self.spec)}\n"
            f"  return {returns.mean():,.4g} ± {returns.std():,.4g}; {ends}"
        )

    @property
    def size(self) -> int:
        return len(self.transitions.reward)

    @property
    def on_disk(self) -> bool:
        """Whether the columns are on disk and read from there row by row (see `tether.data.files.mapped`)."""
        return is_on_disk(self.transitions.observation)

    @property
    def episode_starts(self) -> np.ndarray:
        """(E,) int64: the first row of each episode."""
        return np.concatenate([[0], self.episode_ends[:-1]])

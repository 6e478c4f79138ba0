"""Changes to a whole dataset before training. Each returns a new Dataset and leaves the given one as it was."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from tether.data.dataset import Dataset
from tether.errors import TetherError
from tether.types import Batch


@dataclass(frozen=True)
class RewardScale:
    """The reward range of a dataset, by which training brings rewards into [0, 1], or into [-1, 1] where zero stays zero."""

    low: float
    high: float
    keep_zero: bool = False  # divide only

    @property
    def is_constant(self) -> bool:
        """All rewards become 0, so that nothing can be learnt from them."""
        return self.low == self.high and (not self.keep_zero or self.high == 0.0)

    def apply(self, reward: np.ndarray) -> np.ndarray:
        """`(reward - low) / (high - low)`, or `reward / max(|low|, |high|)`, as float32; 0 where nothing can be learnt."""
        if self.is_constant:
            return np.zeros_like(reward, dtype=np.float32)
        offset, unit = (0.0, max(abs(self.low), abs(self.high))) if self.keep_zero else (self.low, self.high - self.low)
        return ((reward.astype(np.float64) - offset) / unit).astype(np.float32)


def normalise_rewards(dataset: Dataset, scaling: str = "auto") -> tuple[Dataset, RewardScale]:
    """Rewards scaled by the smallest and largest of the dataset. Episode returns stay unscaled.

    `range` maps them to [0, 1], as the paper does. That adds the same to every step, which in a task that ends at success or
    failure changes what is best: a landing would forgo all that hovering earns. `divide` keeps zero and signs, and so the task.
    `auto` is `range` for continuous actions, where the paper's weights belong to it, and `divide` for discrete ones.
    """
    reward = np.asarray(dataset.transitions.reward)
    keep_zero = scaling == "divide" or (scaling == "auto" and dataset.spec.discrete)
    scale = RewardScale(low=float(reward.min()), high=float(reward.max()), keep_zero=keep_zero)
    return replace(dataset, transitions=dataset.transitions._replace(reward=scale.apply(reward))), scale


def split_episodes(dataset: Dataset, held_out_share: float, seed: int) -> tuple[Dataset, Dataset]:
    """The dataset as (kept, held out), cut between episodes, which stay in their order.

    Episodes are drawn at random until they hold at least `held_out_share` of the rows; one always stays on each side.
    A single episode is cut in two by rows, the tail being held out: rows beside the cut resemble each other, so a held-out
    measure is a little optimistic there. Both halves then carry the return of the whole episode.
    """
    if not 0.0 < held_out_share < 1.0:
        raise TetherError(f"held_out_share is {held_out_share}, expected more than 0 and less than 1")
    if dataset.size < 2:
        raise TetherError(f"{dataset.name}: one transition cannot be split")
    lengths = dataset.episode_ends - dataset.episode_starts
    episodes = len(lengths)
    if episodes == 1:
        cut = min(max(round(dataset.size * (1.0 - held_out_share)), 1), dataset.size - 1)
        first = np.arange(dataset.size) < cut
        every_return = dataset.episode_returns
        return _select(dataset, first, np.array([cut]), every_return), _select(
            dataset, ~first, np.array([dataset.size - cut]), every_return
        )
    order = np.random.default_rng(seed).permutation(episodes)
    enough = int(np.searchsorted(np.cumsum(lengths[order]), held_out_share * dataset.size)) + 1
    held_out = np.zeros(episodes, dtype=bool)
    held_out[order[: min(enough, episodes - 1)]] = True
    rows = np.repeat(held_out, lengths)
    returns = dataset.episode_returns
    return (
        _select(dataset, ~rows, np.cumsum(lengths[~held_out]), returns[~held_out]),
        _select(dataset, rows, np.cumsum(lengths[held_out]), returns[held_out]),
    )


def _select(dataset: Dataset, rows: np.ndarray, episode_ends: np.ndarray, episode_returns: np.ndarray) -> Dataset:
    transitions = Batch(*(np.asarray(column)[rows] for column in dataset.transitions))
    truncated = dataset.truncated[rows]
    truncated[episode_ends - 1] = np.asarray(transitions.terminated)[episode_ends - 1] == 0.0
    # Other rows, another dataset: what is fitted to it must not be taken for a fit to the whole or to another part.
    identity = hashlib.sha256(dataset.sha256.encode() + np.packbits(rows).tobytes()).hexdigest()
    return replace(
        dataset,
        transitions=transitions,
        truncated=truncated,
        episode_ends=episode_ends,
        episode_returns=episode_returns,
        sha256=identity,
    )

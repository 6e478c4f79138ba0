"""Rewards brought to one size for training, and what that does to the order of episodes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tether.data.dataset import Dataset
from tether.errors import TetherError
from tether.ranks import rank_correlation

REWARD_SCALINGS = ("auto", "range", "divide", "returns", "none")
RETURN_RANGE = 1_000.0  # IQL's
ROUNDING = 1e-5  # of the largest return: a smaller range of returns is that of sums of float32, and `divide` takes its place
FAR, FEW = 100.0, 1e-3  # times the size of nearly all rewards, and the share of rows: such rewards leave nothing of the others
ORDER_LOST = 0.9  # a rank correlation below this is warned of; the paper's own tasks have 0.94 (hopper-random) and more


@dataclass(frozen=True)
class RewardScale:
    """The reward range of a dataset, by which training brings rewards into [0, 1], or into [-1, 1] where zero stays zero."""

    low: float
    high: float
    keep_zero: bool = False  # divide only
    unit: float | None = None  # what to divide by, where it is not the largest size

    @property
    def is_constant(self) -> bool:
        """All rewards become 0, so that nothing can be learnt from them."""
        return self.low == self.high and (not self.keep_zero or self.high == 0.0)

    @property
    def scaling(self) -> str:
        """Which of `REWARD_SCALINGS` makes it."""
        if self.unit is not None:
            return "none" if self.unit == 1.0 else "returns"
        return "divide" if self.keep_zero else "range"

    def apply(self, reward: np.ndarray) -> np.ndarray:
        """`(reward - low) / (high - low)`, or `reward / max(|low|, |high|)`, as float32; 0 where nothing can be learnt."""
        if self.is_constant:
            return np.zeros_like(reward, dtype=np.float32)
        offset, unit = (0.0, max(abs(self.low), abs(self.high))) if self.keep_zero else (self.low, self.high - self.low)
        unit = self.unit or unit
        return ((reward.astype(np.float64) - offset) / unit).astype(np.float32)


def normalise_rewards(dataset: Dataset, scaling: str = "auto") -> tuple[Dataset, RewardScale]:
    """Rewards scaled by the smallest and largest of the dataset. Episode returns stay unscaled.

    `range` maps them to [0, 1], as the paper does. That adds the same to every step, which in a task that ends at success or
    failure changes what is best: a landing would forgo all that hovering earns. `divide` keeps zero and signs, and so the task.
    `returns` does too, and makes the best and the worst episode 1,000 apart, as IQL does. `none` leaves rewards as they are.
    `auto` is `divide` where actions are discrete or some episode terminates, else `range`, which then changes no order.
    """
    if scaling not in REWARD_SCALINGS:
        raise TetherError(f"reward_scaling is {scaling!r}; it takes {' or '.join(REWARD_SCALINGS)}")
    reward = np.asarray(dataset.transitions.reward)
    safe = "divide" if dataset.spec.discrete or terminates(dataset) else "range"
    keep_zero = (safe if scaling == "auto" else scaling) != "range"
    unit = 1.0 if scaling == "none" else None
    spread = float(np.ptp(dataset.episode_returns))
    if scaling == "returns" and spread > ROUNDING * float(np.abs(dataset.episode_returns).max()):
        unit = spread / RETURN_RANGE
    scale = RewardScale(low=float(reward.min()), high=float(reward.max()), keep_zero=keep_zero, unit=unit)
    return replace(dataset, transitions=dataset.transitions._replace(reward=scale.apply(reward))), scale


def terminates(dataset: Dataset) -> bool:
    """Whether any episode has a true end. A time limit is none."""
    return bool(np.any(np.asarray(dataset.transitions.terminated)))


def discounted_returns(dataset: Dataset, discount: float) -> np.ndarray:
    """(E,) the discounted sum of each episode's rewards, from its start."""
    reward = np.asarray(dataset.transitions.reward, np.float64)
    starts, lengths = dataset.episode_starts, dataset.episode_ends - dataset.episode_starts
    age = np.arange(dataset.size) - np.repeat(starts, lengths)
    return np.add.reduceat(reward * discount**age, starts)


def episode_worths(dataset: Dataset, discount: float) -> np.ndarray:
    """(E,) what a critic is to learn about each episode from its start.

    That is its discounted return; one that a time limit cut goes on for a critic, and here it does with its mean reward.
    So a shift of all rewards adds the same to all episodes that were cut, and less to one that ends the sooner it does.
    """
    reward = np.asarray(dataset.transitions.reward, np.float64)
    starts, lengths = dataset.episode_starts, dataset.episode_ends - dataset.episode_starts
    mean = np.add.reduceat(reward, starts) / lengths
    goes_on = np.asarray(dataset.transitions.terminated)[dataset.episode_ends - 1] == 0.0
    return discounted_returns(dataset, discount) + goes_on * discount**lengths * mean / (1.0 - discount)


def order_kept(dataset: Dataset, scale: RewardScale, discount: float) -> float | None:
    """The rank correlation (Spearman's) of what episodes are worth before and after scaling.

    1: the order is the same; -1: the best are the worst now; 0 where all are worth the same now; None where they were before.
    """
    reward = np.asarray(dataset.transitions.reward)
    scaled = replace(dataset, transitions=dataset.transitions._replace(reward=scale.apply(reward)))
    # To six digits: rewards are float32, which would make neighbours of episodes that are worth the same.
    before, after = (_rounded(episode_worths(each, discount)) for each in (dataset, scaled))
    if np.ptp(before) == 0.0:
        return None
    return 0.0 if np.ptp(after) == 0.0 else rank_correlation(before, after)


def _rounded(values: np.ndarray) -> np.ndarray:
    size = float(np.abs(values).max()) or 1.0
    return np.round(values / size, 6)


def describe_scaling(scale: RewardScale, order: float | None) -> str:
    """One line for those who train on it."""
    ways = {"range": "mapped to [0, 1]", "divide": "divided by the largest in size", "none": "left as they are"}
    how = ways.get(scale.scaling, "divided by a thousandth of the range of returns")
    kept = "" if order is None else f"; rank correlation of episodes before and after {order:.3f}"
    return f"rewards from {scale.low:.4g} to {scale.high:.4g} are {how} ({scale.scaling}){kept}"


def scaling_warning(dataset: Dataset, scale: RewardScale, order: float | None, setting: str) -> str | None:
    """What is wrong with the scaled rewards, and what would do; `setting` is what the user knows the scaling by."""
    instead = f"{setting}=auto keeps zero and signs, and so the order"
    if scale.is_constant:
        mended = f"; but episodes end, and {instead}" if scale.low != 0.0 and terminates(dataset) else ""
        return f"every reward of {dataset.name} is {scale.low:g}; there is nothing to learn from them{mended}"
    if beyond := _far_beyond(np.asarray(dataset.transitions.reward)):
        return beyond if scale.scaling in ("range", "divide") else None
    if scale.keep_zero or order is None or order >= ORDER_LOST:
        return None
    done = "turns the order of episodes round" if order < 0.0 else "changes the order of episodes"
    return (
        f"mapping the rewards of {dataset.name} to [0, 1] {done} (rank correlation {order:.2f}): it adds the same to every step, "
        f"so an episode that ends soon loses by it; {instead}"
    )


def _far_beyond(reward: np.ndarray) -> str | None:
    """Of a few rewards that are many times as large as all others, which come out near zero by a scale made for these."""
    sizes = np.abs(reward)
    usual = float(np.quantile(sizes[sizes > 0.0], 1.0 - FEW)) if (sizes > 0.0).any() else 0.0
    far = sizes > FAR * usual
    if not far.any():
        return None
    row = int(np.argmax(sizes))
    return (
        f"{int(far.sum()):,} of {len(reward):,} rewards are more than {FAR:g} times as large as nearly all others ({usual:.4g} "
        f"at most), such as {reward[row]:.4g} in row {row:,} (counted from 0): scaled by it, the others come to nothing. If it "
        "is a fault of the log, leave that row out"
    )

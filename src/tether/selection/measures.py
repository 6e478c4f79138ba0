"""Numbers that need no simulator, each with what is known of its error."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from tether.data.dataset import Dataset
from tether.data.rewards import episode_worths
from tether.networks import half_range

UNUSUAL = 0.05  # share of recorded actions that count as outside the data, so that a policy's share has something to be held to
NORMAL = 1.96  # 95 % of a normal distribution are within so many standard deviations
STUDENT = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}  # the same of so few more than one


@dataclass(frozen=True)
class Estimate:
    """A number, and between what it lies with a confidence of 95 %."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{number(self.mean)} [{number(self.low)}, {number(self.high)}]"

    def plain(self) -> dict[str, float]:
        return asdict(self)


def number(value: float) -> str:
    """Four digits that matter, and no exponent for what fits in a word."""
    return f"{value:,.0f}" if 1_000 <= abs(value) < 1e9 else f"{value:.4g}"


def over_members_and_starts(values: np.ndarray) -> Estimate:
    """Of `(members, starts)`: each member was made from a bootstrap of the episodes, so their spread is the error of learning;
    starts are episodes of their own, so the error of having so few is that of a mean.
    """
    members, starts = values.shape
    by_member, by_start = values.mean(axis=1), values.mean(axis=0)
    learning = STUDENT.get(members - 1, NORMAL) * float(by_member.std(ddof=1)) if members > 1 else 0.0
    few = NORMAL * float(by_start.std(ddof=1)) / starts**0.5 if starts > 1 else 0.0
    mean, half = float(values.mean()), float(np.hypot(learning, few))
    return Estimate(mean, mean - half, mean + half)


def recorded_worth(held_out: Dataset, discount: float, starts: np.ndarray) -> np.ndarray:
    """(S,) what the recorded episodes of these numbers earned, discounted; those that were cut go on with their mean reward."""
    return episode_worths(held_out, discount)[starts]


def outside_share(bonus: np.ndarray, recorded: np.ndarray) -> float:
    """Of a policy's actions, the share whose bonus is above that of all but `UNUSUAL` of the recorded ones. 0.05 is ordinary."""
    return float(np.mean(bonus > np.quantile(recorded, 1.0 - UNUSUAL)))


def distance(action: np.ndarray, recorded: np.ndarray, held_out: Dataset) -> float:
    """Mean squared distance in half action ranges, summed over dimensions; of discrete actions, the share that differs."""
    if held_out.spec.discrete:
        return float(np.mean(np.argmax(action, axis=1) != np.argmax(recorded, axis=1)))
    unit = np.asarray(half_range(held_out.spec.action_low, held_out.spec.action_high))
    return float(np.mean(np.sum(np.square((action - recorded) / unit), axis=1)))


def root_mean_square(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values, dtype=np.float64))))

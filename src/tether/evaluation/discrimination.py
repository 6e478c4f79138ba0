"""Can a bonus tell actions of the data from others? The paper's figures 2 and 3, and one number for each kind of action."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tether.data.dataset import Dataset
from tether.ranks import average_ranks

NOISE_LEVELS = (0.05, 0.1, 0.25, 0.5, 1.0)  # standard deviations, in half action ranges
PAIRS = 10_000  # enough for an AUROC to two digits
LINEAR_SPAN = 30.0  # an axis that reaches further than this many medians of the lowest kind is logarithmic
TAIL = 0.001  # share of the pairs at each end that may fall off the axis
KEPT_BINS = 40  # of the histogram in a run's result

BonusOf = Callable[[np.ndarray, np.ndarray], np.ndarray]  # observations (B, O), actions (B, A) -> (B,)


def pairs_by_kind(dataset: Dataset, seed: int = 0, most: int = PAIRS) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Observations, and for each kind of action the actions to pair with them. The kind `data` is the recorded one.

    `shuffled` takes each action from another row, `uniform` draws within the bounds, `noise x` adds Gaussian noise to the
    recorded action and keeps it within the bounds. Discrete actions are `shuffled`, `uniform` or `other`: any choice but
    the recorded one.
    """
    random = np.random.default_rng(seed)
    rows = random.permutation(dataset.size)[:most]
    observation, action = np.asarray(dataset.transitions.observation[rows]), np.asarray(dataset.transitions.action[rows])
    if dataset.spec.discrete:
        number, recorded = action.shape[1], np.argmax(action, axis=1)
        another = (recorded + random.integers(1, max(number, 2), len(rows))) % number
        choices = {"shuffled": np.roll(recorded, 1), "uniform": random.integers(number, size=len(rows)), "other": another}
        one_hot = np.eye(number, dtype=np.float32)
        return observation, {"data": action} | {kind: one_hot[chosen] for kind, chosen in choices.items()}
    low, high = np.asarray(dataset.spec.action_low, np.float32), np.asarray(dataset.spec.action_high, np.float32)
    kinds = {"data": action, "shuffled": np.roll(action, 1, axis=0), "uniform": random.uniform(low, high, action.shape)}
    for level in NOISE_LEVELS:
        noise = level * 0.5 * (high - low) * random.standard_normal(action.shape)
        kinds[f"noise {level:g}"] = np.clip(action + noise, low, high)
    return observation, {kind: actions.astype(np.float32) for kind, actions in kinds.items()}


def auroc(known: np.ndarray, unknown: np.ndarray) -> float:
    """The chance that the bonus of an unknown pair is above that of a known one, ties counting half."""
    ranks = average_ranks(np.concatenate([known, unknown]))[len(known) :]
    return float((ranks.sum() - len(unknown) * (len(unknown) + 1) / 2) / (len(known) * len(unknown)))


def false_positives(known: np.ndarray, unknown: np.ndarray, recall: float = 0.95) -> float:
    """The share of known pairs that a threshold calls unknown when it catches `recall` of the unknown ones."""
    caught = math.ceil(recall * len(unknown))
    threshold = np.sort(unknown)[len(unknown) - caught]
    return float(np.mean(known >= threshold))


def bonus_by_kind(bonus: BonusOf, dataset: Dataset, seed: int = 0) -> dict[str, np.ndarray]:
    """The bonus of each kind of action, on the observations of `dataset`."""
    observation, actions = pairs_by_kind(dataset, seed)
    return {kind: bonus(observation, action) for kind, action in actions.items()}


def bin_edges(found: Sequence[np.ndarray], bins: int) -> tuple[np.ndarray, bool]:
    """Edges that cover all kinds but their tails, and whether they are spaced by ratio."""
    low = min(np.quantile(values, TAIL) for values in found)
    high = max(np.quantile(values, 1.0 - TAIL) for values in found)
    medians = [np.median(values) for values in found]
    if low > 0.0 and high > LINEAR_SPAN * min(medians):
        return np.geomspace(low, high, bins + 1), True
    low = min(low, 0.0)  # a bonus is never negative, and zero is where a perfect one has the data
    return np.linspace(low, high if high > low else low + 1.0, bins + 1), False


def shares_in(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The share of values in each bin; the outermost hold all that lies beyond them."""
    return np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0] / values.size


def histogram_by_kind(bonuses: dict[str, np.ndarray]) -> dict[str, Any]:
    """For a run's result, to be drawn later: edges of the bins, and the shares of the kinds that are not noise."""
    kinds = {kind: np.asarray(values, float) for kind, values in bonuses.items() if not kind.startswith("noise")}
    if any(values.size == 0 or not np.all(np.isfinite(values)) for values in kinds.values()):
        return {}
    edges, _ = bin_edges(list(kinds.values()), KEPT_BINS)
    rounded = {kind: [round(float(share), 5) for share in shares_in(values, edges)] for kind, values in kinds.items()}
    return {"edges": [float(f"{edge:.6g}") for edge in edges], "shares": rounded}


def auroc_by_kind(bonuses: dict[str, np.ndarray]) -> dict[str, float]:
    return {kind: auroc(bonuses["data"], values) for kind, values in bonuses.items() if kind != "data"}

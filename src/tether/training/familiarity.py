"""What a policy needs to say how familiar an observation is: a fitted bonus, and what it says of pairs that the fit never saw."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np

from tether import storage
from tether.bonuses import BONUSES, NoBonus, without_chance
from tether.data.dataset import Dataset
from tether.data.transforms import split_episodes
from tether.errors import TetherError
from tether.policies import Policy
from tether.runtime.experience import OTHER, SHIFT, SHIFTED, UNUSUAL, Experience, quantiles
from tether.settings import to_named
from tether.training.fit import FittedBonus, bonus_of_rows, fit_bonus

MOST_PAIRS = 10_000  # held-out pairs that are asked: familiarity goes down to one in as many
MOST_RECORDED = 5_000  # recorded pairs that go into the file, for the nearest recorded action
MOST_BYTES = 4_000_000  # that these may take: images are large
HELD_OUT_SHARE = 0.05  # where a bonus that only counts kept nothing out, and is counted anew
MOST_SHIFTED = 2_000  # of them, to see what the bonus notices
BLOCK = 65_536  # rows of a column on disk that are looked at together


def with_experience(policy: Policy, fitted: FittedBonus | None, dataset: Dataset) -> Policy:
    """The policy with what its data was like; where that cannot be had, with the reason why not."""
    try:
        experience = experience_of(policy, fitted, dataset)
    except TetherError as error:
        return replace(policy, about=policy.about | {"no_familiarity": str(error)}, experience=None)
    about = {name: value for name, value in policy.about.items() if name != "no_familiarity"}
    return replace(policy, about=about, experience=experience)


def experience_of(policy: Policy, fitted: FittedBonus | None, dataset: Dataset) -> Experience:
    """By the bonus, which was fitted to `dataset`. A `TetherError` says why there is none."""
    if fitted is None or isinstance(fitted.bonus, NoBonus):
        raise TetherError("it was trained without a bonus")
    fitted = _judged(fitted, dataset)
    bonus = without_chance(fitted.bonus)
    held_out = split_episodes(dataset, bonus.held_out_share, bonus.seed)[1]
    rows = _some(held_out.size, MOST_PAIRS)
    observation, action = (np.asarray(column[rows]) for column in held_out.transitions[:2])
    novelty = partial(bonus_of_rows, bonus, fitted.state, key=jax.random.key(0))
    values, shares = quantiles(novelty(observation, action))
    low, high = ranges(dataset.transitions.observation)
    recorded = _some(dataset.size, _recorded_rows(dataset))
    return Experience(
        bonus=to_named(bonus, BONUSES),
        state=storage.flatten_tree(fitted.state),
        values=values,
        shares=shares,
        pairs=len(rows),
        episodes=len(np.unique(np.searchsorted(held_out.episode_ends, rows, side="right"))),
        low=low,
        high=high,
        observation=np.asarray(dataset.transitions.observation[recorded], np.float32),
        action=np.asarray(dataset.transitions.action[recorded], np.float32),
        sight=_sight(policy, observation, lambda *pair: np.interp(novelty(*pair), values, shares)),
    )


def _sight(policy: Policy, observation: np.ndarray, familiarity: Callable[..., np.ndarray]) -> dict[str, float]:
    """What the bonus notices: of held-out observations with a column far off and the policy's action for them, and of actions at
    random for held-out observations, the share that is unusual.
    """
    random, spec = np.random.default_rng(0), policy.spec
    seen = observation[_some(len(observation), MOST_SHIFTED)]
    rows, columns = np.arange(len(seen)), random.integers(spec.observation_size, size=len(seen))
    spread = observation.std(axis=0, dtype=np.float64)  # in float32 a constant column has one, by the rounding of its mean
    shifted = np.array(seen)
    shifted[rows, columns] += SHIFT * random.choice([-1.0, 1.0], len(seen)) * np.where(spread < 1e-6, 1.0, spread)[columns]
    other = random.uniform(spec.action_low, spec.action_high, (len(seen), spec.action_size)).astype(np.float32)
    if spec.discrete:
        other = np.eye(spec.action_size, dtype=np.float32)[random.integers(spec.action_size, size=len(seen))]
    pairs = {SHIFTED: (shifted, policy.rows_to_actions(shifted)), OTHER: (seen, other)}
    return {kind: float(np.mean(familiarity(*pair) < UNUSUAL)) for kind, pair in pairs.items()}


def _judged(fitted: FittedBonus, dataset: Dataset) -> FittedBonus:
    """The fit, if there are pairs that it has not seen. One that only counts is made anew without a few episodes."""
    if fitted.bonus.held_out_share > 0:
        return fitted
    if fitted.bonus.steps > 0:
        raise TetherError(
            "its bonus was fitted to every episode (bonus.held_out_share is 0), and what a bonus says of pairs that it was "
            "fitted to is no measure"
        )
    return fit_bonus(replace(fitted.bonus, held_out_share=HELD_OUT_SHARE), dataset)  # type: ignore[type-var]


def ranges(observation: Any) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest recorded value of each column, wherever the rows are."""
    low, high = zip(*((block.min(axis=0), block.max(axis=0)) for block in _blocks(observation)), strict=True)
    return np.min(low, axis=0).astype(np.float32), np.max(high, axis=0).astype(np.float32)


def _blocks(column: Any) -> Iterator[np.ndarray]:
    for start in range(0, len(column), BLOCK):
        yield np.asarray(column[start : start + BLOCK])


def _some(size: int, most: int) -> np.ndarray:
    """At most so many row numbers of `size`, ascending, always the same."""
    return np.arange(size) if size <= most else np.sort(np.random.default_rng(0).choice(size, most, replace=False))


def _recorded_rows(dataset: Dataset) -> int:
    row = 4 * (dataset.spec.observation_size + dataset.spec.action_size)
    return max(min(MOST_RECORDED, MOST_BYTES // row), 1)

"""What the statements are checked on: families of MDPs, each with everything that a statement says "for any" of."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tether.theory.gridworld import gridworld
from tether.theory.mdps import DISCOUNTS, MDP, garnets
from tether.types import Array


class Problem(NamedTuple):
    """An MDP and one of each thing a statement holds for any of; a batch has one more axis in front."""

    mdp: MDP
    bonus: Array  # (S, A), >= 0
    bonus_weight: Array  # (), the paper's beta
    temperature: Array  # (), the paper's tau
    start: Array  # (S, A), a Q_0
    other_start: Array  # (S, A), another
    policy: Array  # (S, A), no zeros
    seen: Array  # (S, A) of bool: the pairs of a dataset


def small_garnets(random: np.random.Generator, count: int) -> Problem:
    mdp = garnets(random, count, states=3, actions=3, branching=3)
    return _surround(random, mdp, random.random(mdp.reward.shape))


def larger_garnets(random: np.random.Generator, count: int) -> Problem:
    mdp = garnets(random, count, states=12, actions=4, branching=3)
    return _surround(random, mdp, random.random(mdp.reward.shape))


def gridworlds_with_ties(random: np.random.Generator, count: int) -> Problem:
    """The gridworld with more or less slip and discount, bonuses of zeros and ones, and Q_0 = 0: most decisions begin as ties.

    A sixteenth of the states have no zero among their four bonuses.
    """
    straight, astray = gridworld(slip=0.0), gridworld(slip=1.0)
    slip = random.uniform(0.0, 0.3, (count, 1, 1, 1))
    mdp = MDP(
        transition=(1.0 - slip) * straight.transition + slip * astray.transition,
        reward=np.broadcast_to(straight.reward, (count, *straight.reward.shape)),
        discount=random.uniform(*DISCOUNTS, count),
    )
    problem = _surround(random, mdp, random.integers(0, 2, mdp.reward.shape).astype(float))
    return problem._replace(start=np.zeros(mdp.reward.shape))


FAMILIES: dict[str, Callable[[np.random.Generator, int], Problem]] = {
    "garnets of 3 states, 3 actions": small_garnets,
    "garnets of 12 states, 4 actions": larger_garnets,
    "gridworlds, bonuses of 0 and 1": gridworlds_with_ties,
}


def _surround(random: np.random.Generator, mdp: MDP, bonus: np.ndarray) -> Problem:
    shape, lead = mdp.reward.shape, mdp.discount.shape
    odds = np.exp(3.0 * random.standard_normal(shape))
    return Problem(
        mdp=mdp,
        bonus=bonus,
        bonus_weight=10.0 ** random.uniform(-1.0, 1.0, lead),
        temperature=10.0 ** random.uniform(-3.0, 1.0, lead),
        start=random.uniform(-10.0, 10.0, shape),
        other_start=random.uniform(-10.0, 10.0, shape),
        policy=odds / np.sum(odds, axis=-1, keepdims=True),
        seen=random.random(shape) < 0.5,
    )

"""Finite Markov decision processes, small enough to be solved exactly and random enough to be a test."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tether.types import Array

DISCOUNTS = (0.5, 0.95)


class MDP(NamedTuple):
    """One MDP; a batch of them has one more axis in front of each array."""

    transition: Array  # (S, A, S): P(s' | s, a)
    reward: Array  # (S, A)
    discount: Array  # ()


def garnets(
    random: np.random.Generator, count: int, states: int, actions: int, branching: int, discounts: tuple[float, float] = DISCOUNTS
) -> MDP:
    """A batch of random MDPs: each pair has `branching` successors and a reward uniform in [0, 1].

    The probabilities of the successors are the pieces of the unit interval cut at uniform points. The discount of each MDP is
    uniform between the two.
    """
    pairs = (count, states, actions)
    successors = np.argsort(random.random((*pairs, states)), axis=-1)[..., :branching]
    cuts = np.sort(random.random((*pairs, branching - 1)), axis=-1)
    pieces = np.diff(cuts, prepend=0.0, append=1.0, axis=-1)
    transition = np.zeros((*pairs, states))
    np.put_along_axis(transition, successors, pieces, axis=-1)
    return MDP(transition, random.random(pairs), random.uniform(*discounts, count))

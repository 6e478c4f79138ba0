"""Two states, two actions, half of the future: small enough to work out by hand. And random problems, for properties."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tether.theory.exact import policy_iteration
from tether.theory.mdps import MDP
from tether.theory.problems import Problem

# Action 0 stays, action 1 goes to the other state; both always succeed.
STAY_OR_GO = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]])


def two_states(reward: list[list[float]]) -> MDP:
    return MDP(STAY_OR_GO, np.array(reward), np.array(0.5))


def problem_of(mdp: MDP, bonus: list[list[float]], bonus_weight: float = 1.0, temperature: float = 1.0) -> Problem:
    """A batch of one, from Q_0 = 0."""
    zeros = np.zeros((1, *mdp.reward.shape))
    return Problem(
        mdp=MDP(*(part[None] for part in mdp)),
        bonus=np.array([bonus]),
        bonus_weight=np.array([bonus_weight]),
        temperature=np.array([temperature]),
        start=zeros,
        other_start=zeros,
        policy=zeros + 0.5,
        seen=zeros == 0.0,
    )


def optimum(problem: Problem, bonus: np.ndarray) -> np.ndarray:
    """The optimal values of `r - beta bonus`."""
    return policy_iteration(problem.mdp._replace(reward=problem.mdp.reward - problem.bonus_weight[:, None, None] * bonus))


def numbers(low: float, high: float, *shape: int) -> st.SearchStrategy[np.ndarray]:
    return arrays(np.float64, shape, elements=st.floats(low, high, allow_subnormal=False))


@st.composite
def random_problems(draw: st.DrawFn, count: int = 3, states: int = 3, actions: int = 3) -> Problem:
    """A batch of any transition, reward, bonus and so on: also zeros, ties, and a weight of nothing."""
    shape = (count, states, actions)
    weights = draw(arrays(np.int64, (*shape, states), elements=st.integers(0, 3)))
    weights[..., 0] += weights.sum(axis=-1) == 0
    policy = draw(arrays(np.int64, shape, elements=st.integers(1, 9)))
    return Problem(
        mdp=MDP(
            transition=weights / weights.sum(axis=-1, keepdims=True),
            reward=draw(numbers(-1.0, 1.0, *shape)),
            discount=draw(numbers(0.0, 0.9, count)),
        ),
        bonus=draw(numbers(0.0, 1.0, *shape)),
        bonus_weight=draw(numbers(0.0, 10.0, count)),
        temperature=draw(numbers(1e-3, 10.0, count)),
        start=draw(numbers(-10.0, 10.0, *shape)),
        other_start=draw(numbers(-10.0, 10.0, *shape)),
        policy=policy / policy.sum(axis=-1, keepdims=True),
        seen=draw(arrays(np.bool_, shape)),
    )


def measure(part: Callable[..., dict[str, Any]], problem: Problem, *optima: np.ndarray) -> dict[str, float]:
    """The largest of each over a batch; compiled as the command compiles it."""
    return {name: float(np.max(values)) for name, values in _compiled(part)(problem, *optima).items()}


@cache
def _compiled(part: Callable[..., Any]) -> Callable[..., Any]:
    return jax.jit(jax.vmap(part))

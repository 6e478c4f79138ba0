"""The optimum by two ways that know nothing of value iteration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from two_states import random_problems, two_states

from tether.theory.exact import linear_program, policy_iteration
from tether.theory.mdps import MDP
from tether.theory.problems import Problem


def batch(*mdps: MDP) -> MDP:
    return MDP(*(np.stack(parts) for parts in zip(*mdps, strict=True)))


@pytest.mark.parametrize("solve", [policy_iteration, linear_program])
def test_two_states_by_hand(solve):
    # Stay in state 1 for 2 a step: v_1 = 2 / (1 - 1/2) = 4, and v_0 = 1 + 4/2 = 3.
    # Less a penalty of 2 on that: v_0 = 1 + v_1/2 and v_1 = v_0/2, so v_0 = 4/3 and v_1 = 2/3.
    found = solve(batch(two_states([[0.0, 1.0], [2.0, 0.0]]), two_states([[0.0, 1.0], [0.0, 0.0]])))
    np.testing.assert_allclose(found, [[3.0, 4.0], [4 / 3, 2 / 3]], rtol=1e-7)


def test_ties_do_not_keep_it_going():
    np.testing.assert_allclose(policy_iteration(batch(two_states([[1.0, 1.0], [1.0, 1.0]]))), [[2.0, 2.0]], rtol=1e-14)


@settings(max_examples=15, deadline=None)
@given(random_problems())
def test_both_ways_agree(problem: Problem):
    np.testing.assert_allclose(policy_iteration(problem.mdp), linear_program(problem.mdp), atol=1e-6)

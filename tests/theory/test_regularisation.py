"""Section 4 of the paper, as properties: KL regularisation, its cold limit, and the smallest bonus it does not see."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from two_states import measure, optimum, problem_of, random_problems, two_states

from tether.theory import regularisation
from tether.theory.problems import Problem


@settings(max_examples=12, deadline=None)
@given(random_problems())
def test_kl_regularised_is_entropy_regularised_on_q_minus_delta(problem: Problem):
    found = measure(regularisation.kl_identity, problem)
    for name in ("kl_any_policy", "kl_argmax", "kl_missing_tau", "kl_same_q"):
        assert found[name] < 1e-10, name
    entropy = -np.sum(problem.policy * np.log(problem.policy), axis=-1)
    assert found["missing_tau_gap"] == pytest.approx(np.max(abs(1.0 - problem.temperature)[:, None] * entropy), abs=1e-12)
    # Policies: at a temperature of 1e-3 the rounding of Q is multiplied by a thousand.
    assert found["kl_same_policies"] < 1e-8


@settings(max_examples=12, deadline=None)
@given(random_problems())
def test_the_cold_limit_is_anti_exploration_within_its_bounds(problem: Problem):
    above = problem.bonus - problem.bonus.min(axis=-1, keepdims=True)
    found = measure(regularisation.cold_limit, problem, optimum(problem, above))
    assert {name: value for name, value in found.items() if not value < 1e-9} == {}


def test_the_bound_on_q_is_reached_where_all_bonuses_are_alike():
    """With b = 0 and one best action, each step loses tau ln 2 and nothing else: the bound, to an exponentially small rest."""
    problem = problem_of(two_states([[0.0, 0.0], [0.0, 0.0]]), [[0.0, 0.0], [0.0, 0.0]])
    problem = problem._replace(start=np.array([[[10.0, 0.0], [10.0, 0.0]]]))
    # After one step from Q = (10, 0): 1/2 (10 + tau ln(1/2 + exp(-10/tau)/2)) against 1/2 10, which is tau ln 2 / 2 less.
    found = measure(regularisation._at_temperature, problem, np.zeros((1, 2)), np.array([0.1]))
    assert found["cold_q"] == pytest.approx(0.0, abs=1e-14)
    assert found["cold_delta"] == pytest.approx(0.0, abs=1e-15)  # tau ln 2 on top, the most there can be


@settings(max_examples=12, deadline=None)
@given(random_problems())
def test_the_limit_does_not_see_the_smallest_bonus(problem: Problem):
    found = measure(regularisation.smallest_bonus, problem, optimum(problem, problem.bonus))
    for name in ("blind_delta", "blind_reward", "constant_minimum"):
        assert found[name] < 1e-9, name


def test_what_goes_wrong_by_hand():
    # All actions of state 1 are unknown (b = 1, weight 4), those of state 0 known. b - min b = 0: the limit sees no penalty.
    # Limit: v_1 = 2 / (1 - 1/2) = 4 by staying, v_0 = max(1/2 / (1 - 1/2), 4/2) = 2 by going. It walks into the unknown.
    # r - 4b: staying at 0 is worth 1, going 0 + v_1/2 < 0. In state 1: stay for -2 a step (-4), or go back, -4 + 1/2 = -3.5.
    # So the optimum is (1, -3.5), where the limit's policy has (0 - 4/2, -4) = (-2, -4): it loses 3 in state 0, 1/2 in state 1.
    problem = problem_of(two_states([[0.5, 0.0], [2.0, 0.0]]), [[0.0, 0.0], [1.0, 1.0]], bonus_weight=4.0)
    found = measure(regularisation.smallest_bonus, problem, np.array([[1.0, -3.5]]))
    assert found["lost"] == pytest.approx(3.0)
    assert max(found[name] for name in ("blind_delta", "blind_reward", "constant_minimum")) < 1e-14

"""Section 3 of the paper, as properties: naive and bootstrapped anti-exploration are one, and reach the optimum of r - b."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from two_states import measure, optimum, problem_of, random_problems, two_states

from tether.theory import equivalence
from tether.theory.iteration import bootstrapped_step, naive_step, side_by_side
from tether.theory.mdps import MDP
from tether.theory.problems import Problem


@settings(max_examples=12, deadline=None)
@given(random_problems())
def test_both_forms_have_the_same_policies_and_q_at_every_iteration(problem: Problem):
    found = measure(equivalence.same_iterations, problem)
    assert found["same_q"] < 1e-10
    assert found["same_policies"] < 1e-10


@jax.jit
def exactly_same(mdp: MDP, start: Any, penalty: Any) -> Any:
    steps = partial(naive_step, mdp, penalty=penalty), partial(bootstrapped_step, mdp, penalty=penalty)

    def compare(policy: Any, q: Any, q_next: Any) -> Any:
        return jnp.array_equal(*policy) & jnp.array_equal(q_next[1], q_next[0] + penalty)

    return jnp.all(side_by_side(*steps, (start, start + penalty), compare, iterations=20))


whole = partial(arrays, np.int64, (3, 3))


@settings(max_examples=60, deadline=None)
@given(
    whole(elements=st.integers(0, 2)), *(whole(elements=st.integers(-4, 4)) for _ in range(2)), whole(elements=st.integers(0, 4))
)
def test_where_arithmetic_is_exact_so_is_the_equality_ties_and_all(successors, reward, start, bonus):
    """Quarters, moves without chance and a discount of a half: no iteration of twenty rounds anything."""
    mdp = MDP(np.eye(3)[successors], reward / 4.0, np.array(0.5))
    assert exactly_same(mdp, start / 4.0, bonus / 4.0)


def test_without_the_shifted_start_the_policies_differ():
    # Q_0 = Q'_0 = 0 in state 0, b = (1, 0): naive takes the first of two equals, bootstrapped the one without penalty.
    mdp, penalty = two_states([[0.0, 0.0], [0.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 0.0]])
    zeros = jnp.zeros((2, 2))
    assert np.argmax(naive_step(mdp, zeros, penalty)[0], axis=-1).tolist() == [0, 0]
    assert np.argmax(bootstrapped_step(mdp, zeros, penalty)[0], axis=-1).tolist() == [1, 0]


@settings(max_examples=12, deadline=None)
@given(random_problems())
def test_from_any_start_both_reach_an_optimal_policy_of_r_minus_b(problem: Problem):
    found = measure(equivalence.common_limit, problem, optimum(problem, 0 * problem.bonus), optimum(problem, problem.bonus))
    assert found["plain_limit"] < 1e-9
    assert found["limit"] < 1e-9
    assert found["limit_policy"] < 1e-9


def test_the_common_limit_by_hand():
    # The penalty takes the 2 from staying in state 1: v_0 = 1 + v_1/2, v_1 = v_0/2, so (4/3, 2/3); without it (3, 4).
    problem = problem_of(two_states([[0.0, 1.0], [2.0, 0.0]]), [[0.0, 0.0], [0.5, 0.0]], bonus_weight=4.0)
    found = measure(equivalence.common_limit, problem, np.array([[3.0, 4.0]]), np.array([[4 / 3, 2 / 3]]))
    assert max(found.values()) < 1e-14
    wrong = measure(equivalence.common_limit, problem, np.array([[3.0, 4.0]]), np.array([[4 / 3, 2 / 3 + 0.25]]))
    assert wrong["limit"] == pytest.approx(0.25)
    assert wrong["limit_policy"] == pytest.approx(0.25)


@settings(max_examples=12, deadline=None)
@given(random_problems())
def test_the_error_shrinks_by_the_discount_at_least(problem: Problem):
    assert measure(equivalence.contraction, problem, optimum(problem, problem.bonus))["contraction"] < 1e-9


def test_an_error_that_does_not_shrink_is_noticed():
    # r = b = 0 and Q_0 = 0: already at its end, (0, 0). Told that the end is (1, 1), Q would have to come from 1/2 away to it.
    problem = problem_of(two_states([[0.0, 0.0], [0.0, 0.0]]), [[0.0, 0.0], [0.0, 0.0]])
    assert measure(equivalence.contraction, problem, np.ones((1, 2)))["contraction"] == pytest.approx(0.5)


@settings(max_examples=12, deadline=None)
@given(random_problems())
def test_a_dataset_changes_nothing_if_unseen_pairs_start_shifted_too(problem: Problem):
    assert measure(equivalence.same_offline, problem)["same_offline"] < 1e-10


def test_policies_are_compared_by_value():
    q = jnp.array([[1.0, 3.0], [2.0, 2.0]])
    first, second = jnp.array([[1.0, 0.0], [1.0, 0.0]]), jnp.array([[0.0, 1.0], [0.0, 1.0]])
    assert equivalence.loss(first, q) == 2.0  # 3 - 1 in the first state; the tie in the second costs nothing
    assert equivalence.loss(second, q) == 0.0
    assert equivalence.differing(first, second) == 2

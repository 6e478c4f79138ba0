"""Each form of value iteration, against arithmetic done by hand."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from two_states import STAY_OR_GO, two_states

from tether.theory import iteration
from tether.theory.mdps import MDP

# NumPy's arrays, which are of 64 bits at import too. Staying in state 1 pays 2, but is unknown: its penalty is 2.
MDP_A = two_states([[0.0, 1.0], [2.0, 0.0]])
PENALTY_A = np.array([[0.0, 0.0], [2.0, 0.0]])


def run(step: iteration.Step, q: list[list[float]], iterations: int) -> tuple[list[list[int]], list[list[list[float]]]]:
    """The actions and the Q of each iteration."""
    actions, values = [], []
    current = jnp.array(q)
    for _ in range(iterations):
        policy, current = step(current)
        actions.append(np.argmax(policy, axis=-1).tolist())
        values.append(np.asarray(current).tolist())
    return actions, values


def test_plain_value_iteration():
    # Q_1 = r, so v_1 = (1, 2).   Q_2 = (0 + 1/2, 1 + 2/2; 2 + 2/2, 0 + 1/2), so v_2 = (2, 3).
    # Q_3 = (0 + 2/2, 1 + 3/2; 2 + 3/2, 0 + 2/2)
    actions, values = run(partial(iteration.plain_step, MDP_A), [[0.0, 0.0], [0.0, 0.0]], 3)
    assert values == [[[0.0, 1.0], [2.0, 0.0]], [[0.5, 2.0], [3.0, 0.5]], [[1.0, 2.5], [3.5, 1.0]]]
    assert actions == [[0, 0], [1, 0], [1, 0]]  # the first is a tie everywhere


def test_naive_anti_exploration():
    # r - b = (0, 1; 0, 0).   v_1 = (1, 0).   Q_2 = (0 + 1/2, 1 + 0; 0 + 0, 0 + 1/2), v_2 = (1, 1/2).
    # Q_3 = (0 + 1/2, 1 + 1/4; 0 + 1/4, 0 + 1/2)
    actions, values = run(partial(iteration.naive_step, MDP_A, penalty=PENALTY_A), [[0.0, 0.0], [0.0, 0.0]], 3)
    assert values == [[[0.0, 1.0], [0.0, 0.0]], [[0.5, 1.0], [0.0, 0.5]], [[0.5, 1.25], [0.25, 0.5]]]
    assert actions == [[0, 0], [1, 0], [1, 1]]


def test_bootstrapped_anti_exploration():
    # Q'_0 = b, so Q'_0 - b = 0 and Q'_1 = r.   Q'_1 - b = (0, 1; 0, 0), so Q'_2 = (0 + 1/2, 1 + 0; 2 + 0, 0 + 1/2).
    # Q'_2 - b = (1/2, 1; 0, 1/2), so Q'_3 = (0 + 1/2, 1 + 1/4; 2 + 1/4, 0 + 1/2). Each is the naive Q plus b.
    actions, values = run(partial(iteration.bootstrapped_step, MDP_A, penalty=PENALTY_A), PENALTY_A.tolist(), 3)
    assert values == [[[0.0, 1.0], [2.0, 0.0]], [[0.5, 1.0], [2.0, 0.5]], [[0.5, 1.25], [2.25, 0.5]]]
    assert actions == [[0, 0], [1, 0], [1, 1]]


# tau = 2 and b = (0, 2 ln 3) in both states: exp(-b/tau) = (1, 1/3), so pi_b = (3/4, 1/4), and with Q = (0, 2 ln 9) the policy is
# proportional to (3/4 * 1, 1/4 * 9): it is (1/4, 3/4). Its worth is 2 ln(3/4 + 9/4) = 2 ln 3.
MDP_B = MDP(STAY_OR_GO, np.zeros((2, 2)), np.array(0.5))
BONUS_B = np.array([[0.0, 2 * np.log(3)]] * 2)
Q_B = np.array([[0.0, 2 * np.log(9)]] * 2)
delta = jax.jit(iteration.delta)  # one compilation instead of one for each operation


def test_the_policy_of_a_bonus():
    np.testing.assert_allclose(jnp.exp(iteration.log_behaviour(BONUS_B, 1.0, 2.0)), [[0.75, 0.25]] * 2, rtol=1e-14)
    # twice the bonus at twice the weight of the temperature: exp(-2 * 2 ln 3 / 4)
    np.testing.assert_allclose(jnp.exp(iteration.log_behaviour(BONUS_B, 2.0, 4.0)), [[0.75, 0.25]] * 2, rtol=1e-14)


def test_delta_is_minus_tau_times_the_log_of_that_policy():
    # b + tau ln(1 + 1/3) = (2 ln(4/3), 2 ln 3 + 2 ln(4/3)) = (2 ln(4/3), 2 ln 4)
    np.testing.assert_allclose(delta(BONUS_B, 1.0, 2.0), [[2 * np.log(4 / 3), 2 * np.log(4)]] * 2, rtol=1e-14)


def test_kl_regularised_step():
    step = partial(iteration.kl_step, MDP_B, log_behaviour=jnp.log(jnp.array([[0.75, 0.25]] * 2)), temperature=2.0)
    policy, q = step(Q_B)
    np.testing.assert_allclose(policy, [[0.25, 0.75]] * 2, rtol=1e-14)
    np.testing.assert_allclose(q, np.full((2, 2), 0.5 * 2 * np.log(3)), rtol=1e-14)  # r = 0, gamma = 1/2


def test_entropy_regularised_step_and_why_its_tau_is_right():
    lowered = np.array([[2 * np.log(4 / 3), 2 * np.log(4)]] * 2)
    policy, q = jax.jit(iteration.entropy_step)(MDP_B, Q_B, lowered, 2.0)
    np.testing.assert_allclose(policy, [[0.25, 0.75]] * 2, rtol=1e-14)
    np.testing.assert_allclose(q, np.full((2, 2), np.log(3)), rtol=1e-14)
    # H = 1/4 ln 4 + 3/4 ln(4/3) = ln 4 - 3/4 ln 3. With H in place of 2 H, as one line of the paper has it, that much is missing.
    without = iteration.entropy_objective(policy, jnp.log(policy), Q_B - lowered, 1.0)
    np.testing.assert_allclose(without, np.full(2, 2 * np.log(3) - (np.log(4) - 0.75 * np.log(3))), rtol=1e-14)


def test_delta_of_a_shared_smallest_bonus_is_the_bound_and_that_of_another_is_not():
    # (0, 0): tau ln 2, the largest that two actions allow
    np.testing.assert_allclose(delta(jnp.zeros((1, 2)), 1.0, 0.5), [[0.5 * np.log(2)] * 2], rtol=1e-14)
    # beta b = (2, 6): what is left is (0, 4), and tau ln(1 + exp(-4/tau)) on top; with tau = 4 / ln 3 that is tau ln(4/3)
    temperature = 4 / np.log(3)
    on_top = temperature * np.log(4 / 3)
    np.testing.assert_allclose(delta(jnp.array([[1.0, 3.0]]), 2.0, temperature), [[on_top, 4.0 + on_top]], rtol=1e-13)
    assert iteration.above_smallest(jnp.array([[1.0, 3.0]])).tolist() == [[0.0, 2.0]]


def test_the_value_of_a_policy():
    # Going back and forth from state 0: 1 + 0/2 + 1/4 + 0/8 + ... = 1 / (1 - 1/4); from state 1 half of that.
    value = iteration.policy_value(MDP_A, jnp.array(MDP_A.reward), jnp.array([[0.0, 1.0], [0.0, 1.0]]))
    np.testing.assert_allclose(value, [4 / 3, 2 / 3], rtol=1e-14)
    # A coin in both: v_0 = 1/2 + (v_0 + v_1)/4, v_1 = 1 + (v_0 + v_1)/4, so their sum is 3 and they are 1/2 + 3/4 and 1 + 3/4.
    value = iteration.policy_value(MDP_A, jnp.array(MDP_A.reward), jnp.full((2, 2), 0.5))
    np.testing.assert_allclose(value, [1.25, 1.75], rtol=1e-14)


def test_thousands_of_mdps_are_one_call():
    many = MDP(*(np.broadcast_to(part, (2000, *part.shape)) for part in MDP_A))
    steps = jax.jit(jax.vmap(lambda mdp: iteration.iterate(partial(iteration.plain_step, mdp), jnp.zeros((2, 2)), 60)))
    np.testing.assert_allclose(steps(many), np.broadcast_to([[1.5, 3.0], [4.0, 1.5]], (2000, 2, 2)), rtol=1e-14)
    assert steps(many).dtype == jnp.float64

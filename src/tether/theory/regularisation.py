"""Section 4 of the paper, measured on one problem: the link to KL regularisation, its cold limit, and what the limit leaves out.

Each function gives by name the largest error of a statement, a scalar; `tether.theory.statements` says what each name states.
Bounds are proved in docs/theory.md; for them the error is how far they are exceeded.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from tether.theory import iteration
from tether.theory.equivalence import ITERATIONS, LIMIT_ITERATIONS, largest, loss
from tether.theory.iteration import bootstrapped_step, entropy_step, greedy, kl_step, policy_value, side_by_side
from tether.theory.problems import Problem
from tether.types import Array

TEMPERATURES = (1.0, 0.1, 0.01, 1e-3, 1e-4)
COLD_ITERATIONS = 100


def kl_identity(problem: Problem) -> dict[str, Array]:
    """KL-regularised toward `pi_b` is entropy-regularised on `Q - Delta_b`: for any policy, its best one, and every iteration."""
    mdp, temperature = problem.mdp, problem.temperature
    log_behaviour = iteration.log_behaviour(problem.bonus, problem.bonus_weight, temperature)
    delta = iteration.delta(problem.bonus, problem.bonus_weight, temperature)
    kl = partial(kl_step, mdp, log_behaviour=log_behaviour, temperature=temperature)
    entropic = partial(entropy_step, mdp, delta=delta, temperature=temperature)

    q, policy, log_policy = problem.start, problem.policy, jnp.log(problem.policy)
    objective = iteration.kl_objective(policy, log_policy, q, log_behaviour, temperature)
    equal = iteration.entropy_objective(policy, log_policy, q - delta, temperature)
    without_tau = iteration.entropy_objective(policy, log_policy, q - delta, jnp.ones(()))
    gap = jnp.abs(1.0 - temperature) * iteration.entropy(policy, log_policy)

    best, _ = kl(q)
    reached = iteration.kl_objective(best, jnp.log(jnp.where(best > 0.0, best, 1.0)), q, log_behaviour, temperature)
    highest = temperature * jax.nn.logsumexp(q / temperature + log_behaviour, axis=-1)

    def compare(policy: tuple[Array, Array], q: tuple[Array, Array], q_next: tuple[Array, Array]) -> tuple[Array, Array]:
        return largest(q_next[0] - q_next[1]), largest(policy[0] - policy[1])

    same_q, same_policy = side_by_side(kl, entropic, (q, q), compare, ITERATIONS)
    return {
        "kl_any_policy": largest(objective - equal),
        "kl_missing_tau": largest(jnp.abs(objective - without_tau) - gap),
        "missing_tau_gap": jnp.max(gap),
        "kl_argmax": jnp.maximum(largest(reached - highest), jnp.max(objective - highest)),
        "kl_same_q": jnp.max(same_q),
        "kl_same_policies": jnp.max(same_policy),
    }


def cold_limit(problem: Problem, optimum: Array) -> dict[str, Array]:
    """As tau falls to 0. `optimum` is that of `r - beta (b - min b)`."""
    found = jax.vmap(partial(_at_temperature, problem, optimum))(jnp.array(TEMPERATURES))
    return {name: jnp.max(jnp.maximum(values, 0.0)) for name, values in found.items()}


def _at_temperature(problem: Problem, optimum: Array, temperature: Array) -> dict[str, Array]:
    mdp, bonus, weight = problem.mdp, problem.bonus, problem.bonus_weight
    penalty = weight * iteration.above_smallest(bonus)
    delta = iteration.delta(bonus, weight, temperature)
    warmth = temperature * jnp.log(float(bonus.shape[-1]))  # tau ln |A|
    excess = delta - penalty
    log_behaviour = iteration.log_behaviour(bonus, weight, temperature)
    warm = partial(kl_step, mdp, log_behaviour=log_behaviour, temperature=temperature)
    cold = partial(bootstrapped_step, mdp, penalty=penalty)
    errors = side_by_side(warm, cold, (problem.start, problem.start), lambda _, __, q: largest(q[0] - q[1]), COLD_ITERATIONS)
    shrink = 1.0 - mdp.discount ** jnp.arange(1, COLD_ITERATIONS + 1)
    bound = mdp.discount * shrink / (1.0 - mdp.discount) * warmth
    policy, _ = warm(iteration.iterate(warm, problem.start, LIMIT_ITERATIONS))
    regret = optimum - policy_value(mdp, mdp.reward - penalty, policy)
    return {
        "cold_delta": jnp.maximum(jnp.max(-excess), jnp.max(excess - warmth)),
        "cold_q": jnp.max(errors - bound),
        "cold_policy": jnp.max(regret) - warmth / (1.0 - mdp.discount),
    }


def smallest_bonus(problem: Problem, optimum: Array) -> dict[str, Array]:
    """What becomes of `min_a b`, which the paper takes to be zero. `optimum` is that of `r - beta b`.

    `lost` is no error but a finding: what the limit's optimal policy loses under `r - beta b`, at its worst state.
    """
    mdp, weight, temperature = problem.mdp, problem.bonus_weight, problem.temperature
    penalty, smallest = weight * problem.bonus, jnp.min(problem.bonus, axis=-1)
    above = iteration.above_smallest(problem.bonus)
    blind = iteration.delta(problem.bonus, weight, temperature) - iteration.delta(above, weight, temperature)

    full = partial(bootstrapped_step, mdp, penalty=penalty)
    limit = partial(bootstrapped_step, mdp, penalty=weight * above)
    lowered_reward = iteration.backup(mdp, mdp.reward, -weight * smallest)
    lowered = partial(bootstrapped_step, mdp._replace(reward=lowered_reward), penalty=weight * above)
    constant = weight * problem.bonus[0, 0]
    shifted = partial(bootstrapped_step, mdp, penalty=weight * above + constant)
    offset = mdp.discount * constant * (1.0 - mdp.discount ** jnp.arange(1, ITERATIONS + 1)) / (1.0 - mdp.discount)

    def same(policy: tuple[Array, Array], q: tuple[Array, Array], q_next: tuple[Array, Array]) -> tuple[Array, Array]:
        lost = jnp.maximum(loss(policy[1], q[0] - penalty), loss(policy[0], q[1] - weight * above))
        return largest(q_next[0] - q_next[1]), lost

    def apart(policy: tuple[Array, Array], q: tuple[Array, Array], q_next: tuple[Array, Array]) -> tuple[Array, Array]:
        difference = q_next[0] - q_next[1]
        return jnp.max(difference), jnp.min(difference)

    starts = (problem.start, problem.start)
    same_q, same_policy = side_by_side(full, lowered, starts, same, ITERATIONS)
    highest, lowest = side_by_side(limit, shifted, starts, apart, ITERATIONS)

    followed = greedy(iteration.iterate(limit, problem.start, LIMIT_ITERATIONS) - weight * above)
    lost = optimum - policy_value(mdp, mdp.reward - penalty, followed)
    return {
        "blind_delta": largest(blind),
        "blind_reward": jnp.maximum(jnp.max(same_q), jnp.max(same_policy)),
        "constant_minimum": jnp.maximum(largest(highest - offset), largest(lowest - offset)),
        "lost": jnp.max(lost),
    }

"""Section 3 of the paper, measured on one problem: the two forms of anti-exploration are one, and what they converge to.

Each function gives by name the largest error of a statement, a scalar. `tether.theory.statements` says what each name states.

Two forms that agree to rounding may still take different actions where two are equally good, so policies are not compared by
their actions but by value: an error is what one form's action loses under the other form's values.
"""

from __future__ import annotations

from functools import partial

import jax.numpy as jnp

from tether.theory.iteration import (
    backup,
    bootstrapped_step,
    expect,
    greedy,
    iterate,
    naive_step,
    plain_step,
    policy_value,
    side_by_side,
)
from tether.theory.problems import Problem
from tether.types import Array

ITERATIONS = 200  # compared one by one
LIMIT_ITERATIONS = 700  # 0.95^700 is 3e-16


def same_iterations(problem: Problem) -> dict[str, Array]:
    """With `Q'_0 = Q_0 + b`: the same policies, and `Q'_k = Q_k + b`."""
    mdp, penalty = problem.mdp, problem.bonus_weight * problem.bonus
    naive, bootstrapped = partial(naive_step, mdp, penalty=penalty), partial(bootstrapped_step, mdp, penalty=penalty)

    def compare(policy: tuple[Array, Array], q: tuple[Array, Array], q_next: tuple[Array, Array]) -> dict[str, Array]:
        return {
            "same_q": largest(q_next[1] - q_next[0] - penalty),
            "same_policies": jnp.maximum(loss(policy[1], q[0]), loss(policy[0], q[1] - penalty)),
            "differing_decisions": differing(*policy),
        }

    found = side_by_side(naive, bootstrapped, (problem.start, problem.start + penalty), compare, ITERATIONS)
    return {name: jnp.max(values) for name, values in found.items()} | {
        "differing_decisions": jnp.sum(found["differing_decisions"])
    }


def common_limit(problem: Problem, optimum: Array, optimum_penalised: Array) -> dict[str, Array]:
    """From different starts both forms reach the optimum of `r - b`, `optimum_penalised`; without bonus, that of `r`."""
    mdp, penalty = problem.mdp, problem.bonus_weight * problem.bonus
    plain = iterate(partial(plain_step, mdp), problem.start, LIMIT_ITERATIONS)
    naive = iterate(partial(naive_step, mdp, penalty=penalty), problem.start, LIMIT_ITERATIONS)
    bootstrapped = iterate(partial(bootstrapped_step, mdp, penalty=penalty), problem.other_start, LIMIT_ITERATIONS)
    values = [expect(greedy(q), q) for q in (naive, bootstrapped - penalty)]
    followed = [policy_value(mdp, mdp.reward - penalty, greedy(q)) for q in (naive, bootstrapped - penalty)]
    return {
        "plain_limit": largest(expect(greedy(plain), plain) - optimum),
        "limit": jnp.maximum(*(largest(value - optimum_penalised) for value in values)),
        "limit_policy": jnp.maximum(*(largest(value - optimum_penalised) for value in followed)),
    }


def contraction(problem: Problem, optimum_penalised: Array) -> dict[str, Array]:
    """How far either form's error ever exceeds `gamma^k` times its first."""
    mdp, penalty = problem.mdp, problem.bonus_weight * problem.bonus
    naive, bootstrapped = partial(naive_step, mdp, penalty=penalty), partial(bootstrapped_step, mdp, penalty=penalty)
    end = backup(mdp, mdp.reward - penalty, optimum_penalised)
    starts = (problem.start, problem.other_start)

    def errors(policy: tuple[Array, Array], q: tuple[Array, Array], q_next: tuple[Array, Array]) -> tuple[Array, Array]:
        return largest(q_next[0] - end), largest(q_next[1] - end - penalty)

    found = side_by_side(naive, bootstrapped, starts, errors, ITERATIONS)
    shrink = mdp.discount ** jnp.arange(1, ITERATIONS + 1)
    first = largest(starts[0] - end), largest(starts[1] - end - penalty)
    excess = [jnp.max(errors - shrink * begin) for errors, begin in zip(found, first, strict=True)]
    return {"contraction": jnp.maximum(0.0, jnp.maximum(*excess))}


def same_offline(problem: Problem) -> dict[str, Array]:
    """Backing up only the pairs of a dataset changes nothing, as long as `Q'_0 = Q_0 + b` on the others too."""
    mdp, penalty = problem.mdp, problem.bonus_weight * problem.bonus

    def naive(q: Array) -> tuple[Array, Array]:
        policy, q_next = naive_step(mdp, q, penalty)
        return policy, jnp.where(problem.seen, q_next, q)

    def bootstrapped(q: Array) -> tuple[Array, Array]:
        policy, q_next = bootstrapped_step(mdp, q, penalty)
        return policy, jnp.where(problem.seen, q_next, q)

    def compare(policy: tuple[Array, Array], q: tuple[Array, Array], q_next: tuple[Array, Array]) -> Array:
        return largest(q_next[1] - q_next[0] - penalty)

    found = side_by_side(naive, bootstrapped, (problem.start, problem.start + penalty), compare, ITERATIONS)
    return {"same_offline": jnp.max(found)}


def largest(difference: Array) -> Array:
    return jnp.max(jnp.abs(difference))


def loss(policy: Array, q: Array) -> Array:
    """What following `policy` loses against the best action, at the state where it loses most."""
    return jnp.max(jnp.max(q, axis=-1) - expect(policy, q))


def differing(first: Array, second: Array) -> Array:
    """At how many states two deterministic policies differ."""
    return jnp.sum(jnp.argmax(first, axis=-1) != jnp.argmax(second, axis=-1))

"""Value iteration in its five forms. Each step is the paper's pair of lines: a greedy step, then an evaluation step.

A step takes `Q_k` and gives `pi_{k+1}` and `Q_{k+1}`, all `(S, A)`. Where two actions are equally good the first is taken.
`jax.vmap` makes a step work on a batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from tether.theory.mdps import MDP
from tether.types import Array

DOUBLINGS = 11  # 0.98^2048 is 1e-18

Step: TypeAlias = "Callable[[Array], tuple[Array, Array]]"  # Q_k -> pi_{k+1}, Q_{k+1}


def plain_step(mdp: MDP, q: Array) -> tuple[Array, Array]:
    """Value iteration as it is: no bonus."""
    policy = greedy(q)
    return policy, backup(mdp, mdp.reward, expect(policy, q))


def naive_step(mdp: MDP, q: Array, penalty: Array) -> tuple[Array, Array]:
    """The penalty is subtracted from the reward (section 3, left of the equivalence)."""
    policy = greedy(q)
    return policy, backup(mdp, mdp.reward - penalty, expect(policy, q))


def bootstrapped_step(mdp: MDP, q: Array, penalty: Array) -> tuple[Array, Array]:
    """The penalty is subtracted from the value, in both lines (section 3, right of the equivalence)."""
    policy = greedy(q - penalty)
    return policy, backup(mdp, mdp.reward, expect(policy, q - penalty))


def kl_step(mdp: MDP, q: Array, log_behaviour: Array, temperature: Array) -> tuple[Array, Array]:
    """Regularised by `temperature * KL(pi || behaviour)` (section 4)."""
    log_policy = jax.nn.log_softmax(q / temperature + log_behaviour, axis=-1)
    policy = jnp.exp(log_policy)
    return policy, backup(mdp, mdp.reward, kl_objective(policy, log_policy, q, log_behaviour, temperature))


def entropy_step(mdp: MDP, q: Array, delta: Array, temperature: Array) -> tuple[Array, Array]:
    """Regularised by `- temperature * H(pi)`, on `Q - delta` (section 4)."""
    log_policy = jax.nn.log_softmax((q - delta) / temperature, axis=-1)
    policy = jnp.exp(log_policy)
    return policy, backup(mdp, mdp.reward, entropy_objective(policy, log_policy, q - delta, temperature))


def kl_objective(policy: Array, log_policy: Array, q: Array, log_behaviour: Array, temperature: Array) -> Array:
    """`<pi, Q> - temperature * KL(pi || behaviour)`, `(S,)`."""
    return expect(policy, q) - temperature * expect(policy, log_policy - log_behaviour)


def entropy_objective(policy: Array, log_policy: Array, q: Array, temperature: Array) -> Array:
    """`<pi, Q> + temperature * H(pi)`, `(S,)`."""
    return expect(policy, q) + temperature * entropy(policy, log_policy)


def log_behaviour(bonus: Array, bonus_weight: Array, temperature: Array) -> Array:
    """`ln pi_b`, of the policy that the bonus stands for: `softmax(-beta b / tau)`."""
    return jax.nn.log_softmax(-bonus_weight * bonus / temperature, axis=-1)


def delta(bonus: Array, bonus_weight: Array, temperature: Array) -> Array:
    """The paper's `Delta_b = beta b + tau ln sum exp(-beta b / tau)`, `(S, A)`."""
    penalty = bonus_weight * bonus
    return penalty + temperature * jax.nn.logsumexp(-penalty / temperature, axis=-1, keepdims=True)


def above_smallest(bonus: Array) -> Array:
    """`b - min_a b`: what is left of a bonus in the limit of a temperature of zero."""
    return bonus - jnp.min(bonus, axis=-1, keepdims=True)


def greedy(q: Array) -> Array:
    """One at the largest entry of each row, zero elsewhere."""
    return jax.nn.one_hot(jnp.argmax(q, axis=-1), q.shape[-1], dtype=q.dtype)


def expect(policy: Array, q: Array) -> Array:
    """The paper's `<pi, Q>`, `(S,)`."""
    return jnp.sum(policy * q, axis=-1)


def entropy(policy: Array, log_policy: Array) -> Array:
    return -expect(policy, log_policy)


def backup(mdp: MDP, reward: Array, value: Array) -> Array:
    """`r + gamma P v`, `(S, A)`."""
    return reward + mdp.discount * jnp.einsum("sat,t->sa", mdp.transition, value)


def iterate(step: Step, q: Array, iterations: int) -> Array:
    """The last Q."""
    return jax.lax.fori_loop(0, iterations, lambda _, q: step(q)[1], q)


def side_by_side(first: Step, second: Step, starts: tuple[Array, Array], compare: Callable[..., Any], iterations: int) -> Any:
    """What `compare` makes of every iteration of two schemes, stacked. It gets three pairs: `pi_{k+1}`, `Q_k` and `Q_{k+1}`."""

    def both(q: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], Any]:
        (policy_first, q_first), (policy_second, q_second) = first(q[0]), second(q[1])
        return (q_first, q_second), compare((policy_first, policy_second), q, (q_first, q_second))

    return jax.lax.scan(both, starts, None, length=iterations)[1]


def policy_value(mdp: MDP, reward: Array, policy: Array) -> Array:
    """The value of a policy, `(S,)`, over `2^DOUBLINGS` steps: the value of n steps gives that of 2n.

    Not by `jnp.linalg.solve`: two batches of it in one program wait for each other for ever on two cores (jaxlib 0.10.2).
    """
    later = mdp.discount * jnp.einsum("sa,sat->st", policy, mdp.transition)  # where n steps lead, discounted
    value = expect(policy, reward)

    def double(_: Array, parts: tuple[Array, Array]) -> tuple[Array, Array]:
        later, value = parts
        return later @ later, value + later @ value

    return jax.lax.fori_loop(0, DOUBLINGS, double, (later, value))[1]

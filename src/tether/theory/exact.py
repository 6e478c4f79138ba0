"""Optimal values by ways that share nothing with value iteration: policy iteration and a linear program. NumPy and SciPy only.

Both take a batch of N MDPs.
"""

from __future__ import annotations

import numpy as np

from tether.theory.mdps import MDP

# A policy is changed only for a relative gain above this, so that ties cannot make it go round in circles.
LEAST_GAIN = 1e-13


def policy_iteration(mdps: MDP) -> np.ndarray:
    """The optimal values, `(N, S)`, each the solution of linear equations."""
    transition, reward, discount = mdps
    policy = np.argmax(reward, axis=-1)
    while True:
        value = _value(mdps, policy)
        q = reward + discount[:, None, None] * np.einsum("nsat,nt->nsa", transition, value)
        better = np.max(q, axis=-1) > _chosen(q, policy) + LEAST_GAIN * np.maximum(1.0, np.abs(value))
        if not np.any(better):
            return value
        policy = np.where(better, np.argmax(q, axis=-1), policy)


def linear_program(mdps: MDP) -> np.ndarray:
    """The optimal values, `(N, S)`: the smallest `v` with `v >= r + gamma P v` for every action.

    All MDPs are one sparse program: a program each would take fifty times as long, nearly all of it in getting started.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_matrix

    transition, reward, discount = mdps
    count, states, actions = reward.shape
    rows = np.repeat(np.eye(states), actions, axis=0) - discount[:, None, None] * transition.reshape(count, -1, states)
    mdp, pair, state = np.nonzero(rows)
    place = (mdp * states * actions + pair, mdp * states + state)
    constraints = csr_matrix((rows[mdp, pair, state], place), shape=(count * states * actions, count * states))
    found = linprog(np.ones(count * states), A_ub=-constraints, b_ub=-reward.ravel(), bounds=(None, None), method="highs-ds")
    if not found.success:
        raise RuntimeError(f"the linear program was not solved: {found.message}")
    return found.x.reshape(count, states)


def _value(mdps: MDP, policy: np.ndarray) -> np.ndarray:
    transition, reward, discount = mdps
    states = reward.shape[1]
    step = np.take_along_axis(transition, policy[:, :, None, None], axis=2)[:, :, 0]
    equations = np.eye(states) - discount[:, None, None] * step
    return np.linalg.solve(equations, _chosen(reward, policy)[..., None])[..., 0]


def _chosen(q: np.ndarray, policy: np.ndarray) -> np.ndarray:
    return np.take_along_axis(q, policy[..., None], axis=-1)[..., 0]

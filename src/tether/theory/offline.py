"""Learning from a fixed dataset of a finite MDP: the setting of the paper's argument, with nothing approximate but the data.

The dataset is kept as counts of `(s, a, s')`. Q-learning that replays it for ever ends where iterating on the empirical model
ends, so that is what is done: pairs of the dataset are backed up, all others keep the value they were given. That given value
stands for what a network makes of pairs it never saw; with it all difference between naive and bootstrapped begins (see
`equivalence.same_offline`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from tether.theory.iteration import Step, bootstrapped_step, expect, greedy, naive_step, plain_step, policy_value
from tether.theory.mdps import MDP
from tether.types import Array

METHODS = ("plain", "naive", "bootstrapped")
ITERATIONS = 250  # 0.9^250 is 4e-12


def sample_counts(
    random: np.random.Generator, mdp: MDP, behaviour: np.ndarray, start: int, episodes: Sequence[int], length: int
) -> np.ndarray:
    """How often each `(s, a, s')` occurs in the first `episodes[i]` episodes of one log of each MDP.

    All are batches: `behaviour` is `(N, S, A)`, the counts are `(len(episodes), N, S, A, S)`.
    """
    batch, states, actions = mdp.reward.shape
    choose_action, choose_state = _ends(behaviour), _ends(mdp.transition)
    every = np.arange(batch)[:, None]
    counts = np.zeros((len(episodes), batch * states * actions * states))
    for index, many in enumerate(np.diff([0, *episodes])):
        state = np.full((batch, many), start)
        for _ in range(length):
            action = np.sum(choose_action[every, state] <= random.random((batch, many, 1)), axis=-1)
            target = np.sum(choose_state[every, state, action] <= random.random((batch, many, 1)), axis=-1)
            triple = ((every * states + state) * actions + action) * states + target
            counts[index] += np.bincount(triple.ravel(), minlength=counts.shape[1])
            state = target
    return np.cumsum(counts, axis=0).reshape(len(episodes), batch, states, actions, states)


def count_bonus(visits: Array, unseen: Array | float) -> Array:
    """`1/sqrt(n)`, and `unseen` where n is 0."""
    return jnp.where(visits > 0, 1.0 / jnp.sqrt(jnp.maximum(visits, 1)), unseen)


def empirical_model(mdp: MDP, counts: Array) -> MDP:
    """What the dataset says of the MDP. Rewards are exact where seen; where not, all is zero, and `learn` does not look."""
    visits = jnp.sum(counts, axis=-1)
    transition = counts / jnp.maximum(visits, 1)[..., None]
    return MDP(transition, jnp.where(visits > 0, mdp.reward, 0.0), mdp.discount)


def learn(model: MDP, visits: Array, extrapolated: Array, penalty: Array) -> dict[str, tuple[Array, Array]]:
    """For each method its policy, `(S, A)`, and the value it expects of it, `(S,)`.

    `extrapolated` is what every pair starts with and what unseen pairs keep.
    """
    steps: dict[str, tuple[Step, Array]] = {  # and what is subtracted from Q before it is acted on
        "plain": (partial(plain_step, model), jnp.zeros_like(penalty)),
        "naive": (partial(naive_step, model, penalty=penalty), jnp.zeros_like(penalty)),
        "bootstrapped": (partial(bootstrapped_step, model, penalty=penalty), penalty),
    }

    def on_seen(step: Step, q: Array) -> Array:
        return jnp.where(visits > 0, step(q)[1], extrapolated)

    found = {}
    for method, (step, subtracted) in steps.items():
        q = jax.lax.fori_loop(0, ITERATIONS, lambda _, q, step=step: on_seen(step, q), extrapolated)
        policy = greedy(q - subtracted)
        found[method] = policy, expect(policy, q - subtracted)
    return found


def judge(mdp: MDP, learned: dict[str, tuple[Array, Array]], start: int) -> dict[str, dict[str, Array]]:
    """What each policy is worth at `start` in the true MDP, and how much more was expected of it."""
    worth = {method: policy_value(mdp, mdp.reward, policy)[start] for method, (policy, _) in learned.items()}
    return {
        method: {"value": worth[method], "overestimate": expected[start] - worth[method]}
        for method, (_, expected) in learned.items()
    }


def _ends(probabilities: np.ndarray) -> np.ndarray:
    """Where the piece of each outcome ends on the unit interval; the last one at 1 exactly, rounding or not."""
    ends = np.cumsum(probabilities, axis=-1)
    return ends / ends[..., -1:]

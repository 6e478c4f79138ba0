"""Plain, naive and bootstrapped learning from datasets of growing size, against the true optimum."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tether.theory import exact, gridworld, offline
from tether.theory.iteration import policy_value
from tether.theory.mdps import MDP, garnets
from tether.types import Array

START = 0  # the state where every episode begins
# What unseen pairs are taken to be worth, in place of what a network would make of them: anything possible, nothing, the most
# possible. "once" is "uniform" with the bonus of a pair seen once.
EXTRAPOLATIONS = ("uniform", "zero", "highest", "once")
GRIDWORLD_DATASETS, GRIDWORLD_EPISODES, GRIDWORLD_LENGTH = 200, 20, 40
GRIDWORLD_NOISE, GRIDWORLD_WEIGHT = 0.1, 1.0


@dataclass(frozen=True)
class StudySizes:
    """How much is tried. The behaviour: in half of the states the best action, in the others a random one; now and then any."""

    mdps: int = 200
    states: int = 20
    actions: int = 4
    branching: int = 3
    discount: float = 0.9
    noise: float = 0.1  # share of the behaviour's actions that are drawn from all
    length: int = 20  # steps of an episode
    episodes: tuple[int, ...] = (1, 4, 16, 64, 256, 1024)
    bonus_weights: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
    middle_weight: float = 0.3  # shown over dataset size
    middle_episodes: int = 16  # shown over the weight

    @property
    def parts(self) -> int:
        return len(self.episodes) * len(EXTRAPOLATIONS)


def value_limit(discount: float) -> float:
    """The largest value there can be with rewards up to 1; also the bonus of an unseen pair."""
    return 1.0 / (1.0 - discount)


def compare_methods(seed: int, sizes: StudySizes, findings: dict[str, Any]) -> Iterator[str]:
    """Fill `findings` for `theory.json`; says what was done after each of `sizes.parts` parts."""
    random = np.random.default_rng([seed, 100])
    mdps = garnets(random, sizes.mdps, sizes.states, sizes.actions, sizes.branching, (sizes.discount, sizes.discount))
    optimum = exact.policy_iteration(mdps)
    behaviour = _behaviour(random, mdps, optimum, sizes.noise)
    counts = offline.sample_counts(random, mdps, behaviour, START, sizes.episodes, sizes.length)
    shape, limit = mdps.reward.shape, value_limit(sizes.discount)
    uniform = random.uniform(0.0, limit, shape)
    unseen = {  # the value that unseen pairs keep, and their bonus
        "uniform": (uniform, limit),
        "zero": (np.zeros(shape), limit),
        "highest": (np.full(shape, limit), limit),
        "once": (uniform, 1.0),
    }
    best = optimum[:, START]
    value_of = jax.jit(jax.vmap(lambda mdp, policy: policy_value(mdp, mdp.reward, policy)[START]))
    findings |= {
        "sizes": asdict(sizes),
        "transitions": [many * sizes.length for many in sizes.episodes],
        "share_of_pairs_seen": [float(np.mean(np.sum(count, axis=-1) > 0)) for count in counts],
        "optimum": _summary(best),
        "behaviour_regret": _summary(best - np.asarray(value_of(mdps, behaviour))),
        "random_policy_regret": _summary(best - np.asarray(value_of(mdps, np.full(shape, 1.0 / sizes.actions)))),
        "by_extrapolation": {name: [] for name in EXTRAPOLATIONS},
    }
    weights = np.asarray(sizes.bonus_weights)
    for many, count in zip(sizes.episodes, counts, strict=True):
        for name in EXTRAPOLATIONS:
            value, bonus = unseen[name]
            judged = _judge_all(mdps, count, value, weights, np.asarray(bonus))
            findings["by_extrapolation"][name].append(_regrets(judged, best))
            yield f"{many * sizes.length:,} transitions, {name}"


def _behaviour(random: np.random.Generator, mdps: MDP, optimum: np.ndarray, noise: float) -> np.ndarray:
    """`(N, S, A)`: skilled in half of the states, and narrow."""
    q = mdps.reward + mdps.discount[:, None, None] * np.einsum("nsat,nt->nsa", mdps.transition, optimum)
    count, states, actions = q.shape
    best, other = np.argmax(q, axis=-1), random.integers(0, actions, (count, states))
    preferred = np.where(random.random((count, states)) < 0.5, best, other)
    return (1.0 - noise) * np.eye(actions)[preferred] + noise / actions


@jax.jit
def _judge_all(mdps: MDP, counts: Array, extrapolated: Array, bonus_weights: Array, unseen_bonus: Array) -> dict[str, Any]:
    """Each method's value and overestimate, `(weights, N)`."""

    def one(mdp: MDP, counts: Array, extrapolated: Array, bonus_weight: Array) -> dict[str, dict[str, Array]]:
        visits = jnp.sum(counts, axis=-1)
        penalty = bonus_weight * offline.count_bonus(visits, unseen_bonus)
        learned = offline.learn(offline.empirical_model(mdp, counts), visits, extrapolated, penalty)
        return offline.judge(mdp, learned, START)

    over_mdps = jax.vmap(one, in_axes=(0, 0, 0, None))
    return jax.vmap(over_mdps, in_axes=(None, None, None, 0))(mdps, counts, extrapolated, bonus_weights)


def _regrets(judged: dict[str, Any], best: np.ndarray) -> dict[str, dict[str, dict[str, list[float]]]]:
    """By method what it loses against the optimum and by how much it overrates itself, for each weight."""
    values = {
        method: {"regret": best[None, :] - np.asarray(found["value"]), "overestimate": np.asarray(found["overestimate"])}
        for method, found in judged.items()
    }
    return {method: {what: _summary(each) for what, each in found.items()} for method, found in values.items()}


def _summary(values: np.ndarray) -> dict[str, Any]:
    """The mean over MDPs, which are the last axis, and its standard error."""
    error = np.std(values, axis=-1) / np.sqrt(values.shape[-1])
    return {"mean": np.mean(values, axis=-1).tolist(), "error": error.tolist()}


def gridworld_example(seed: int) -> dict[str, Any]:
    """Datasets of the gridworld and what each method makes of them; the first in full, for the heatmaps."""
    random = np.random.default_rng([seed, 300])
    one = gridworld.gridworld()
    mdps = MDP(*(np.broadcast_to(part, (GRIDWORLD_DATASETS, *part.shape)) for part in one))
    behaviour = np.broadcast_to(gridworld.behaviour(GRIDWORLD_NOISE), mdps.reward.shape)
    start, limit = gridworld.find(gridworld.START), value_limit(gridworld.DISCOUNT)
    counts = offline.sample_counts(random, mdps, behaviour, start, (GRIDWORLD_EPISODES,), GRIDWORLD_LENGTH)[0]
    extrapolated = random.uniform(0.0, limit, mdps.reward.shape)
    visits = np.sum(counts, axis=-1)
    bonus = np.asarray(offline.count_bonus(visits, limit))
    models = jax.vmap(offline.empirical_model)(mdps, counts)
    learned = jax.jit(jax.vmap(offline.learn))(models, visits, extrapolated, GRIDWORLD_WEIGHT * bonus)
    worth = jax.jit(jax.vmap(lambda mdp, policy: policy_value(mdp, mdp.reward, policy)[start]))
    optimum = exact.policy_iteration(MDP(*(part[:1] for part in mdps)))[0]
    found = {
        "layout": list(gridworld.LAYOUT),
        "moves": list(gridworld.MOVES.values()),
        "transitions": GRIDWORLD_EPISODES * GRIDWORLD_LENGTH,
        "datasets": GRIDWORLD_DATASETS,
        "bonus_weight": GRIDWORLD_WEIGHT,
        "visits": visits[0].astype(int).tolist(),
        "bonus": bonus[0].tolist(),
        "behaviour": {"worth": float(worth(mdps, behaviour)[0])},
        "optimum": {
            "worth": float(optimum[start]),
            "value": optimum.tolist(),
            "policy": np.argmax(one.reward + one.discount * one.transition @ optimum, axis=-1).tolist(),
        },
    }
    for method, (policy, expected) in learned.items():
        values = np.asarray(worth(mdps, policy))
        found[method] = {
            "worth": float(values[0]),
            "worth_over_datasets": _summary(values),
            "value": np.asarray(expected[0]).tolist(),
            "policy": np.argmax(policy[0], axis=-1).tolist(),
        }
    return found

"""One small policy of every kind, and fitted bonuses of any, without a fit: what is shipped in a file, to be run elsewhere."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from problems import small

from tether.bonuses import BONUSES, FrozenBonus, frozen_template, without_chance
from tether.bonuses.cvae import CVAE
from tether.networks import Critics, Layers, Scaler, make_critics, make_mlp
from tether.policies import BestOfSamples, Greedy, Policy, Tethered
from tether.policies.base import novelty_of
from tether.policies.deterministic import make_deterministic
from tether.policies.gaussian import make_squashed_gaussian
from tether.runtime.experience import Experience, quantiles
from tether.settings import to_named
from tether.storage import flatten_tree
from tether.types import Batch, Problem, Spec, discrete_spec, row_shapes

SPEC = Spec(3, (-1.0, 0.0), (1.0, 4.0))
CHOICES = discrete_spec(3, 2)
IMAGES = discrete_spec(4 * 5 * 2, actions=3, observation_shape=(4, 5, 2))
SPECS = {"continuous": SPEC, "discrete": CHOICES, "images": IMAGES}
SCALER = Scaler(jnp.array([1.0, 2.0, 3.0]), jnp.array([2.0, 1.0, 0.5]))
OBSERVATIONS = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)


def rows(spec: Spec, number: int = 64, seed: int = 0) -> Batch:
    """Made up; the same few observations again and again, so that counts find something."""
    random = np.random.default_rng(seed)
    found = Batch(*(random.normal(size=(number, *shape)).astype(np.float32) for shape in row_shapes(spec)))
    if spec.discrete:
        found = found._replace(action=np.eye(spec.action_size, dtype=np.float32)[random.integers(spec.action_size, size=number)])
    else:
        found = found._replace(action=random.uniform(spec.action_low, spec.action_high, (number, spec.action_size)).astype("f4"))
    return Batch(*(column[np.arange(number) % (number // 2)] for column in found))


def frozen(name: str, spec: Spec, **settings: Any) -> FrozenBonus:
    """The bonus with made-up weights: what it computes does not hang on whether they were learnt."""
    bonus = small(BONUSES[name], **settings)
    if not bonus.steps:
        return FrozenBonus(bonus, jax.jit(lambda data: bonus.init(jax.random.key(0), Problem(spec, data)))(rows(spec)), spec)
    template, random = frozen_template(bonus, spec), np.random.default_rng(1)

    def made_up(path: Any, leaf: Any) -> np.ndarray:
        last = jax.tree_util.keystr(path[-1:], simple=True)
        numbers = random.normal(size=leaf.shape) * (0.5 if leaf.ndim < 2 else leaf.shape[-2] ** -0.5)
        if last == "noise":  # the first is below the least that counts, which both sides must know
            return np.array([1e-6, *(np.abs(numbers[1:]) + 0.5)], leaf.dtype)
        return np.asarray(np.abs(numbers) + 0.5 if last in ("std", "scale") else numbers, leaf.dtype)

    return FrozenBonus(bonus, jax.tree_util.tree_map_with_path(made_up, template.state), spec)


def best_of_samples() -> BestOfSamples:
    keys = jax.random.split(jax.random.key(3), 3)
    generator = frozen("cvae", SPEC, hidden_sizes=(8, 8), latent_size=4)
    perturbation = make_mlp(keys[1], 5, Layers((8,)), 2, "tanh")
    critics: Critics = make_critics(keys[2], SPEC, 2, Layers((8,)))
    return BestOfSamples(generator, critics, perturbation, samples=6)


def tethered() -> Tethered:
    anchor = frozen("density", SPEC, hidden_sizes=(8,), components=3, least_std=0.2)
    return Tethered(make_mlp(jax.random.key(4), 3, Layers((8,), scaler=SCALER), 2, "tanh"), anchor, reach=1.5, longest=0.4)


MADE = {
    "deterministic": (make_deterministic(jax.random.key(0), SPEC, Layers((8,), ("tanh",), "every", SCALER)), SPEC),
    "greedy": (Greedy(make_mlp(jax.random.key(1), 3, Layers((8,), scaler=SCALER), 2)), CHOICES),
    "squashed-gaussian": (make_squashed_gaussian(jax.random.key(2), SPEC, Layers((8,), scaler=SCALER)), SPEC),
    "best-of-samples": (best_of_samples(), SPEC),
    "tethered": (tethered(), SPEC),
}


def experience(bonus: FrozenBonus, novelty: np.ndarray | None = None) -> Experience:
    """As if the made-up rows were the data."""
    spec = bonus.spec
    data = Batch(*map(np.concatenate, zip(rows(spec), rows(spec, 336, seed=2), strict=True)))
    certain = without_chance(bonus.bonus)
    if novelty is None:
        novelty = np.asarray(novelty_of(FrozenBonus(certain, bonus.state, spec), data.observation, data.action))
    values, shares = quantiles(novelty)
    assert isinstance(certain, CVAE) <= (to_named(certain, BONUSES).get("latent") == "mean")
    return Experience(
        to_named(certain, BONUSES),
        flatten_tree(bonus.state),
        values,
        shares,
        len(novelty),
        4,
        data.observation.min(axis=0),
        data.observation.max(axis=0),
        data.observation[:20],
        data.action[:20].reshape(20, spec.action_size),
    )


def shipped(kind: str, bonus: str = "rnd") -> Policy:
    """A policy of the kind that knows what it has seen."""
    actor, spec = MADE[kind]
    return Policy(actor, spec, {"step": 3}, experience(frozen(bonus, spec)))

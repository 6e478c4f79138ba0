"""Gradient steps and weight averages, for agents and bonuses alike."""

from __future__ import annotations

from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import optax

Tree = TypeVar("Tree")


def adam_init(parameters: Any, learning_rate: float) -> optax.OptState:
    return optax.adam(learning_rate).init(parameters)


def adam_step(parameters: Tree, gradient: Tree, optimiser: optax.OptState, learning_rate: float) -> tuple[Tree, optax.OptState]:
    """The parameters one step down the gradient, and the optimiser's new state."""
    change, optimiser = optax.adam(learning_rate).update(gradient, optimiser)
    return optax.apply_updates(parameters, change), optimiser


def mix(slow: Tree, fast: Tree, share: float) -> Tree:
    """Polyak averaging: `(1 - share) * slow + share * fast`, leaf by leaf."""
    return jax.tree.map(lambda s, f: s + share * (f - s), slow, fast)


def copy_of(tree: Tree) -> Tree:
    """Fresh buffers. A donated state must not hold the same buffer twice, as a target network made by `=` would."""
    return jax.tree.map(jnp.copy, tree)

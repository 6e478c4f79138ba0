"""Gradient steps and weight averages, for agents and bonuses alike: Adam, on Optax."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import optax

from tether.settings import Amount

Tree = TypeVar("Tree")


@dataclass(frozen=True)
class Optimiser:
    """What goes around Adam. Left as it is, it is plain Adam."""

    schedule: Literal["constant", "cosine", "linear"] = "constant"  # of the learning rate; the others fall to 0 at the end
    clip_norm: Amount = 0.0  # the largest norm of a whole gradient; 0: any
    weight_decay: Amount = 0.0  # AdamW's, of weight matrices alone

    def start(self, parameters: Any, learning_rate: float, steps: int = 1) -> optax.OptState:
        """The state before the first of `steps` steps."""
        return self._transform(learning_rate, steps).init(parameters)

    def step(self, parameters: Tree, gradient: Tree, state: optax.OptState, learning_rate: float) -> tuple[Tree, optax.OptState]:
        """The parameters one step down the gradient, and the optimiser's new state."""
        change, state = self._transform(learning_rate).update(gradient, state, parameters)
        return optax.apply_updates(parameters, change), state

    def _transform(self, learning_rate: float, steps: int = 1) -> optax.GradientTransformation:
        """`steps` matters to the first state alone, which keeps it."""
        parts = [optax.clip_by_global_norm(self.clip_norm)] if self.clip_norm else []
        if self.weight_decay:
            parts.append(optax.adamw(learning_rate, weight_decay=self.weight_decay, mask=_is_matrix))
        else:
            parts.append(optax.adam(learning_rate))
        if self.schedule != "constant":
            parts.append(_falling(self.schedule, steps))
        return parts[0] if len(parts) == 1 else optax.chain(*parts)


ADAM = Optimiser()


class _Falling(NamedTuple):
    done: jax.Array  # () int32 steps
    length: jax.Array  # () int32


def _falling(schedule: str, steps: int) -> optax.GradientTransformation:
    """Changes times what is left of the learning rate. The length is in the state: an update does not know it."""

    def init(parameters: Any) -> _Falling:
        return _Falling(jnp.zeros((), jnp.int32), jnp.asarray(max(steps, 1), jnp.int32))

    def update(changes: Any, state: _Falling, parameters: Any = None) -> tuple[Any, _Falling]:
        share = jnp.minimum(state.done / state.length, 1.0)
        left = 0.5 * (1.0 + jnp.cos(jnp.pi * share)) if schedule == "cosine" else 1.0 - share
        return jax.tree.map(lambda change: left * change, changes), state._replace(done=state.done + 1)

    return optax.GradientTransformation(init, update)


def steps_made(state: optax.OptState) -> jax.Array:
    """How many steps Adam has made with this state, `()`: an agent that waits counts no other way."""
    return optax.tree_utils.tree_get(state, "count")


def restarted(state: Tree, share: float) -> Tree:
    """An agent's or an optimiser's state whose schedules begin anew, each `share` as long as it was.

    At their end there is nothing left of a learning rate that falls: who goes on learning would not learn.
    """

    def anew(part: Any) -> Any:
        if not isinstance(part, _Falling):
            return part
        return _Falling(jnp.zeros_like(part.done), jnp.maximum(jnp.round(share * part.length), 1).astype(jnp.int32))

    return jax.tree.map(anew, state, is_leaf=lambda part: isinstance(part, _Falling))


def _is_matrix(parameters: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf.ndim > 1, parameters)


def mix(slow: Tree, fast: Tree, share: float) -> Tree:
    """Polyak averaging: `(1 - share) * slow + share * fast`, leaf by leaf."""
    return jax.tree.map(lambda s, f: s + share * (f - s), slow, fast)


def copy_of(tree: Tree) -> Tree:
    """Fresh buffers. A donated state must not hold the same buffer twice, as a target network made by `=` would."""
    return jax.tree.map(jnp.copy, tree)

"""What a bonus is: a frozen dataclass whose fields are its settings and whose methods are pure functions.

A bonus is fitted first, then frozen: `init`, `steps` times `update`, then `frozen` gives the state that `novelty` reads.
A bonus with nothing to learn by gradient does all its work in `init` and has `steps = 0`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp

from tether.types import Batch, Key, Metrics, Problem, Spec, row_shapes

# What agents may ask of a bonus, spelt for a message. All offer a value; the last three come with a method of their own.
VALUE = "a value"
GRADIENT = "a gradient in the action"
SAMPLES = "samples of actions"  # sample(state, observation, key) -> (B, A)
LOG_PROBABILITY = "a log-probability"  # log_probability(state, observation, action) -> (B,)
ANCHOR = "an anchor"  # anchor(state, observation) -> Anchor


class Anchor(NamedTuple):
    """What is usually done, and how much that varies. Both `(B, A)`."""

    mean: jax.Array
    std: jax.Array


@dataclass(frozen=True)
class BonusTraits:
    offers: frozenset[str] = frozenset({VALUE, GRADIENT})
    every_row: bool = False  # its `init` looks at each row of the data, and a sample will not do
    needs_repeats: bool = False  # it knows only observations that it has seen to the last digit
    columns: tuple[str, ...] = ()  # of its batches, besides those of `Batch`: see `tether.data.columns`


class Bonus(Protocol):
    traits: ClassVar[BonusTraits]

    @property
    def steps(self) -> int:
        """Gradient steps of the fit."""

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Leading axes of the batch that one step takes: `(rows,)`."""

    @property
    def held_out_share(self) -> float:
        """Of the episodes, kept out of the fit to judge it by."""

    @property
    def seed(self) -> int:
        """Seed of the fit. It is the bonus's own, so that agents of many seeds share one fit."""

    def init(self, key: Key, problem: Problem) -> Any:
        """The state of a fit not yet begun: a pytree of arrays in which no buffer appears twice."""

    def update(self, fitting: Any, batch: Batch, key: Key) -> tuple[Any, Metrics]:
        """One step of the fit."""

    def frozen(self, fitting: Any) -> Any:
        """What `novelty` needs of the fit, and no more."""

    def novelty(self, state: Any, observation: jax.Array, action: jax.Array, key: Key) -> jax.Array:
        """The bonus: `(B, O), (B, A) -> (B,)`, at least 0, small on pairs like the data; with a gradient if it offers one."""


def without_chance(bonus: Bonus) -> Bonus:
    """The same bonus with values that hang on the pair alone, as familiarity needs: one that samples says how it goes without.

    A fixed key would not do: what it draws for a row would change with the row's place among those that are asked.
    """
    certain = getattr(bonus, "without_chance", None)
    return bonus if certain is None else certain()


class FrozenBonus(eqx.Module):
    """A fitted bonus as a `Penalty`. It is a pytree, the state being its leaves, so that a policy can carry it along."""

    bonus: Bonus = eqx.field(static=True)
    state: Any
    spec: Spec = eqx.field(static=True)

    def __call__(self, observation: jax.Array, action: jax.Array, key: Key) -> jax.Array:
        return self.bonus.novelty(self.state, observation, action, key)

    def sample(self, observation: jax.Array, key: Key) -> jax.Array:
        """Of a bonus that offers samples: actions that the data might have here, `(B, O) -> (B, A)`."""
        return self.bonus.sample(self.state, observation, key)  # type: ignore[attr-defined]

    def log_probability(self, observation: jax.Array, action: jax.Array) -> jax.Array:
        """Of a bonus that offers it: how likely the data's policy is to take the actions, `(B, O), (B, A) -> (B,)`."""
        return self.bonus.log_probability(self.state, observation, action)  # type: ignore[attr-defined]

    def anchor(self, observation: jax.Array) -> Anchor:
        """Of a bonus that offers it: what is usually done here."""
        return self.bonus.anchor(self.state, observation)  # type: ignore[attr-defined]


def frozen_template(bonus: Bonus, spec: Spec) -> FrozenBonus:
    """The shapes of a fitted bonus, to read it from a file. A table as long as the dataset has length 1 here."""
    row = Batch(*(jax.ShapeDtypeStruct((1, *shape), jnp.float32) for shape in row_shapes(spec)))
    state = jax.eval_shape(lambda key, rows: bonus.frozen(bonus.init(key, Problem(spec, rows))), jax.random.key(0), row)
    return FrozenBonus(bonus, state, spec)


def novelties(penalty: Any, observation: jax.Array, choices: int, key: Key) -> jax.Array:
    """The bonus of every discrete action: `(B, O) -> (B, choices)`."""
    rows = observation.shape[0]
    every_action = jnp.tile(jnp.eye(choices), (rows, 1))
    return penalty(jnp.repeat(observation, choices, axis=0), every_action, key).reshape(rows, choices)

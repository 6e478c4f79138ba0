"""Floating-point operations of matrix products, counted in the traced program.

Elementwise work is left out, so shares of the limit are a little low.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from tether.agents import Agent, critic_steps, with_known
from tether.bonuses import Bonus, FrozenBonus
from tether.data.columns import with_blank_columns
from tether.types import Batch, Problem, Spec, row_shapes

DATA_ROWS = 10  # of the data that a bonus is made from; no product depends on it


@dataclass(frozen=True)
class Product:
    """What `jax.lax.dot_general` is asked for."""

    left: tuple[int, ...]  # shapes
    right: tuple[int, ...]
    numbers: Any  # its dimension numbers

    @property
    def operations(self) -> int:
        (_, contracted), (_, batched) = self.numbers
        free = [size for axis, size in enumerate(self.right) if axis not in {*contracted, *batched}]
        # A multiplication and an addition for each entry of the result and each term of its sum.
        return 2 * math.prod(self.left) * math.prod(free)


def of(program: Callable[..., Any], *arguments: Any) -> int:
    """Of one call. Arguments may be shapes; nothing is computed."""
    return _operations(products(program, *arguments))


def products(program: Callable[..., Any], *arguments: Any) -> Counter[Product]:
    """Those of one call, and how many times each is made."""
    return _products(jax.make_jaxpr(program)(*arguments).jaxpr)


def agent_step(agent: Agent, bonus: Bonus, spec: Spec) -> float:
    """Per critic step: an update's operations, divided by its critic steps."""
    return _operations(agent_products(agent, bonus, spec)) / critic_steps(agent)


def agent_products(agent: Agent, bonus: Bonus, spec: Spec) -> Counter[Product]:
    """Those of an update."""
    problem = Problem(spec, rows(spec, DATA_ROWS))

    def penalty(key: jax.Array) -> FrozenBonus:
        return FrozenBonus(bonus, bonus.frozen(bonus.init(key, problem)), spec)

    def update(key: jax.Array, batches: Batch) -> Any:
        key_agent, key_bonus, key_update = jax.random.split(key, 3)
        return agent.update(agent.init(key_agent, problem), batches, key_update, penalty(key_bonus))

    # What is known of every row beforehand costs an update nothing: all that counts of it is its shape.
    asked = with_blank_columns(problem.rows, agent.traits.columns)
    known = jax.eval_shape(lambda key: with_known(agent, asked, penalty(key)), jax.random.key(0))
    batches = jax.tree.map(lambda column: jnp.zeros((*agent.batch_shape, *column.shape[1:]), column.dtype), known)
    return products(update, jax.random.key(0), batches) - _init(bonus, spec)


def fit_step(bonus: Bonus, spec: Spec) -> float:
    """Of one step of a bonus's fit."""
    return _operations(fit_products(bonus, spec))


def fit_products(bonus: Bonus, spec: Spec) -> Counter[Product]:
    """Those of one step of a bonus's fit."""

    def update(key: jax.Array, batch: Batch) -> Any:
        key_init, key_update = jax.random.split(key)
        return bonus.update(bonus.init(key_init, Problem(spec, rows(spec, DATA_ROWS))), batch, key_update)

    batch = with_blank_columns(rows(spec, *bonus.batch_shape), bonus.traits.columns)
    return products(update, jax.random.key(0), batch) - _init(bonus, spec)


def novelty(bonus: Bonus, spec: Spec) -> float:
    """Of the bonus of one pair."""

    def value(key: jax.Array, batch: Batch) -> Any:
        key_init, key_value = jax.random.split(key)
        state = bonus.frozen(bonus.init(key_init, Problem(spec, rows(spec, DATA_ROWS))))
        return bonus.novelty(state, batch.observation, batch.action, key_value)

    return _operations(products(value, jax.random.key(0), rows(spec, 1)) - _init(bonus, spec))


def rows(spec: Spec, *lead: int) -> Batch:
    return Batch(*(jnp.zeros((*lead, *shape)) for shape in row_shapes(spec)))


def _init(bonus: Bonus, spec: Spec) -> Counter[Product]:
    """Making a bonus may itself hash the data by a product, as counts do; that is not part of a step."""
    return products(lambda key: bonus.init(key, Problem(spec, rows(spec, DATA_ROWS))), jax.random.key(0))


def _operations(made: Counter[Product]) -> int:
    return sum(times * product.operations for product, times in made.items())


def _products(jaxpr: Any) -> Counter[Product]:
    made: Counter[Product] = Counter()
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general" and not _is_a_sum(equation):
            left, right = (variable.aval.shape for variable in equation.invars)
            made[Product(left, right, equation.params["dimension_numbers"])] += 1
        inner = [_products(program) for program in _inner(equation.params.values())]
        if equation.primitive.name == "cond":  # of the branches one is run: the dearest, but for an actor that waits
            inner = [max(inner, key=_operations)]
        for each in inner:
            made.update({product: times * equation.params.get("length", 1) for product, times in each.items()})
    return made


def _is_a_sum(equation: Any) -> bool:
    """Layer norm writes its sums as products, and asks for them in full digits: no product that the method has."""
    precision = equation.params["precision"]
    return precision is not None and set(precision) == {jax.lax.Precision.HIGHEST}


def _inner(parameters: Any) -> Iterator[Any]:
    """The programs inside an operation: of a jit, a scan, a custom derivative."""
    for parameter in parameters:
        if hasattr(parameter, "jaxpr"):
            yield parameter.jaxpr
        elif hasattr(parameter, "eqns"):
            yield parameter
        elif isinstance(parameter, tuple | list):
            yield from _inner(parameter)

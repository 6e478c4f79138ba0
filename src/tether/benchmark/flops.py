"""Floating-point operations of matrix products, counted in the traced program.

Elementwise work is left out, so shares of the limit are a little low.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

from tether.agents import Agent, critic_steps, with_known
from tether.bonuses import Bonus, FrozenBonus
from tether.data.columns import with_blank_columns
from tether.types import Batch, Problem, Spec, row_shapes

DATA_ROWS = 10  # of the data that a bonus is made from; no product depends on it


def of(program: Callable[..., Any], *arguments: Any) -> int:
    """Of one call. Arguments may be shapes; nothing is computed."""
    return _count(jax.make_jaxpr(program)(*arguments).jaxpr)


def agent_step(agent: Agent, bonus: Bonus, spec: Spec) -> float:
    """Per critic step: an update's operations, divided by its critic steps."""

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
    whole = of(update, jax.random.key(0), batches)
    return (whole - _init(bonus, spec)) / critic_steps(agent)


def fit_step(bonus: Bonus, spec: Spec) -> float:
    """Of one step of a bonus's fit."""

    def update(key: jax.Array, batch: Batch) -> Any:
        key_init, key_update = jax.random.split(key)
        return bonus.update(bonus.init(key_init, Problem(spec, rows(spec, DATA_ROWS))), batch, key_update)

    batch = with_blank_columns(rows(spec, *bonus.batch_shape), bonus.traits.columns)
    return of(update, jax.random.key(0), batch) - _init(bonus, spec)


def novelty(bonus: Bonus, spec: Spec) -> float:
    """Of the bonus of one pair."""

    def value(key: jax.Array, batch: Batch) -> Any:
        key_init, key_value = jax.random.split(key)
        state = bonus.frozen(bonus.init(key_init, Problem(spec, rows(spec, DATA_ROWS))))
        return bonus.novelty(state, batch.observation, batch.action, key_value)

    return of(value, jax.random.key(0), rows(spec, 1)) - _init(bonus, spec)


def rows(spec: Spec, *lead: int) -> Batch:
    return Batch(*(jnp.zeros((*lead, *shape)) for shape in row_shapes(spec)))


def _init(bonus: Bonus, spec: Spec) -> int:
    """Making a bonus may itself hash the data by a product, as counts do; that is not part of a step."""
    return of(lambda key: bonus.init(key, Problem(spec, rows(spec, DATA_ROWS))), jax.random.key(0))


def _count(jaxpr: Any) -> int:
    total = 0
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general" and not _is_a_sum(equation):
            (contracted, _), _ = equation.params["dimension_numbers"]
            left = equation.invars[0].aval.shape
            # A multiplication and an addition for each entry of the result and each term of its sum.
            total += 2 * math.prod(equation.outvars[0].aval.shape) * math.prod(left[axis] for axis in contracted)
        costs = map(_count, _inner(equation.params.values()))
        # Of the branches of a condition one is run: the dearest, but for an actor that waits.
        total += max(costs) if equation.primitive.name == "cond" else equation.params.get("length", 1) * sum(costs)
    return total


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

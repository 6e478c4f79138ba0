"""How fast: the error over iterations, and over a falling temperature. For the figure; nothing here can be violated."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tether.theory import exact, iteration
from tether.theory.equivalence import largest
from tether.theory.iteration import backup, bootstrapped_step, kl_step, naive_step, side_by_side
from tether.theory.mdps import MDP, garnets
from tether.types import Array

STATES, ACTIONS, BRANCHING, DISCOUNT = 12, 4, 3, 0.9
ITERATIONS = 350
COLD_ITERATIONS = 150
TEMPERATURES = tuple(float(10.0 ** (-power / 4)) for power in range(17))  # 1 down to 1e-4


def measure(seed: int, mdps: int) -> dict[str, Any]:
    """Medians and extremes over random MDPs, by iteration and by temperature, for `theory.json`.

    Two kinds of bonus: uniform in [0, 1], whose smallest is one alone, and of zeros and ones, whose smallest is often shared.
    """
    random = np.random.default_rng([seed, 200])
    problems = garnets(random, mdps, STATES, ACTIONS, BRANCHING, (DISCOUNT, DISCOUNT))
    shape = problems.reward.shape
    distinct, shared = random.random(shape), random.integers(0, 2, shape).astype(float)
    shared[:, :, 0] = 0.0  # as of a state of the dataset: one action at least is known
    starts = random.uniform(-10.0, 10.0, (2, *shape))
    optimum = exact.policy_iteration(problems._replace(reward=problems.reward - distinct))
    by_iteration = jax.jit(jax.vmap(_over_iterations))(problems, distinct, starts[0], starts[1], optimum)
    cold = jax.jit(jax.vmap(_over_temperatures))
    by_temperature = {
        "distinct": cold(problems, distinct - distinct.min(axis=-1, keepdims=True), starts[0]),
        "shared": cold(problems, shared, starts[0]),
    }
    bound = DISCOUNT * (1.0 - DISCOUNT**COLD_ITERATIONS) / (1.0 - DISCOUNT) * np.log(ACTIONS) * np.asarray(TEMPERATURES)
    return {
        "mdps": mdps,
        "discount": DISCOUNT,
        "iterations": {name: _over_mdps(np.asarray(values)) for name, values in by_iteration.items()},
        "temperatures": list(TEMPERATURES),
        "bound": _short(bound),
        "cold": {name: _over_mdps(np.asarray(values)) for name, values in by_temperature.items()},
        "rates": {name: _rates(np.asarray(values)) for name, values in by_temperature.items()},
    }


def _over_iterations(mdp: MDP, penalty: Array, start: Array, other_start: Array, optimum: Array) -> dict[str, Array]:
    """The error of each form from a start of its own, and the difference of the two from a common one."""
    naive, bootstrapped = partial(naive_step, mdp, penalty=penalty), partial(bootstrapped_step, mdp, penalty=penalty)
    end = backup(mdp, mdp.reward - penalty, optimum)
    run = partial(side_by_side, naive, bootstrapped, iterations=ITERATIONS)
    apart = run((start, other_start), lambda _, q, __: (largest(q[0] - end), largest(q[1] - end - penalty)))
    together = run((start, start + penalty), lambda _, q, __: largest(q[1] - q[0] - penalty))
    return {"naive": apart[0], "bootstrapped": apart[1], "difference": together}


def _over_temperatures(mdp: MDP, penalty: Array, start: Array) -> Array:
    """How far KL-regularised VI ends from anti-exploration VI, at each temperature."""
    cold = iteration.iterate(partial(bootstrapped_step, mdp, penalty=penalty), start, COLD_ITERATIONS)

    def error(temperature: Array) -> Array:
        log_behaviour = iteration.log_behaviour(penalty, jnp.ones(()), temperature)
        step = partial(kl_step, mdp, log_behaviour=log_behaviour, temperature=temperature)
        return largest(iteration.iterate(step, start, COLD_ITERATIONS) - cold)

    return jax.vmap(error)(jnp.asarray(TEMPERATURES))


def _over_mdps(errors: np.ndarray) -> dict[str, list[float]]:
    return {"median": _short(np.median(errors, axis=0)), "largest": _short(np.max(errors, axis=0))}


def _short(values: np.ndarray) -> list[float]:
    """Four digits: enough to draw, and half the file."""
    return [float(f"{value:.3e}") for value in values]


def _rates(errors: np.ndarray) -> dict[str, float]:
    """The power of tau that the error falls with between 1e-3 and 1e-4, where it is above rounding."""
    ends = [TEMPERATURES.index(1e-3), TEMPERATURES.index(1e-4)]
    above = np.all(errors[:, ends] > 1e-12, axis=-1)
    rates = np.log10(errors[above][:, ends[0]] / errors[above][:, ends[1]])
    return {
        "share_above_rounding": float(np.mean(above)),
        "median_power": float(np.median(rates)) if rates.size else float("nan"),
    }

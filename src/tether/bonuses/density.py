"""How unlikely the action is for a cloned behaviour policy, against the likeliest one: density, one of the paper's alternatives.

    b(s, a) = log p(a*|s) - log p(a|s),   a* the mode;   for a Gaussian, 1/2 sum ((a - mean(s)) / std(s))^2

p is a Gaussian of independent dimensions, fitted by likelihood, whose mean is a tanh scaled to the bounds; a softmax for discrete
actions. It has one mode: where the data's policy has several, the place between them counts as known. Sizes and rates are TD3's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from tether.bonuses.base import GRADIENT, LOG_PROBABILITY, VALUE, BonusTraits
from tether.networks import Layers, Network, half_range, make_network, observation_scaler, scale_to_bounds
from tether.optimisation import ADAM
from tether.settings import Amount, Seed, ShareBelowOne, Size, Steps
from tether.types import Batch, Key, Metrics, Problem


class Behaviour(eqx.Module):
    network: Network  # of the observation: mean before tanh and log-std in half action ranges, or logits
    low: tuple[float, ...] = eqx.field(static=True)
    high: tuple[float, ...] = eqx.field(static=True)
    discrete: bool = eqx.field(static=True)

    def __call__(self, observation: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Log-probabilities of the actions and of the likeliest ones, `(B,)` each."""
        if self.discrete:
            logits = jax.nn.log_softmax(self.network(observation))
            return jnp.sum(logits * action, axis=-1), jnp.max(logits, axis=-1)
        mean, log_std = jnp.split(self.network(observation), 2, axis=-1)
        std = jnp.exp(jnp.clip(log_std, -5.0, 2.0)) * half_range(self.low, self.high)
        distance = jnp.square((action - scale_to_bounds(jnp.tanh(mean), self.low, self.high)) / std)
        mode = -jnp.sum(jnp.log(std) + 0.5 * jnp.log(2.0 * jnp.pi), axis=-1)
        return mode - 0.5 * jnp.sum(distance, axis=-1), mode


@dataclass(frozen=True)
class Density:
    """Every knob of the bonus."""

    traits: ClassVar[BonusTraits] = BonusTraits(frozenset({VALUE, GRADIENT, LOG_PROBABILITY}))

    steps: Steps = 20_000
    batch_size: Size = 256
    hidden_sizes: tuple[Size, ...] = (256, 256)  # relu
    learning_rate: Amount = 3e-4
    held_out_share: ShareBelowOne = 0.05  # of the episodes, kept out of the fit to judge it by
    seed: Seed = 0  # of the fit

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return (self.batch_size,)

    def init(self, key: Key, problem: Problem) -> tuple[Behaviour, Any]:
        spec = problem.spec
        layers = Layers(self.hidden_sizes, scaler=observation_scaler(problem, wanted=True))
        network = make_network(key, spec, 0, layers, spec.action_size if spec.discrete else 2 * spec.action_size)
        behaviour = Behaviour(network, spec.action_low, spec.action_high, spec.discrete)
        return behaviour, ADAM.start(behaviour, self.learning_rate)

    def update(self, fitting: tuple[Behaviour, Any], batch: Batch, key: Key) -> tuple[Any, Metrics]:
        loss, gradient = jax.value_and_grad(lambda found: -jnp.mean(found(batch.observation, batch.action)[0]))(fitting[0])
        return ADAM.step(fitting[0], gradient, fitting[1], self.learning_rate), {"bonus/loss": loss}

    def frozen(self, fitting: tuple[Behaviour, Any]) -> Behaviour:
        return fitting[0]

    def novelty(self, state: Behaviour, observation: jax.Array, action: jax.Array, key: Key) -> jax.Array:
        return state(observation, action)[1] - self.log_probability(state, observation, action)

    def log_probability(self, state: Behaviour, observation: jax.Array, action: jax.Array) -> jax.Array:
        return state(observation, action)[0]

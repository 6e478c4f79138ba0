"""How unlikely the action is for a cloned behaviour policy, against the likeliest one: density, one of the paper's alternatives.

    b(s, a) = log p(a*|s) - log p(a|s),   a* the mode;   for one Gaussian, 1/2 sum ((a - mean(s)) / std(s))^2

p is a mixture of `components` Gaussians of independent dimensions, fitted by likelihood, whose means are a tanh scaled to the
bounds; a softmax for discrete actions. One Gaussian has one mode: where several policies made the data, the place between them
counts as known. a* is the likeliest of the components' means. Sizes and rates are TD3's.
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
    network: Network  # of the observation: means before tanh, log-stds in half action ranges, log-weights if several; or logits
    low: tuple[float, ...] = eqx.field(static=True)
    high: tuple[float, ...] = eqx.field(static=True)
    discrete: bool = eqx.field(static=True)
    components: int = eqx.field(static=True, default=1)

    def __call__(self, observation: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Log-probabilities of the actions and of the likeliest ones, `(B,)` each."""
        found = self.network(observation)
        if self.discrete:
            logits = jax.nn.log_softmax(found)
            return jnp.sum(logits * action, axis=-1), jnp.max(logits, axis=-1)
        rows, size = action.shape
        moments = found[:, : 2 * self.components * size].reshape(rows, 2 * self.components, size)
        weight = jax.nn.log_softmax(found[:, moments[0].size :]) if self.components > 1 else jnp.zeros((rows, 1))
        mean, log_std = moments[:, : self.components], moments[:, self.components :]
        mean = jax.vmap(lambda one: scale_to_bounds(jnp.tanh(one), self.low, self.high))(mean)
        std = jnp.exp(jnp.clip(log_std, -5.0, 2.0)) * half_range(self.low, self.high)[None]

        def log_density(of: jax.Array) -> jax.Array:
            """`(B, M, A) -> (B, M)`."""
            distance = jnp.square((of[:, :, None] - mean[:, None]) / std[:, None])  # (B, M, components, A)
            each = -jnp.sum(0.5 * distance + (jnp.log(std) + 0.5 * jnp.log(2.0 * jnp.pi))[:, None], axis=-1)
            return jax.nn.logsumexp(weight[:, None] + each, axis=-1)

        return log_density(action[:, None])[:, 0], jnp.max(log_density(mean), axis=1)


@dataclass(frozen=True)
class Density:
    """Every knob of the bonus."""

    traits: ClassVar[BonusTraits] = BonusTraits(frozenset({VALUE, GRADIENT, LOG_PROBABILITY}))

    steps: Steps = 20_000
    batch_size: Size = 256
    components: Size = 1  # Gaussians in the mixture
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
        mixture = 2 * self.components * spec.action_size + (self.components if self.components > 1 else 0)
        network = make_network(key, spec, 0, layers, spec.action_size if spec.discrete else mixture)
        behaviour = Behaviour(network, spec.action_low, spec.action_high, spec.discrete, self.components)
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

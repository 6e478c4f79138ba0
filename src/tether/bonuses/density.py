"""How unlikely the action is for a cloned behaviour policy, against the likeliest one: density, one of the paper's alternatives.

    b(s, a) = log p(a*|s) - log p(a|s),   a* the mode;   for one Gaussian, 1/2 sum ((a - mean(s)) / std(s))^2

p is a mixture of `components` Gaussians of independent dimensions, fitted by likelihood, whose means are a tanh scaled to the
bounds; a softmax for discrete actions. One Gaussian has one mode: where several policies made the data, the place between them
counts as known. a* is the likeliest of the components' means. Sizes and rates are TD3's.

Its anchor is the Gaussian with the most weight, not the mode: a narrow Gaussian of little weight can have the highest density.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from tether.bonuses.base import ANCHOR, GRADIENT, LOG_PROBABILITY, VALUE, Anchor, BonusTraits
from tether.networks import Layers, Network, half_range, make_network, observation_scaler, scale_to_bounds
from tether.optimisation import ADAM
from tether.settings import Amount, Positive, Seed, ShareBelowOne, Size, Steps
from tether.types import Key, Metrics, Problem

LEAST_STD = math.exp(-5.0)  # in half action ranges
MOST_LOG_STD = 2.0


class Behaviour(eqx.Module):
    network: Network  # of the observation: means before tanh, log-stds in half action ranges, log-weights if several; or logits
    low: tuple[float, ...] = eqx.field(static=True)
    high: tuple[float, ...] = eqx.field(static=True)
    discrete: bool = eqx.field(static=True)
    components: int = eqx.field(static=True, default=1)
    least_std: float = eqx.field(static=True, default=LEAST_STD)

    def __call__(self, observation: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Log-probabilities of the actions and of the likeliest ones, `(B,)` each."""
        if self.discrete:
            logits = jax.nn.log_softmax(self.network(observation))
            return jnp.sum(logits * action, axis=-1), jnp.max(logits, axis=-1)
        weight, mean, std = self.gaussians(observation)

        def log_density(of: jax.Array) -> jax.Array:
            """`(B, M, A) -> (B, M)`."""
            distance = jnp.square((of[:, :, None] - mean[:, None]) / std[:, None])  # (B, M, components, A)
            each = -jnp.sum(0.5 * distance + (jnp.log(std) + 0.5 * jnp.log(2.0 * jnp.pi))[:, None], axis=-1)
            return jax.nn.logsumexp(weight[:, None] + each, axis=-1)

        return log_density(action[:, None])[:, 0], jnp.max(log_density(mean), axis=1)

    def gaussians(self, observation: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Log-weights `(B, components)`, means and standard deviations `(B, components, A)`."""
        found = self.network(observation)
        rows, size = len(observation), len(self.low)
        moments = found[:, : 2 * self.components * size].reshape(rows, 2 * self.components, size)
        weight = jax.nn.log_softmax(found[:, moments[0].size :]) if self.components > 1 else jnp.zeros((rows, 1))
        mean, log_std = moments[:, : self.components], moments[:, self.components :]
        mean = jax.vmap(lambda one: scale_to_bounds(jnp.tanh(one), self.low, self.high))(mean)
        std = jnp.exp(jnp.clip(log_std, jnp.log(self.least_std), MOST_LOG_STD)) * half_range(self.low, self.high)[None]
        return weight, mean, std

    def heaviest(self, observation: jax.Array) -> Anchor:
        weight, mean, std = self.gaussians(observation)
        chosen = jnp.argmax(weight, axis=1)[:, None, None]
        return Anchor(*(jnp.take_along_axis(of, chosen, axis=1)[:, 0] for of in (mean, std)))


@dataclass(frozen=True)
class Density:
    """Every knob of the bonus."""

    traits: ClassVar[BonusTraits] = BonusTraits(frozenset({VALUE, GRADIENT, LOG_PROBABILITY, ANCHOR}), columns=("episode_rank",))

    steps: Steps = 20_000
    batch_size: Size = 256
    components: Size = 1  # Gaussians in the mixture
    lean_to_best: Amount = 0.0  # a row counts exp(-this x the share of episodes with a higher return); 0: all alike
    least_std: Positive = LEAST_STD  # of a Gaussian, in half action ranges
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
        behaviour = Behaviour(network, spec.action_low, spec.action_high, spec.discrete, self.components, self.least_std)
        return behaviour, ADAM.start(behaviour, self.learning_rate)

    def update(self, fitting: tuple[Behaviour, Any], batch: Any, key: Key) -> tuple[Any, Metrics]:
        weight = leaning(batch.episode_rank, self.lean_to_best) if self.lean_to_best > 0.0 else 1.0

        def loss_of(behaviour: Behaviour) -> jax.Array:
            return -jnp.mean(weight * behaviour(batch.observation, batch.action)[0])

        loss, gradient = jax.value_and_grad(loss_of)(fitting[0])
        return ADAM.step(fitting[0], gradient, fitting[1], self.learning_rate), {"bonus/loss": loss}

    def frozen(self, fitting: tuple[Behaviour, Any]) -> Behaviour:
        return fitting[0]

    def novelty(self, state: Behaviour, observation: jax.Array, action: jax.Array, key: Key) -> jax.Array:
        return state(observation, action)[1] - self.log_probability(state, observation, action)

    def log_probability(self, state: Behaviour, observation: jax.Array, action: jax.Array) -> jax.Array:
        return state(observation, action)[0]

    def anchor(self, state: Behaviour, observation: jax.Array) -> Anchor:
        return state.heaviest(observation)


def leaning(episode_rank: jax.Array, lean: float) -> jax.Array:
    """`exp(-lean x rank)`, of mean 1 over the batch, so that no batch makes a smaller step: `(B,)`. Rank 0 is the best."""
    weight = jnp.exp(-lean * episode_rank)
    return weight / jnp.mean(weight)

"""Random network distillation by concatenation: the paper's negative result.

    b(s, a) = |predictor(s, a) - target(s, a)|^2 / std

The target is a random network that never learns; the predictor is trained to match it on the data. The paper gives no sizes.
These are those of SAC-RND's public code (Nikulin et al. 2023), which also scales the inputs by the data's moments and divides the
error by its running standard deviation. That changes the scale, so that weights mean the same for both kinds, and no order.
Images go through a convolution first, in both networks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from tether.bonuses.base import BonusTraits
from tether.networks import Layers, Network, Scaler, make_network, make_scalers
from tether.optimisation import ADAM
from tether.settings import Amount, Seed, ShareBelowOne, Size, Steps
from tether.types import Batch, Key, Metrics, Problem


class RNDNetworks(eqx.Module):
    predictor: Network
    target: Network  # random for ever
    observation: Scaler
    action: Scaler

    def error(self, observation: jax.Array, action: jax.Array) -> jax.Array:
        pair = jnp.concatenate([self.observation(observation), self.action(action)], axis=-1)
        return jnp.sum(jnp.square(self.predictor(pair) - self.target(pair)), axis=-1)


class RunningMoments(NamedTuple):
    """Mean and variance of all errors seen so far, merged batch by batch."""

    number: jax.Array  # () of values
    mean: jax.Array
    variance: jax.Array


class RNDFitting(NamedTuple):
    networks: Any  # with a `predictor` that learns and an `error(observation, action)`
    optimiser: optax.OptState  # of the predictor alone
    moments: RunningMoments


class RNDState(NamedTuple):
    networks: Any
    scale: jax.Array  # () what errors are divided by


@dataclass(frozen=True)
class RND:
    """Every knob of the bonus; the defaults are SAC-RND's."""

    traits: ClassVar[BonusTraits] = BonusTraits()

    steps: Steps = 1_000  # SAC-RND's
    batch_size: Size = 1_024
    predictor_sizes: tuple[Size, ...] = (256, 256, 256)  # hidden layers, relu
    target_sizes: tuple[Size, ...] = (256, 256, 256)  # hidden layers, relu
    embedding_size: Size = 32
    learning_rate: Amount = 3e-4
    divide_by_std: bool = True  # the error's running standard deviation; false: the bare squared error
    held_out_share: ShareBelowOne = 0.05  # of the episodes, kept out of the fit to judge it by
    seed: Seed = 0  # of the fit

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return (self.batch_size,)

    def init(self, key: Key, problem: Problem) -> RNDFitting:
        spec, rows = problem.spec, problem.rows
        key_predictor, key_target = jax.random.split(key)
        observation, action = make_scalers(spec, rows.observation, rows.action)
        networks = RNDNetworks(
            predictor=make_network(key_predictor, spec, spec.action_size, Layers(self.predictor_sizes), self.embedding_size),
            target=make_network(key_target, spec, spec.action_size, Layers(self.target_sizes), self.embedding_size),
            observation=observation,
            action=action,
        )
        return start_distilling(networks, self.learning_rate)

    def update(self, fitting: RNDFitting, batch: Batch, key: Key) -> tuple[RNDFitting, Metrics]:
        return distil(fitting, batch, self.learning_rate)

    def frozen(self, fitting: RNDFitting) -> RNDState:
        return freeze(fitting, self.divide_by_std)

    def novelty(self, state: RNDState, observation: jax.Array, action: jax.Array, key: Key) -> jax.Array:
        return state.networks.error(observation, action) / state.scale


def start_distilling(networks: Any, learning_rate: float) -> RNDFitting:
    moments = RunningMoments(jnp.zeros(()), jnp.zeros(()), jnp.zeros(()))
    return RNDFitting(networks, ADAM.start(networks.predictor, learning_rate), moments)


def distil(fitting: RNDFitting, batch: Batch, learning_rate: float) -> tuple[RNDFitting, Metrics]:
    """One step of the predictor towards the target on the data."""
    networks = fitting.networks

    def loss_of(predictor: Any) -> tuple[jax.Array, jax.Array]:
        error = eqx.tree_at(lambda n: n.predictor, networks, predictor).error(batch.observation, batch.action)
        return jnp.mean(error), error

    (loss, error), gradient = jax.value_and_grad(loss_of, has_aux=True)(networks.predictor)
    predictor, optimiser = ADAM.step(networks.predictor, gradient, fitting.optimiser, learning_rate)
    networks = eqx.tree_at(lambda n: n.predictor, networks, predictor)
    return RNDFitting(networks, optimiser, merged(fitting.moments, error)), {"bonus/loss": loss}


def merged(moments: RunningMoments, values: jax.Array) -> RunningMoments:
    """The moments of all values before and these, by Chan's formula."""
    before, here = moments.number, values.shape[0]
    number = before + here
    shift = jnp.mean(values) - moments.mean
    within = (before * moments.variance + here * jnp.var(values)) / number
    between = jnp.square(shift) * (before / number) * (here / number)
    return RunningMoments(number, moments.mean + shift * here / number, within + between)


def freeze(fitting: RNDFitting, divide_by_std: bool) -> RNDState:
    std = jnp.sqrt(fitting.moments.variance)
    scale = jnp.where(std > 0.0, std, 1.0) if divide_by_std else jnp.ones(())
    return RNDState(fitting.networks, scale)

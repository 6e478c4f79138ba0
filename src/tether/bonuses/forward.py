"""Disagreement of forward models: "prediction of the outcome of its own actions", one of the paper's alternatives.

    b(s, a) = sum over the entries of s' - s of the variance between the models' predictions

A small ensemble learns s' - s from (s, a), in units of the data's standard deviation. Where the data decides, the models agree;
elsewhere each goes its own way from its own first weights. All see the same batches (as in Pathak et al. 2019).
Terminated rows are left out: a file without successors has none for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from tether.bonuses.base import BonusTraits
from tether.networks import Layers, Network, Scaler, make_network, make_scaler, make_scalers
from tether.optimisation import ADAM
from tether.settings import Amount, Seed, ShareBelowOne, Size, Steps
from tether.types import Batch, Key, Metrics, Problem


class ForwardNetworks(eqx.Module):
    models: Network  # stacked on axis 0
    observation: Scaler
    action: Scaler
    change: Scaler  # of s' - s

    def __call__(self, observation: jax.Array, action: jax.Array) -> jax.Array:
        """Scaled changes as each model predicts them: `(B, O), (B, A) -> (models, B, O)`."""
        pair = jnp.concatenate([self.observation(observation), self.action(action)], axis=-1)
        return jax.vmap(lambda model: model(pair))(self.models)


class ForwardFitting(NamedTuple):
    networks: ForwardNetworks
    optimiser: optax.OptState


@dataclass(frozen=True)
class Forward:
    """Every knob of the bonus; five models as Pathak et al. have, sizes as TD3's."""

    traits: ClassVar[BonusTraits] = BonusTraits()

    steps: Steps = 20_000
    batch_size: Size = 256
    models: Size = 5
    hidden_sizes: tuple[Size, ...] = (256, 256)  # relu
    learning_rate: Amount = 3e-4
    held_out_share: ShareBelowOne = 0.05  # of the episodes, kept out of the fit to judge it by
    seed: Seed = 0  # of the fit

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return (self.batch_size,)

    def init(self, key: Key, problem: Problem) -> ForwardFitting:
        spec, rows = problem.spec, problem.rows

        def one(key: Key) -> Network:
            return make_network(key, spec, spec.action_size, Layers(self.hidden_sizes), spec.observation_size)

        observation, action = make_scalers(spec, rows.observation, rows.action)

        networks = ForwardNetworks(
            models=jax.vmap(one)(jax.random.split(key, self.models)),
            observation=observation,
            action=action,
            change=make_scaler(rows.next_observation - rows.observation),
        )
        return ForwardFitting(networks, ADAM.start(networks.models, self.learning_rate))

    def update(self, fitting: ForwardFitting, batch: Batch, key: Key) -> tuple[ForwardFitting, Metrics]:
        networks = fitting.networks
        change = networks.change(batch.next_observation - batch.observation)
        known = 1.0 - batch.terminated

        def loss_of(models: Network) -> jax.Array:
            predicted = eqx.tree_at(lambda n: n.models, networks, models)(batch.observation, batch.action)
            error = jnp.mean(jnp.square(predicted - change[None, :, :]), axis=-1)
            return jnp.sum(jnp.mean(error * known[None, :], axis=1))  # each model's own mean, so that their number is no rate

        loss, gradient = jax.value_and_grad(loss_of)(networks.models)
        models, optimiser = ADAM.step(networks.models, gradient, fitting.optimiser, self.learning_rate)
        return ForwardFitting(eqx.tree_at(lambda n: n.models, networks, models), optimiser), {"bonus/loss": loss / self.models}

    def frozen(self, fitting: ForwardFitting) -> ForwardNetworks:
        return fitting.networks

    def novelty(self, state: ForwardNetworks, observation: jax.Array, action: jax.Array, key: Key) -> jax.Array:
        return jnp.sum(jnp.var(state(observation, action), axis=0), axis=-1)

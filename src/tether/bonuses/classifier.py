"""One class by contrast: a classifier that tells the data's pairs from the same observations with other actions.

    b(s, a) = -log p(recorded | s, a)

Half of the other actions are shuffled (of another row of the batch), half are uniform within the bounds. With as many recorded as
other actions in a batch the classifier tends to d / (d + c), where d is the density of the data's actions at s and c that of the
contrast: the bonus is log(1 + c / d), which grows without bound, and with a slope, where the data has nothing.
The paper names one-class methods and settles nothing; sizes and rates are TD3's, and the length is our choice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from tether.bonuses.base import BonusTraits
from tether.networks import Layers, Network, Scaler, make_network, make_scalers
from tether.optimisation import ADAM
from tether.settings import Amount, Seed, Share, ShareBelowOne, Size, Steps
from tether.types import Batch, Key, Metrics, Problem


class ClassifierNetworks(eqx.Module):
    logit: Network  # (s, a) -> log odds of being recorded
    observation: Scaler
    action: Scaler
    low: jax.Array  # (A,) action bounds
    high: jax.Array
    discrete: bool = eqx.field(static=True, default=False)

    def __call__(self, observation: jax.Array, action: jax.Array) -> jax.Array:
        return self.logit(jnp.concatenate([self.observation(observation), self.action(action)], axis=-1))[:, 0]


class ClassifierFitting(NamedTuple):
    networks: ClassifierNetworks
    optimiser: optax.OptState


@dataclass(frozen=True)
class Classifier:
    """Every knob of the bonus."""

    traits: ClassVar[BonusTraits] = BonusTraits()

    steps: Steps = 20_000
    batch_size: Size = 256
    hidden_sizes: tuple[Size, ...] = (256, 256)  # relu
    learning_rate: Amount = 3e-4
    uniform_share: Share = 0.5  # of the contrast; the rest is shuffled
    held_out_share: ShareBelowOne = 0.05  # of the episodes, kept out of the fit to judge it by
    seed: Seed = 0  # of the fit

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return (self.batch_size,)

    def init(self, key: Key, problem: Problem) -> ClassifierFitting:
        spec, rows = problem.spec, problem.rows
        observation, action = make_scalers(spec, rows.observation, rows.action)
        networks = ClassifierNetworks(
            logit=make_network(key, spec, spec.action_size, Layers(self.hidden_sizes), 1),
            observation=observation,
            action=action,
            low=jnp.asarray(spec.action_low),
            high=jnp.asarray(spec.action_high),
            discrete=spec.discrete,
        )
        return ClassifierFitting(networks, ADAM.start(networks.logit, self.learning_rate))

    def update(self, fitting: ClassifierFitting, batch: Batch, key: Key) -> tuple[ClassifierFitting, Metrics]:
        networks = fitting.networks
        other = contrast(self, networks, batch.action, key)

        def loss_of(logit: Network) -> jax.Array:
            judge = eqx.tree_at(lambda n: n.logit, networks, logit)
            recorded, contrasted = judge(batch.observation, batch.action), judge(batch.observation, other)
            return 0.5 * (jnp.mean(jax.nn.softplus(-recorded)) + jnp.mean(jax.nn.softplus(contrasted)))

        loss, gradient = jax.value_and_grad(loss_of)(networks.logit)
        logit, optimiser = ADAM.step(networks.logit, gradient, fitting.optimiser, self.learning_rate)
        return ClassifierFitting(eqx.tree_at(lambda n: n.logit, networks, logit), optimiser), {"bonus/loss": loss}

    def frozen(self, fitting: ClassifierFitting) -> ClassifierNetworks:
        return fitting.networks

    def novelty(self, state: ClassifierNetworks, observation: jax.Array, action: jax.Array, key: Key) -> jax.Array:
        return jax.nn.softplus(-state(observation, action))


def contrast(bonus: Classifier, networks: ClassifierNetworks, action: jax.Array, key: Key) -> jax.Array:
    """For each row another action than the recorded one: of the row before it, or uniform within the bounds or choices."""
    key_kind, key_uniform = jax.random.split(key)
    shuffled = jnp.roll(action, 1, axis=0)  # rows of a batch are drawn at random, so any other row will do
    if networks.discrete:
        number = action.shape[1]
        uniform = jax.nn.one_hot(jax.random.randint(key_uniform, (action.shape[0],), 0, number), number)
    else:
        spread = (networks.high - networks.low)[None, :]
        uniform = networks.low[None, :] + jax.random.uniform(key_uniform, action.shape) * spread
    is_uniform = jax.random.uniform(key_kind, (action.shape[0], 1)) < bonus.uniform_share
    return jnp.where(is_uniform, uniform, shuffled)

"""Random network distillation that works: SAC-RND's (Nikulin et al. 2023).

    b(s, a) = |predictor(s, a) - target(s, a)|^2 / std

Against `rnd`, what joins observation and action is not concatenation:
- the predictor's first layer is bilinear, a^T W_k s + c_k for each of its units k;
- the target is a network of the action, whose last hidden layer the observation scales and shifts (FiLM).
The rest (sizes, inputs scaled by the data's moments, error over its running standard deviation) is as in `rnd`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from tether.bonuses.base import BonusTraits
from tether.bonuses.rnd import RNDFitting, RNDState, distil, freeze, start_distilling
from tether.networks import MLP, Layers, Scaler, make_mlp, make_scalers
from tether.settings import Amount, Seed, ShareBelowOne, Size, Steps
from tether.types import Batch, Key, Metrics, Problem, Spec


class BilinearMLP(eqx.Module):
    """An MLP whose first layer is bilinear in observation and action."""

    kernel: jax.Array  # (O, A, H)
    bias: jax.Array  # (H,)
    rest: MLP

    def __call__(self, observation: jax.Array, action: jax.Array) -> jax.Array:
        # All pairs of entries, then one product: (B, O * A) @ (O * A, H).
        pairs = (observation[:, :, None] * action[:, None, :]).reshape(observation.shape[0], -1)
        first = pairs @ self.kernel.reshape(-1, self.kernel.shape[-1]) + self.bias[None, :]
        return self.rest(jax.nn.relu(first))


class FiLMMLP(eqx.Module):
    """An MLP of the action whose last hidden layer is scaled and shifted, unit by unit, by a linear map of the observation."""

    trunk: MLP  # of the action; its output is the last hidden layer before scaling
    scale_and_shift: MLP  # of the observation
    head: MLP

    def __call__(self, observation: jax.Array, action: jax.Array) -> jax.Array:
        scale, shift = jnp.split(self.scale_and_shift(observation), 2, axis=-1)
        return self.head(jax.nn.relu(scale * self.trunk(action) + shift))


class RNDFiLMNetworks(eqx.Module):
    predictor: BilinearMLP
    target: FiLMMLP  # random for ever
    observation: Scaler
    action: Scaler

    def error(self, observation: jax.Array, action: jax.Array) -> jax.Array:
        pair = self.observation(observation), self.action(action)
        return jnp.sum(jnp.square(self.predictor(*pair) - self.target(*pair)), axis=-1)


@dataclass(frozen=True)
class RNDFiLM:
    """Every knob of the bonus; the defaults are SAC-RND's."""

    traits: ClassVar[BonusTraits] = BonusTraits()

    steps: Steps = 1_000  # SAC-RND's
    batch_size: Size = 1_024
    predictor_sizes: tuple[Size, ...] = (256, 256, 256)  # hidden layers, relu; the first is bilinear
    target_sizes: tuple[Size, ...] = (256, 256, 256)  # hidden layers, relu; the last is FiLM's
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
        networks = RNDFiLMNetworks(
            predictor=_bilinear(key_predictor, spec, self.predictor_sizes, self.embedding_size),
            target=_film(key_target, spec, self.target_sizes, self.embedding_size),
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


def _bilinear(key: Key, spec: Spec, sizes: tuple[int, ...], embedding_size: int) -> BilinearMLP:
    key_kernel, key_bias, key_rest = jax.random.split(key, 3)
    bound = 1.0 / math.sqrt(spec.action_size)  # PyTorch's bilinear layer, with the action as its first input
    kernel = jax.random.uniform(key_kernel, (spec.observation_size, spec.action_size, sizes[0]), minval=-bound, maxval=bound)
    bias = jax.random.uniform(key_bias, (sizes[0],), minval=-bound, maxval=bound)
    return BilinearMLP(kernel, bias, make_mlp(key_rest, sizes[0], Layers(sizes[1:]), embedding_size))


def _film(key: Key, spec: Spec, sizes: tuple[int, ...], embedding_size: int) -> FiLMMLP:
    key_trunk, key_film, key_head = jax.random.split(key, 3)
    last = sizes[-1]
    return FiLMMLP(
        trunk=make_mlp(key_trunk, spec.action_size, Layers(sizes[:-1]), last),
        scale_and_shift=make_mlp(key_film, spec.observation_size, Layers(()), 2 * last),
        head=make_mlp(key_head, last, Layers(()), embedding_size),
    )

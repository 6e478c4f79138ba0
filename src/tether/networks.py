"""The few network shapes, as Equinox modules whose leaves are all arrays: a jitted function takes them as they are."""

from __future__ import annotations

import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp

from tether.types import Key, Spec


def elu(x: jax.Array) -> jax.Array:
    """`jax.nn.elu` with exp(x) - 1 in place of its expm1, which takes a CPU far longer. All it costs is 1e-7 near zero."""
    return jnp.where(x > 0.0, x, jnp.exp(jnp.where(x > 0.0, 0.0, x)) - 1.0)


ACTIVATIONS = {"relu": jax.nn.relu, "tanh": jnp.tanh, "elu": elu, "none": lambda x: x}


class MLP(eqx.Module):
    """Dense layers, each followed by its activation. Weights are `(in, out)`, so a layer is one product with no transpose."""

    weights: tuple[jax.Array, ...]
    biases: tuple[jax.Array, ...]
    norm: LayerNorm | None  # between the first product and its activation, where Acme's LayerNormMLP has it
    activations: tuple[str, ...] = eqx.field(static=True)

    def __call__(self, x: jax.Array) -> jax.Array:
        """`(B, in) -> (B, out)`."""
        for layer, (weight, bias, activation) in enumerate(zip(self.weights, self.biases, self.activations, strict=True)):
            x = x @ weight + bias[None, :]
            if layer == 0 and self.norm is not None:
                x = self.norm(x)
            x = ACTIVATIONS[activation](x)
        return x


class Scaler(eqx.Module):
    """Zero mean and unit variance by the moments of a dataset, feature by feature."""

    mean: jax.Array
    std: jax.Array

    def __call__(self, x: jax.Array) -> jax.Array:
        return (x - self.mean[None, :]) / self.std[None, :]


def make_scaler(column: jax.Array) -> Scaler:
    """By the moments of `(N, K)`. A feature that hardly varies is only centred: noise must not be blown up to unit size."""
    std = jnp.std(column, axis=0)
    return Scaler(jnp.mean(column, axis=0), jnp.where(std < 1e-6, 1.0, std))


class LayerNorm(eqx.Module):
    """Zero mean and unit variance over the features, then a learned scale and offset."""

    scale: jax.Array
    offset: jax.Array

    def __call__(self, x: jax.Array) -> jax.Array:
        centred = x - jnp.mean(x, axis=-1, keepdims=True)
        variance = jnp.mean(jnp.square(centred), axis=-1, keepdims=True)
        return centred * jax.lax.rsqrt(variance + 1e-5) * self.scale[None, :] + self.offset[None, :]


def make_mlp(
    key: Key,
    input_size: int,
    hidden_sizes: tuple[int, ...],
    output_size: int,
    activations: tuple[str, ...],
    layer_norm: bool = False,
) -> MLP:
    """Weights and biases uniform in ±1/sqrt(inputs): PyTorch's default, which TD3's and BCQ's authors used."""
    sizes = (input_size, *hidden_sizes, output_size)
    weights, biases = [], []
    for layer, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
        key_weight, key_bias = jax.random.split(jax.random.fold_in(key, layer))
        bound = 1.0 / math.sqrt(inputs)
        weights.append(jax.random.uniform(key_weight, (inputs, outputs), minval=-bound, maxval=bound))
        biases.append(jax.random.uniform(key_bias, (outputs,), minval=-bound, maxval=bound))
    norm = LayerNorm(jnp.ones(sizes[1]), jnp.zeros(sizes[1])) if layer_norm else None
    return MLP(tuple(weights), tuple(biases), norm, activations)


class Actor(eqx.Module):
    """A deterministic policy: a network whose tanh output is scaled to the action bounds, which it carries along."""

    network: MLP
    low: tuple[float, ...] = eqx.field(static=True)
    high: tuple[float, ...] = eqx.field(static=True)

    def __call__(self, observation: jax.Array) -> jax.Array:
        """`(B, O) -> (B, A)`, within the bounds."""
        return scale_to_bounds(self.network(observation), self.low, self.high)


def make_actor(
    key: Key, spec: Spec, hidden_sizes: tuple[int, ...], activations: tuple[str, ...], layer_norm: bool = False
) -> Actor:
    network = make_mlp(key, spec.observation_size, hidden_sizes, spec.action_size, (*activations, "tanh"), layer_norm)
    return Actor(network, spec.action_low, spec.action_high)


class Critics(eqx.Module):
    """Several Q-functions of one shape, stacked on axis 0, so that all of them are one batched product."""

    stacked: MLP

    def __call__(self, observation: jax.Array, action: jax.Array) -> jax.Array:
        """`(B, O), (B, A) -> (critics, B)`."""
        pair = jnp.concatenate([observation, action], axis=-1)
        return jax.vmap(lambda critic: critic(pair)[:, 0])(self.stacked)

    def first(self, observation: jax.Array, action: jax.Array) -> jax.Array:
        """The first critic alone, which is the one TD3's actor climbs: `(B, O), (B, A) -> (B,)`."""
        critic = jax.tree.map(lambda leaf: leaf[0], self.stacked)
        return critic(jnp.concatenate([observation, action], axis=-1))[:, 0]


def make_critics(
    key: Key, spec: Spec, number: int, hidden_sizes: tuple[int, ...], activations: tuple[str, ...], layer_norm: bool = False
) -> Critics:
    def one(key: Key) -> MLP:
        return make_mlp(key, spec.observation_size + spec.action_size, hidden_sizes, 1, (*activations, "none"), layer_norm)

    return Critics(jax.vmap(one)(jax.random.split(key, number)))


def scale_to_bounds(unit: jax.Array, low: tuple[float, ...], high: tuple[float, ...]) -> jax.Array:
    """From [-1, 1] to [low, high] in each of the last axis' dimensions."""
    bottom, top = jnp.asarray(low)[None, :], jnp.asarray(high)[None, :]
    return bottom + (unit + 1.0) * 0.5 * (top - bottom)

"""The few network shapes, as Equinox modules whose leaves are all arrays: a jitted function takes them as they are."""

from __future__ import annotations

import itertools
import math
from typing import Literal, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp

from tether.types import Key, Problem, Spec


def elu(x: jax.Array) -> jax.Array:
    """`jax.nn.elu` with exp(x) - 1 in place of its expm1, which takes a CPU far longer. All it costs is 1e-7 near zero."""
    return jnp.where(x > 0.0, x, jnp.exp(jnp.where(x > 0.0, 0.0, x)) - 1.0)


HARDLY = 1e-6  # of a feature's mean, or of 1: what varies less is constant but for rounding

ACTIVATIONS = {"relu": jax.nn.relu, "tanh": jnp.tanh, "elu": elu, "none": lambda x: x}


class MLP(eqx.Module):
    """Dense layers, each followed by its activation. Weights are `(in, out)`, so a layer is one product with no transpose."""

    weights: tuple[jax.Array, ...]
    biases: tuple[jax.Array, ...]
    norm: LayerNorm | None  # between the first product and its activation, where Acme's LayerNormMLP has it
    activations: tuple[str, ...] = eqx.field(static=True)
    scaler: Scaler | None = None  # of observations, which come first among the inputs
    norms: tuple[LayerNorm, ...] = ()  # after the activation of each hidden layer, where ReBRAC has it

    def __call__(self, x: jax.Array, dropout: Dropout | None = None) -> jax.Array:
        """`(B, in) -> (B, out)`. While it learns, `dropout` may leave out parts of its hidden layers."""
        if self.scaler is not None:
            size = self.scaler.mean.shape[0]
            x = jnp.concatenate([self.scaler(x[:, :size]), x[:, size:]], axis=-1)
        for layer, (weight, bias, activation) in enumerate(zip(self.weights, self.biases, self.activations, strict=True)):
            x = x @ weight + bias[None, :]
            if layer == 0 and self.norm is not None:
                x = self.norm(x)
            x = ACTIVATIONS[activation](x)
            if layer < len(self.norms):
                x = self.norms[layer](x)
            if dropout is not None and layer + 1 < len(self.weights):
                x = dropout(x, layer)
        return x


class Dropout(NamedTuple):
    """Each number of a hidden layer is left out with the probability `rate`; what is left is that much larger."""

    rate: float
    key: Key

    def __call__(self, x: jax.Array, layer: int) -> jax.Array:
        kept = jax.random.bernoulli(jax.random.fold_in(self.key, layer), 1.0 - self.rate, x.shape)
        return jnp.where(kept, x / (1.0 - self.rate), 0.0)


class Scaler(eqx.Module):
    """Zero mean and unit variance by the moments of a dataset, feature by feature."""

    mean: jax.Array
    std: jax.Array

    def __call__(self, x: jax.Array) -> jax.Array:
        # It may be part of a network that learns, and does not learn itself.
        mean, std = jax.lax.stop_gradient((self.mean, self.std))
        return (x - mean[None, :]) / std[None, :]


def make_scaler(column: jax.Array) -> Scaler:
    """By the moments of `(N, K)`. A feature that hardly varies is only centred: noise must not be blown up to unit size.

    The spread of a constant feature is that of rounding its mean, up to 3e-7 of it in float32.
    """
    mean, std = jnp.mean(column, axis=0), jnp.std(column, axis=0)
    return Scaler(mean, jnp.where(std < HARDLY * jnp.maximum(1.0, jnp.abs(mean)), 1.0, std))


def observation_scaler(problem: Problem, wanted: bool) -> Scaler | None:
    """For an agent's networks, if it is wanted. Images stay as they are."""
    return make_scaler(problem.rows.observation) if wanted and not problem.spec.observation_shape else None


def make_scalers(spec: Spec, observation: jax.Array, action: jax.Array) -> tuple[Scaler, Scaler]:
    """Of observations and actions. Pixels and one-hot rows stay as they are.

    Scaled by its moments, an action that was seldom taken would stand out more than one that never was, and so would a pixel.
    """
    plain = tuple(Scaler(jnp.zeros(column.shape[1]), jnp.ones(column.shape[1])) for column in (observation, action))
    return (
        plain[0] if spec.observation_shape else make_scaler(observation),
        plain[1] if spec.discrete else make_scaler(action),
    )


class LayerNorm(eqx.Module):
    """Zero mean and unit variance over the features, then a learned scale and offset."""

    scale: jax.Array
    offset: jax.Array

    def __call__(self, x: jax.Array) -> jax.Array:
        return _normed(x, self.scale, self.offset)


# Means over features, and sums over rows, are products with a column or a row of equal numbers, and the slope is written out:
# what XLA and JAX make of means by themselves costs a CPU twice as much (docs/speed.md).


@jax.custom_vjp
def _normed(x: jax.Array, scale: jax.Array, offset: jax.Array) -> jax.Array:
    return _norm_forward(x, scale, offset)[0]


def _norm_forward(x: jax.Array, scale: jax.Array, offset: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    mean = jnp.full((x.shape[1], 1), 1.0 / x.shape[1])
    centred = x - _exact(x, mean)
    shrink = jax.lax.rsqrt(_exact(jnp.square(centred), mean) + 1e-5)  # (B, 1)
    unit = centred * shrink
    return unit * scale[None, :] + offset[None, :], (unit, shrink, scale)


def _norm_backward(kept: tuple[jax.Array, ...], slope: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """With g the slope times the scale: (g - mean g - unit * mean(g * unit)) * shrink, means over features."""
    unit, shrink, scale = kept
    along = slope * unit
    mean, total = scale[:, None] / scale.shape[0], jnp.ones((1, slope.shape[0]))
    sloped = (slope * scale[None, :] - _exact(slope, mean) - unit * _exact(along, mean)) * shrink
    return sloped, _exact(total, along)[0], _exact(total, slope)[0]


def _exact(one: jax.Array, other: jax.Array) -> jax.Array:
    """A GPU would take products in fewer digits than it takes sums."""
    return jnp.matmul(one, other, precision=jax.lax.Precision.HIGHEST)


_normed.defvjp(_norm_forward, _norm_backward)


def fresh_norm(size: int) -> LayerNorm:
    return LayerNorm(jnp.ones(size), jnp.zeros(size))


# Layer norm: between the first product and its activation, as Acme has it; or after each hidden activation, as ReBRAC does.
Norm: TypeAlias = Literal["none", "first", "every"]


class Layers(NamedTuple):
    """The hidden layers of a network."""

    sizes: tuple[int, ...]
    activations: tuple[str, ...] | None = None  # of each, the last also of all after it; None: relu
    norm: Norm = "none"
    scaler: Scaler | None = None  # of observations, which come first among the inputs
    last_within: float | None = None  # a start as rlkit's, whose last layer is this near to 0; None: as PyTorch's


def make_mlp(key: Key, inputs: int, layers: Layers, outputs: int, last: str = "none") -> MLP:
    """Weights and biases uniform in ±1/sqrt(inputs): PyTorch's default, which TD3's and BCQ's authors used.

    rlkit's start has hidden weights in ±1/sqrt(outputs), and 0.1 for their biases.
    """
    sizes = (inputs, *layers.sizes, outputs)
    weights, biases = [], []
    for layer, (before, after) in enumerate(itertools.pairwise(sizes)):
        key_weight, key_bias = jax.random.split(jax.random.fold_in(key, layer))
        bound, hidden = 1.0 / math.sqrt(before), layer < len(layers.sizes)
        if layers.last_within is not None:
            bound = 1.0 / math.sqrt(after) if hidden else layers.last_within
        weights.append(jax.random.uniform(key_weight, (before, after), minval=-bound, maxval=bound))
        if layers.last_within is not None and hidden:
            biases.append(jnp.full(after, 0.1, jnp.float32))  # without a type it would be weak, and the loop compiled again
        else:
            biases.append(jax.random.uniform(key_bias, (after,), minval=-bound, maxval=bound))
    norm = fresh_norm(sizes[1]) if layers.norm == "first" else None
    norms = tuple(map(fresh_norm, layers.sizes)) if layers.norm == "every" else ()
    given = layers.activations or ("relu",)
    activations = tuple(given[min(layer, len(given) - 1)] for layer in range(len(layers.sizes)))
    # A copy: a donated state must not hold the same buffer twice, and an agent has several networks.
    return MLP(tuple(weights), tuple(biases), norm, (*activations, last), jax.tree.map(jnp.copy, layers.scaler), norms)


class ImageMLP(eqx.Module):
    """Dense layers behind one convolution, MinAtar's (Young and Tian 2019): 16 filters of 3 x 3, stride 1, relu.

    Inputs are flat rows, as an MLP's: first the image, then whatever else there is, which joins after the convolution.
    """

    filters: jax.Array  # (3 * 3 * channels, FILTERS)
    filter_biases: jax.Array  # (FILTERS,)
    dense: MLP
    shape: tuple[int, int, int] = eqx.field(static=True)  # height, width, channels

    def __call__(self, x: jax.Array) -> jax.Array:
        height, width, channels = self.shape
        size = height * width * channels
        image = x[:, :size].reshape(-1, height, width, channels)
        # Patches by slices and one product: in a scan on a CPU, XLA's own convolution takes 25 times as long.
        shifts = [(down, right) for down in range(PATCH) for right in range(PATCH)]
        rows, columns = height - PATCH + 1, width - PATCH + 1
        patches = jnp.concatenate([image[:, down : down + rows, right : right + columns] for down, right in shifts], axis=-1)
        found = patches.reshape(-1, PATCH * PATCH * channels) @ self.filters + self.filter_biases[None, :]
        features = jax.nn.relu(found).reshape(x.shape[0], rows * columns * FILTERS)
        return self.dense(jnp.concatenate([features, x[:, size:]], axis=-1))


PATCH, FILTERS = 3, 16

Network: TypeAlias = MLP | ImageMLP


def make_network(key: Key, spec: Spec, extra: int, layers: Layers, outputs: int, last: str = "none") -> Network:
    """Of an observation and `extra` more numbers: an MLP, behind a convolution where observations are images."""
    if not spec.observation_shape:
        return make_mlp(key, spec.observation_size + extra, layers, outputs, last)
    height, width, channels = spec.observation_shape
    key_weight, key_bias, key_dense = jax.random.split(key, 3)
    inputs = PATCH * PATCH * channels
    bound = 1.0 / math.sqrt(inputs)
    features = (height - PATCH + 1) * (width - PATCH + 1) * FILTERS
    return ImageMLP(
        filters=jax.random.uniform(key_weight, (inputs, FILTERS), minval=-bound, maxval=bound),
        filter_biases=jax.random.uniform(key_bias, (FILTERS,), minval=-bound, maxval=bound),
        dense=make_mlp(key_dense, features + extra, layers, outputs, last),
        shape=(height, width, channels),
    )


class Critics(eqx.Module):
    """Several Q-functions of one shape. Stacked, so that a layer of all is one batched product, they are slower on a CPU."""

    each: tuple[MLP, ...]

    def __call__(self, observation: jax.Array, action: jax.Array) -> jax.Array:
        """`(B, O), (B, A) -> (critics, B)`."""
        pair = jnp.concatenate([observation, action], axis=-1)
        return jnp.stack([critic(pair)[:, 0] for critic in self.each])

    def first(self, observation: jax.Array, action: jax.Array) -> jax.Array:
        """The first critic alone, which is the one TD3's actor climbs: `(B, O), (B, A) -> (B,)`."""
        return self.each[0](jnp.concatenate([observation, action], axis=-1))[:, 0]


def make_critics(key: Key, spec: Spec, number: int, layers: Layers) -> Critics:
    inputs = spec.observation_size + spec.action_size
    return Critics(tuple(make_mlp(one, inputs, layers, 1) for one in jax.random.split(key, number)))


def scale_to_bounds(unit: jax.Array, low: tuple[float, ...], high: tuple[float, ...]) -> jax.Array:
    """From [-1, 1] to [low, high] in each of the last axis' dimensions."""
    bottom, top = jnp.asarray(low)[None, :], jnp.asarray(high)[None, :]
    return bottom + (unit + 1.0) * 0.5 * (top - bottom)


def half_range(low: tuple[float, ...], high: tuple[float, ...]) -> jax.Array:
    """The unit in which noise and distances of actions are the same for all bounds: `(1, A)`."""
    return 0.5 * (jnp.asarray(high) - jnp.asarray(low))[None, :]

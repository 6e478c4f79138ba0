"""The few layers of Tether's networks, written once for two array modules.

Each takes `xp`: NumPy itself, or `tether.export.graph.Graph`, which has the same few functions and writes down an ONNX node for
each. So what is exported is what runs here. Nothing may ask for the number of rows: a graph does not know it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from tether.errors import TetherError
from tether.types import Spec

Xp: TypeAlias = Any  # NumPy, or what writes down a graph
Array: TypeAlias = Any  # of that module

PATCH = 3  # of the convolution, 3 x 3


@dataclass(frozen=True)
class Network:
    """Dense layers, maybe behind MinAtar's convolution: `networks.MLP` and `networks.ImageMLP`."""

    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]
    activations: tuple[str, ...]
    norm: Norm | None = None  # between the first product and its activation
    norms: tuple[Norm, ...] = ()  # after the activation of each hidden layer
    scaler: Scaler | None = None  # of the first inputs
    image: Image | None = None


@dataclass(frozen=True)
class Norm:
    scale: np.ndarray
    offset: np.ndarray


@dataclass(frozen=True)
class Scaler:
    mean: np.ndarray
    std: np.ndarray


@dataclass(frozen=True)
class Image:
    filters: np.ndarray  # (3 * 3 * channels, F)
    biases: np.ndarray  # (F,)
    shape: tuple[int, int, int]  # height, width, channels


class Tensors:
    """Arrays by their path in a file, of which a part can be taken by the path's beginning."""

    def __init__(self, tensors: Mapping[str, np.ndarray]) -> None:
        self._tensors = dict(tensors)

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._tensors:
            raise TetherError(f"the file lacks the array {name}")
        return self._tensors[name]

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def below(self, prefix: str) -> Tensors:
        start = f"{prefix}/"
        return Tensors({name.removeprefix(start): array for name, array in self._tensors.items() if name.startswith(start)})

    def listed(self, prefix: str) -> tuple[np.ndarray, ...]:
        """`prefix/0`, `prefix/1` and so on."""
        return tuple(self[f"{prefix}/{number}"] for number in range(self.length(prefix)))

    def length(self, prefix: str) -> int:
        start = f"{prefix}/"
        return len({name.removeprefix(start).split("/")[0] for name in self._tensors if name.startswith(start)})


def read_network(
    tensors: Tensors, last: str = "none", activations: Sequence[str] | None = None, shape: Sequence[int] = ()
) -> Network:
    """From its arrays, by the names of the fields of `networks.MLP`. Hidden layers are relu unless `activations` has all."""
    if "filters" in tensors:
        height, width, channels = shape
        image = Image(tensors["filters"], tensors["filter_biases"], (height, width, channels))
        return replace(read_network(tensors.below("dense"), last, activations), image=image)
    weights = tensors.listed("weights")
    return Network(
        weights,
        tensors.listed("biases"),
        tuple(activations) if activations is not None else ("relu",) * (len(weights) - 1) + (last,),
        Norm(tensors["norm/scale"], tensors["norm/offset"]) if "norm/scale" in tensors else None,
        tuple(_norm(tensors.below(f"norms/{number}")) for number in range(tensors.length("norms"))),
        read_scaler(tensors.below("scaler")) if "scaler/mean" in tensors else None,
    )


def read_scaler(tensors: Tensors) -> Scaler:
    return Scaler(tensors["mean"], tensors["std"])


def _norm(tensors: Tensors) -> Norm:
    return Norm(tensors["scale"], tensors["offset"])


def run(xp: Xp, network: Network, x: Array) -> Array:
    """`(B, in) -> (B, out)`."""
    if network.image is not None:
        x = _convolved(xp, network.image, x)
    if network.scaler is not None:
        size = len(network.scaler.mean)
        scaled = scale(network.scaler, x[:, :size])
        x = scaled if size == network.weights[0].shape[0] else xp.concatenate([scaled, x[:, size:]], axis=-1)
    for layer, (weight, bias, activation) in enumerate(zip(network.weights, network.biases, network.activations, strict=True)):
        x = x @ weight + bias[None, :]
        if layer == 0 and network.norm is not None:
            x = _normed(xp, network.norm, x)
        x = activate(xp, activation, x)
        if layer < len(network.norms):
            x = _normed(xp, network.norms[layer], x)
    return x


def scale(scaler: Scaler, x: Array) -> Array:
    return (x - scaler.mean[None, :]) / scaler.std[None, :]


def activate(xp: Xp, name: str, x: Array) -> Array:
    if name == "relu":
        return xp.maximum(x, np.float32(0.0))
    if name == "tanh":
        return xp.tanh(x)
    if name == "elu":
        return xp.where(x > np.float32(0.0), x, xp.exp(xp.minimum(x, np.float32(0.0))) - np.float32(1.0))
    if name == "none":
        return x
    raise TetherError(f"the runtime knows no activation {name!r}; it has relu, tanh, elu and none")


def softplus(xp: Xp, x: Array) -> Array:
    return xp.maximum(x, np.float32(0.0)) + xp.log(np.float32(1.0) + xp.exp(-xp.abs(x)))


def log_softmax(xp: Xp, x: Array) -> Array:
    shifted = x - xp.max(x, axis=-1, keepdims=True)
    return shifted - xp.log(xp.sum(xp.exp(shifted), axis=-1, keepdims=True))


def square(x: Array) -> Array:
    return x * x


def mean(xp: Xp, x: Array, size: int, keepdims: bool = False) -> Array:
    """Over the last axis, which is `size` long."""
    return xp.sum(x, axis=-1, keepdims=keepdims) * np.float32(1.0 / size)


def bounds_of(spec: Spec) -> tuple[np.ndarray, np.ndarray]:
    """Of actions, `(A,)` each."""
    return np.asarray(spec.action_low, np.float32), np.asarray(spec.action_high, np.float32)


def scale_to_bounds(x: Array, low: np.ndarray, high: np.ndarray) -> Array:
    """From [-1, 1] to [low, high]."""
    return low[None, :] + (x + np.float32(1.0)) * np.float32(0.5) * (high - low)[None, :]


def choose(xp: Xp, values: Array) -> Array:
    """One-hot rows of the largest of each row; of equal ones, the first."""
    places = np.arange(values.shape[-1], dtype=np.int64)[None, :]
    chosen = xp.argmax(values, axis=-1)[:, None] == places
    return xp.where(chosen, np.float32(1.0), np.float32(0.0))


def rows_for_each(x: Array, number: int) -> Array:
    """Each row `number` times: `(B, K) -> (B * number, K)`."""
    return (x[:, None, :] * np.ones((1, number, 1), np.float32)).reshape(-1, x.shape[-1])


def for_each_row(constant: np.ndarray, x: Array) -> Array:
    """The constant once for each row of `x`: `(number, K), (B, ·) -> (B * number, K)`."""
    return (constant[None, :, :] + np.float32(0.0) * x[:, None, :1]).reshape(-1, constant.shape[-1])


def _normed(xp: Xp, norm: Norm, x: Array) -> Array:
    size = len(norm.scale)
    centred = x - mean(xp, x, size, keepdims=True)
    variance = mean(xp, square(centred), size, keepdims=True)
    return centred / xp.sqrt(variance + np.float32(1e-5)) * norm.scale[None, :] + norm.offset[None, :]


def _convolved(xp: Xp, image: Image, x: Array) -> Array:
    """The image, which comes first in each row, through the convolution; what is behind it stays behind it."""
    height, width, channels = image.shape
    size, filters = height * width * channels, image.filters.shape[1]
    pixels = x[:, :size].reshape(-1, height, width, channels)
    rows, columns = height - PATCH + 1, width - PATCH + 1
    shifts = [(down, right) for down in range(PATCH) for right in range(PATCH)]
    patches = xp.concatenate([pixels[:, down : down + rows, right : right + columns] for down, right in shifts], axis=-1)
    found = patches.reshape(-1, PATCH * PATCH * channels) @ image.filters + image.biases[None, :]
    features = activate(xp, "relu", found).reshape(-1, rows * columns * filters)
    return xp.concatenate([features, x[:, size:]], axis=-1) if x.shape[-1] > size else features

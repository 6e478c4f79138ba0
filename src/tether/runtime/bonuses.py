"""Every bonus that a policy file can hold, from its arrays: what `novelty` of `tether.bonuses` computes, without chance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from tether.errors import TetherError
from tether.runtime.layers import (
    Array,
    Network,
    Scaler,
    Tensors,
    Xp,
    activate,
    bounds_of,
    log_softmax,
    mean,
    read_network,
    read_scaler,
    run,
    scale,
    scale_to_bounds,
    softplus,
    square,
)
from tether.types import Spec

Novelty: TypeAlias = Callable[[Xp, Array, Array, Array | None], Array]  # (B, O), (B, A), noise of a latent or None -> (B,)

LOW_32 = 0xFFFFFFFF
LEAST_STD = float(np.exp(-5.0))  # of a Gaussian of the density, in files that were written before it was a setting


def read_bonus(settings: Mapping[str, Any], spec: Spec, state: Tensors) -> Novelty:
    """The bonus of these settings, as `settings.to_named` writes them, with the arrays of its fitted state."""
    name = settings.get("name")
    if name not in READERS:
        raise TetherError(f"tether.runtime cannot run the bonus {name!r}; it runs {', '.join(READERS)}")
    return READERS[str(name)](settings, spec, state)


class CVAE:
    """Encoder and decoder; also the generator of a policy that chooses among samples."""

    def __init__(self, settings: Mapping[str, Any], spec: Spec, state: Tensors) -> None:
        self.settings = {"reduction": "sum", "measure": "reconstruction", "elbo": "mean", "kl_weight": 0.5, **settings}
        if self.settings.get("draws", 1) > 1 and self.settings.get("latent", "sample") == "sample":
            raise TetherError("tether.runtime cannot run a CVAE with several bonus.draws; one trained with bonus.draws=1 it can")
        self.spec = spec
        self.low, self.high = bounds_of(spec)
        shape = spec.observation_shape
        self.encoder = read_network(state.below("encoder"), shape=shape)
        self.decoder = read_network(state.below("decoder"), "none" if spec.discrete else "tanh", shape=shape)
        self.latents = self.encoder.weights[-1].shape[1] // 2
        self.error_unit: np.ndarray | None = None  # twice the decoder's variance, where the bound is calibrated
        if self.settings["elbo"] == "calibrated":
            half = np.float32(0.5) * (self.high - self.low)
            self.error_unit = np.float32(2.0) * np.maximum(state["noise"], np.float32(1e-4)) * np.square(half)

    def __call__(self, xp: Xp, observation: Array, action: Array, noise: Array | None = None) -> Array:
        encoded = run(xp, self.encoder, xp.concatenate([observation, action], axis=-1))
        centre = encoded[:, : self.latents]
        log_std = xp.minimum(xp.maximum(encoded[:, self.latents :], np.float32(-4.0)), np.float32(15.0))
        sampled = noise is not None and self.settings.get("latent", "sample") == "sample"
        latent = centre + xp.exp(log_std) * noise if sampled else centre
        squared = square(action - self.decode(xp, observation, latent))
        if self.error_unit is not None:
            squared = squared / self.error_unit[None, :]
        actions, summed = self.spec.action_size, self.settings["reduction"] == "sum"
        value = xp.sum(squared, axis=-1) if summed else mean(xp, squared, actions)
        if self.settings["measure"] == "reconstruction":
            return value
        unit = (actions if summed else 1.0) * (1.0 if self.settings["elbo"] == "mean" else self.latents / actions)
        spread = square(centre) + xp.exp(np.float32(2.0) * log_std) - np.float32(1.0)
        divergence = np.float32(0.5) * spread - log_std
        return value + np.float32(self.settings["kl_weight"] * unit) * mean(xp, divergence, self.latents)

    def decode(self, xp: Xp, observation: Array, latent: Array) -> Array:
        decoded = run(xp, self.decoder, xp.concatenate([observation, latent], axis=-1))
        return xp.exp(log_softmax(xp, decoded)) if self.spec.discrete else scale_to_bounds(decoded, self.low, self.high)


def _scalers(state: Tensors) -> tuple[Scaler, Scaler]:
    return read_scaler(state.below("observation")), read_scaler(state.below("action"))


def _pair(xp: Xp, scalers: tuple[Scaler, Scaler], observation: Array, action: Array) -> Array:
    return xp.concatenate([scale(scalers[0], observation), scale(scalers[1], action)], axis=-1)


def _rnd(settings: Mapping[str, Any], spec: Spec, state: Tensors) -> Novelty:
    networks, shape = state.below("networks"), spec.observation_shape
    predictor, target = (read_network(networks.below(name), shape=shape) for name in ("predictor", "target"))
    scalers, divisor = _scalers(networks), np.float32(state["scale"])

    def novelty(xp: Xp, observation: Array, action: Array, noise: Array | None = None) -> Array:
        pair = _pair(xp, scalers, observation, action)
        return xp.sum(square(run(xp, predictor, pair) - run(xp, target, pair)), axis=-1) / divisor

    return novelty


def _rnd_film(settings: Mapping[str, Any], spec: Spec, state: Tensors) -> Novelty:
    networks = state.below("networks")
    kernel, bias = networks["predictor/kernel"], networks["predictor/bias"]
    flat = np.ascontiguousarray(kernel.reshape(-1, kernel.shape[-1]))
    rest, trunk, film, head = (
        read_network(networks.below(name)) for name in ("predictor/rest", "target/trunk", "target/scale_and_shift", "target/head")
    )
    scalers, divisor, half = _scalers(networks), np.float32(state["scale"]), film.weights[0].shape[1] // 2

    def novelty(xp: Xp, observation: Array, action: Array, noise: Array | None = None) -> Array:
        seen, taken = scale(scalers[0], observation), scale(scalers[1], action)
        pairs = (seen[:, :, None] * taken[:, None, :]).reshape(-1, len(flat))
        predicted = run(xp, rest, activate(xp, "relu", pairs @ flat + bias[None, :]))
        modulation = run(xp, film, seen)
        hidden = modulation[:, :half] * run(xp, trunk, taken) + modulation[:, half:]
        return xp.sum(square(predicted - run(xp, head, activate(xp, "relu", hidden))), axis=-1) / divisor

    return novelty


def _classifier(settings: Mapping[str, Any], spec: Spec, state: Tensors) -> Novelty:
    logit, scalers = read_network(state.below("logit"), shape=spec.observation_shape), _scalers(state)

    def novelty(xp: Xp, observation: Array, action: Array, noise: Array | None = None) -> Array:
        return softplus(xp, -run(xp, logit, _pair(xp, scalers, observation, action))[:, 0])

    return novelty


def _forward(settings: Mapping[str, Any], spec: Spec, state: Tensors) -> Novelty:
    stacked = read_network(state.below("models"), shape=spec.observation_shape)
    models, scalers = _unstacked(stacked), _scalers(state)
    share = np.float32(1.0 / len(models))

    def novelty(xp: Xp, observation: Array, action: Array, noise: Array | None = None) -> Array:
        pair = _pair(xp, scalers, observation, action)
        predicted = [run(xp, model, pair) for model in models]
        centre = _added(predicted) * share
        return xp.sum(_added([square(each - centre) for each in predicted]), axis=-1) * share

    return novelty


class Density:
    """A mixture of Gaussians, or logits; also the anchor of a policy."""

    def __init__(self, settings: Mapping[str, Any], spec: Spec, state: Tensors) -> None:
        self.network = read_network(state.below("network"), shape=spec.observation_shape)
        self.spec, self.components = spec, int(settings.get("components", 1))
        self.low, self.high = bounds_of(spec)
        self.half = (np.float32(0.5) * (self.high - self.low))[None, :]
        self.least = np.log(np.float32(settings.get("least_std", LEAST_STD)))

    def __call__(self, xp: Xp, observation: Array, action: Array, noise: Array | None = None) -> Array:
        if self.spec.discrete:
            logits = log_softmax(xp, run(xp, self.network, observation))
            return xp.max(logits, axis=-1) - xp.sum(logits * action, axis=-1)
        weights, means, stds = self.gaussians(xp, observation)
        if self.components == 1:  # what is left when the density is taken from that of the mean
            return np.float32(0.5) * xp.sum(square((action - means[0]) / stds[0]), axis=-1)

        def log_density(of: Array) -> Array:
            """Without the part that all of them have in common."""
            return _log_of_summed(
                xp,
                [
                    weights[:, number] - xp.sum(np.float32(0.5) * square((of - mean) / std) + xp.log(std), axis=-1)
                    for number, (mean, std) in enumerate(zip(means, stds, strict=True))
                ],
            )

        return _largest(xp, [log_density(mean) for mean in means]) - log_density(action)

    def gaussians(self, xp: Xp, observation: Array) -> tuple[Array, list[Array], list[Array]]:
        """Log-weights `(B, components)`, and of each its mean and its standard deviation, `(B, A)`."""
        found = run(xp, self.network, observation)
        actions, components = self.spec.action_size, self.components
        parts = [found[:, number * actions : (number + 1) * actions] for number in range(2 * components)]
        means = [scale_to_bounds(xp.tanh(part), self.low, self.high) for part in parts[:components]]
        stds = [xp.exp(xp.minimum(xp.maximum(part, self.least), np.float32(2.0))) * self.half for part in parts[components:]]
        weights = log_softmax(xp, found[:, 2 * components * actions :]) if components > 1 else found[:, :1] * np.float32(0.0)
        return weights, means, stds


class Count:
    """Counts of hashed pairs."""

    def __init__(self, settings: Mapping[str, Any], spec: Spec, state: Tensors) -> None:
        self.projection, self.scalers = state["projection"], _scalers(state)
        self.powers = np.left_shift(np.int64(1), np.arange(self.projection.shape[1], dtype=np.int64))[None, :]
        self.values = _of_counts(state["counts"], settings.get("unseen", 2.0))

    def __call__(self, xp: Xp, observation: Array, action: Array, noise: Array | None = None) -> Array:
        signs = _pair(xp, self.scalers, observation, action) @ self.projection > np.float32(0.0)
        return xp.take(self.values, xp.sum(xp.where(signs, self.powers, np.int64(0)), axis=-1))

    def distance_to_edge(self, observation: np.ndarray, action: np.ndarray) -> np.ndarray:
        """How near each pair is to another bucket, `(B,)`: there rounding decides."""
        return np.min(
            np.abs(_pair(np, self.scalers, observation, action) @ self.projection), axis=-1, where=self._real, initial=1.0
        )

    @property
    def _real(self) -> np.ndarray:
        """Those projections that are not of discrete actions alone: `(1, K)`."""
        return (self.projection != 0.0).sum(axis=0, keepdims=True) > 1


def _count_exact(settings: Mapping[str, Any], spec: Spec, state: Tensors) -> Novelty:
    salts = state["salts"].astype(np.int64)
    rows = _joined(state["first"].astype(np.int64), state["second"].astype(np.int64))  # in ascending order
    keys, numbers = np.unique(rows, return_counts=True)
    values, unseen = _of_counts(numbers, 0.0), np.float32(settings.get("unseen", 100.0))

    def novelty(xp: Xp, observation: Array, action: Array, noise: Array | None = None) -> Array:
        bits = bits_of(xp, xp.concatenate([observation, action], axis=-1) + np.float32(0.0))  # -0 becomes 0
        first, second = (xp.sum(_scrambled(bits ^ salt[None, :]), axis=-1) & LOW_32 for salt in salts)
        key = _joined(first, second)
        place = xp.minimum(first_not_below(xp, keys, key), np.int64(len(keys) - 1))
        return xp.where(xp.take(keys, place) == key, xp.take(values, place), unseen)

    return novelty


def _none(settings: Mapping[str, Any], spec: Spec, state: Tensors) -> Novelty:
    def novelty(xp: Xp, observation: Array, action: Array, noise: Array | None = None) -> Array:
        return np.float32(0.0) * observation[:, 0]

    return novelty


READERS: dict[str, Callable[[Mapping[str, Any], Spec, Tensors], Novelty]] = {
    "cvae": CVAE,
    "rnd": _rnd,
    "rnd-film": _rnd_film,
    "count": Count,
    "count-exact": _count_exact,
    "classifier": _classifier,
    "forward": _forward,
    "density": Density,
    "none": _none,
}


def first_not_below(xp: Xp, ascending: np.ndarray, x: Array) -> Array:
    """How many of the sorted numbers are below each of `x`."""
    if xp is np:
        return np.searchsorted(ascending, x)
    low = xp.where(x == x, np.int64(0), np.int64(0))
    step = 1 << (len(ascending).bit_length() - 1)
    while step:  # bisection, written out: the largest number of entries that are all below
        ahead = low + np.int64(step)
        entry = xp.take(ascending, xp.minimum(ahead, np.int64(len(ascending))) - np.int64(1))
        inside = xp.where(ahead <= np.int64(len(ascending)), np.int64(1), np.int64(0))
        low = xp.where((entry < x) & (inside == np.int64(1)), ahead, low)
        step //= 2
    return low


def bits_of(xp: Xp, x: Array) -> Array:
    """The bits of single-precision numbers, as whole numbers from 0 to 2**32 - 1."""
    return np.ascontiguousarray(x).view(np.uint32).astype(np.int64) if xp is np else xp.bits(x)


def _of_counts(counts: np.ndarray, unseen: float) -> np.ndarray:
    return np.where(counts > 0, 1.0 / np.sqrt(np.maximum(counts, 1.0)), unseen).astype(np.float32)


def _joined(first: Array, second: Array) -> Array:
    """Two numbers of 32 bits as one of 64, in the same order."""
    return (first - np.int64(1 << 31)) * np.int64(1 << 32) + second


def _scrambled(bits: Array) -> Array:
    """The finaliser of MurmurHash3, in the low 32 bits of 64."""
    bits = (bits ^ (bits >> 16)) * np.int64(0x85EBCA6B) & LOW_32
    bits = (bits ^ (bits >> 13)) * np.int64(0xC2B2AE35) & LOW_32
    return bits ^ (bits >> 16)


def _unstacked(stacked: Network) -> list[Network]:
    """One network for each entry of the first axis of its arrays."""
    networks = []
    for number in range(len(stacked.biases[0])):
        image = stacked.image
        networks.append(
            replace(
                stacked,
                weights=tuple(weight[number] for weight in stacked.weights),
                biases=tuple(bias[number] for bias in stacked.biases),
                image=image and replace(image, filters=image.filters[number], biases=image.biases[number]),
            )
        )
    return networks


def _largest(xp: Xp, arrays: list[Array]) -> Array:
    found = arrays[0]
    for array in arrays[1:]:
        found = xp.maximum(found, array)
    return found


def _log_of_summed(xp: Xp, arrays: list[Array]) -> Array:
    """The logarithm of the sum of their exponentials."""
    largest = _largest(xp, arrays)
    return largest + xp.log(_added([xp.exp(array - largest) for array in arrays]))


def _added(arrays: list[Array]) -> Array:
    total = arrays[0]
    for array in arrays[1:]:
        total = total + array
    return total

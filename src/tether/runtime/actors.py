"""Every kind of policy that a file can hold, from its description and its arrays: `(B, O) -> (B, A)`, as in `tether.policies`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from tether.errors import TetherError, did_you_mean
from tether.runtime.bonuses import CVAE, Density, Novelty, read_bonus
from tether.runtime.layers import (
    Array,
    Network,
    Tensors,
    Xp,
    bounds_of,
    choose,
    for_each_row,
    read_network,
    rows_for_each,
    run,
    scale_to_bounds,
)
from tether.runtime.noise import standard_normal
from tether.types import spec_from_json

Actor: TypeAlias = Callable[[Xp, Array], Array]


def read_actor(description: Mapping[str, Any], tensors: Tensors) -> Actor:
    """The policy that was described (`policies.describe`). Discrete actions are one-hot rows."""
    kind = str(description.get("kind"))
    if kind not in READERS:
        raise TetherError(f"tether.runtime cannot run a policy of kind {kind!r}{did_you_mean(kind, READERS)}")
    return READERS[kind](description, tensors)


def _deterministic(description: Mapping[str, Any], tensors: Tensors) -> Actor:
    network = _network(description["network"], tensors.below("network"))
    low, high = (np.asarray(description[name], np.float32) for name in ("low", "high"))
    return lambda xp, observation: scale_to_bounds(run(xp, network, observation), low, high)


def _squashed_gaussian(description: Mapping[str, Any], tensors: Tensors) -> Actor:
    network = _network(description["network"], tensors.below("network"))
    low, high = (np.asarray(description[name], np.float32) for name in ("low", "high"))
    return lambda xp, observation: scale_to_bounds(xp.tanh(run(xp, network, observation)[:, : len(low)]), low, high)


class Greedy:
    """The choice with the largest output, less its weighted bonus."""

    def __init__(self, description: Mapping[str, Any], tensors: Tensors) -> None:
        self.network = _network(description["network"], tensors.below("network"))
        self.choices = self.network.weights[-1].shape[1]
        self.penalty: Novelty | None = None
        penalty = description.get("penalty")
        if penalty is not None and description.get("weight") is not None:
            self.weight = np.float32(tensors["weight"])
            self.penalty = read_bonus(penalty["bonus"], spec_from_json(penalty["spec"]), tensors.below("penalty/state"))

    def __call__(self, xp: Xp, observation: Array) -> Array:
        return choose(xp, self.values(xp, observation))

    def values(self, xp: Xp, observation: Array) -> Array:
        """What it compares, `(B, choices)`."""
        outputs = run(xp, self.network, observation)
        if self.penalty is None:
            return outputs
        repeated = rows_for_each(observation, self.choices)
        noise = None
        if isinstance(self.penalty, CVAE):
            noise = for_each_row(standard_normal(self.choices, self.penalty.latents), observation)
        every_action = for_each_row(np.eye(self.choices, dtype=np.float32), observation)
        return outputs - self.weight * self.penalty(xp, repeated, every_action, noise).reshape(-1, self.choices)


class BestOfSamples:
    """Of the generator's samples, each moved a little, the one that the critic likes best."""

    def __init__(self, description: Mapping[str, Any], tensors: Tensors) -> None:
        self.critic = _network(description["critics"]["each"][0], tensors.below("critics/each/0"))
        self.samples = int(description["samples"])
        self.sample, self.actions = _generator(description["generator"], tensors.below("generator"), self.samples)
        self.perturbation: Network | None = None
        if description.get("perturbation") is not None:
            self.perturbation = _network(description["perturbation"], tensors.below("perturbation"))
            self.low, self.high = bounds_of(spec_from_json(description["generator"]["spec"]))
            self.most = np.float32(description["most_perturbed"]) * np.float32(0.5) * (self.high - self.low)

    def __call__(self, xp: Xp, observation: Array) -> Array:
        actions, values = self.candidates(xp, observation)
        return xp.sum(actions * choose(xp, values)[:, :, None], axis=1)

    def values(self, xp: Xp, observation: Array) -> Array:
        """What it compares, `(B, samples)`."""
        return self.candidates(xp, observation)[1]

    def candidates(self, xp: Xp, observation: Array) -> tuple[Array, Array]:
        """Actions `(B, samples, A)` and what the critic thinks of them `(B, samples)`."""
        repeated = rows_for_each(observation, self.samples)
        action = self.sample(xp, observation, repeated)
        if self.perturbation is not None:
            moved = run(xp, self.perturbation, xp.concatenate([repeated, action], axis=-1)) * self.most[None, :]
            action = xp.minimum(xp.maximum(action + moved, self.low[None, :]), self.high[None, :])
        values = run(xp, self.critic, xp.concatenate([repeated, action], axis=-1))
        return action.reshape(-1, self.samples, self.actions), values.reshape(-1, self.samples)


class Tethered:
    """The anchor of a bonus, and a bounded step from there."""

    def __init__(self, description: Mapping[str, Any], tensors: Tensors) -> None:
        self.step = _network(description["step"], tensors.below("step"))
        self.reach, anchor = np.float32(description["reach"]), description["anchor"]
        spec = spec_from_json(anchor["spec"])
        bonus = read_bonus(anchor["bonus"], spec, tensors.below("anchor/state"))
        if not isinstance(bonus, Density):
            raise TetherError(f"tether.runtime cannot anchor a policy in {anchor['bonus'].get('name')!r}; it can in density")
        self.anchor = bonus
        self.low, self.high = bounds_of(spec)
        self.longest = np.float32(description["longest"]) * np.float32(0.5) * (self.high - self.low)

    def __call__(self, xp: Xp, observation: Array) -> Array:
        weights, means, stds = self.anchor.gaussians(xp, observation)
        chosen = choose(xp, weights)
        mean, std = (sum(each * chosen[:, n : n + 1] for n, each in enumerate(parts)) for parts in (means, stds))
        moved = mean + xp.minimum(std * self.reach, self.longest[None, :]) * run(xp, self.step, observation)
        return xp.minimum(xp.maximum(moved, self.low[None, :]), self.high[None, :])

    def values(self, xp: Xp, observation: Array) -> Array:
        """What it compares, `(B, components)`."""
        return self.anchor.gaussians(xp, observation)[0]


def _generator(description: Mapping[str, Any], tensors: Tensors, samples: int) -> tuple[Callable[..., Array], int]:
    """What gives the samples of each observation, `(xp, (B, O), (B * samples, O)) -> (B * samples, A)`; and an action's size."""
    if description["kind"] == "squashed-gaussian":
        network = _network(description["network"], tensors.below("network"))
        low, high = (np.asarray(description[name], np.float32) for name in ("low", "high"))
        least, most = np.float32(description["log_std_min"]), np.float32(description["log_std_max"])
        noise, size = standard_normal(samples, len(low)), len(low)

        def of_gaussian(xp: Xp, observation: Array, repeated: Array) -> Array:
            found = run(xp, network, repeated)
            std = xp.exp(xp.minimum(xp.maximum(found[:, size:], least), most))
            return scale_to_bounds(xp.tanh(found[:, :size] + std * for_each_row(noise, observation)), low, high)

        return of_gaussian, size
    if description["kind"] != "bonus" or description["bonus"].get("name") != "cvae":
        name = description.get("bonus", {}).get("name", description["kind"])
        raise TetherError(f"tether.runtime cannot draw samples from {name!r}; it can from cvae and squashed-gaussian")
    spec = spec_from_json(description["spec"])
    generator = CVAE(description["bonus"], spec, tensors.below("state"))
    latents = np.clip(standard_normal(samples, generator.latents), -0.5, 0.5)

    def of_autoencoder(xp: Xp, observation: Array, repeated: Array) -> Array:
        return generator.decode(xp, repeated, for_each_row(latents, observation))

    return of_autoencoder, spec.action_size


READERS: dict[str, Callable[[Mapping[str, Any], Tensors], Actor]] = {
    "deterministic": _deterministic,
    "greedy": Greedy,
    "squashed-gaussian": _squashed_gaussian,
    "best-of-samples": BestOfSamples,
    "tethered": Tethered,
}


def _network(description: Mapping[str, Any], tensors: Tensors) -> Network:
    if description.get("kind") == "image-mlp":
        return read_network(tensors, activations=description["dense"]["activations"], shape=description["shape"])
    return read_network(tensors, activations=description["activations"])

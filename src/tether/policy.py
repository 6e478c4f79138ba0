"""A trained policy to ship: one file that carries everything acting needs, and a function from observations to actions."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from tether import storage
from tether.bonuses import FrozenBonus, frozen_template
from tether.config import part_from_json, part_to_json
from tether.errors import TetherError
from tether.networks import MLP, Actor, Greedy, make_actor, make_network
from tether.types import Spec, spec_from_json, spec_to_json

KIND = "tether policy"


@jax.jit
def act(actor: Callable[[jax.Array], jax.Array], observation: jax.Array) -> jax.Array:
    """The compiled policy, shared by all policies of one shape. Discrete actions are one-hot rows."""
    return actor(observation)


@dataclass(frozen=True)
class Policy:
    """`policy(observation)` gives the action, for one observation `(O,)` or a batch `(B, O)`; discrete actions are whole numbers.

    An image may keep its own shape instead of being flat.
    """

    actor: Actor | Greedy
    spec: Spec
    about: dict[str, Any] = field(default_factory=dict)  # where it comes from: dataset, run, step, env_id

    def __call__(self, observation: np.ndarray) -> Any:
        given = np.asarray(observation, np.float32)
        shape = self.spec.observation_shape
        flat = given.reshape(*given.shape[: -len(shape)], -1) if shape and given.shape[-len(shape) :] == shape else given
        if flat.ndim not in (1, 2) or flat.shape[-1] != self.spec.observation_size:
            size = self.spec.observation_size
            raise TetherError(f"the policy takes observations of shape ({size},) or (B, {size}); got {given.shape}")
        actions = np.asarray(act(self.actor, np.atleast_2d(flat)))
        if self.spec.discrete:
            actions = np.argmax(actions, axis=-1)
            return actions if flat.ndim == 2 else int(actions[0])
        return actions if flat.ndim == 2 else actions[0]

    def save(self, path: str | Path) -> None:
        network = self.actor.network
        layers = network if isinstance(network, MLP) else network.dense
        shape = {
            "hidden_sizes": [weight.shape[1] for weight in layers.weights[:-1]],
            "activations": layers.activations[:-1],
            "layer_norm": layers.norm is not None,
        }
        metadata = {
            "kind": KIND,
            "spec": json.dumps(spec_to_json(self.spec)),
            "shape": json.dumps(shape),
            "about": json.dumps(self.about),
        }
        penalty = self.actor.penalty if isinstance(self.actor, Greedy) else None
        if isinstance(penalty, FrozenBonus):
            metadata["bonus"] = json.dumps(part_to_json("bonus", penalty.bonus))
        storage.write_tensors(path, storage.flatten_tree(self.actor), metadata)


def load_policy(path: str | Path) -> Policy:
    """The policy that `Policy.save` wrote, or that of a run folder."""
    path = Path(path)
    if path.is_dir():
        path = path / "policy.safetensors"
    if not path.exists():
        raise TetherError(f"there is no policy file {path}")
    tensors, metadata = storage.read_tensors(path)
    if metadata.get("kind") != KIND:
        raise TetherError(f"{path} is not a policy (it may be a checkpoint); a run folder holds policy.safetensors")
    spec, shape = spec_from_json(json.loads(metadata["spec"])), json.loads(metadata["shape"])
    sizes, activations, layer_norm = tuple(shape["hidden_sizes"]), tuple(shape["activations"]), shape["layer_norm"]
    key = jax.random.key(0)
    if not spec.discrete:
        template = eqx.filter_eval_shape(make_actor, key, spec, sizes, activations, layer_norm)
        return Policy(storage.unflatten_tree(template, tensors), spec, json.loads(metadata["about"]))
    output = (*activations, "none")
    greedy: Any = Greedy(eqx.filter_eval_shape(make_network, key, spec, 0, sizes, spec.action_size, output, layer_norm))
    if "bonus" in metadata:
        bonus = part_from_json("bonus", json.loads(metadata["bonus"]))
        penalty = FrozenBonus(frozen_template(bonus, spec), bonus)
        greedy = Greedy(greedy.network, penalty, jax.ShapeDtypeStruct((), np.float32))  # type: ignore[arg-type]
    return Policy(storage.unflatten_tree(greedy, tensors, any_length=True), spec, json.loads(metadata["about"]))

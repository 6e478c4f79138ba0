"""A trained policy to ship: one file that carries everything acting needs, and a function from observations to actions."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from tether import storage
from tether.errors import TetherError
from tether.networks import Actor, make_actor
from tether.types import Spec, spec_from_json

KIND = "tether policy"


@jax.jit
def act(actor: Actor, observation: jax.Array) -> jax.Array:
    """The compiled policy, shared by all policies of one shape."""
    return actor(observation)


@dataclass(frozen=True)
class Policy:
    """`policy(observation)` gives the action, for one observation `(O,)` or a batch `(B, O)`."""

    actor: Actor
    spec: Spec
    about: dict[str, Any] = field(default_factory=dict)  # where it comes from: dataset, run, step, env_id

    def __call__(self, observation: np.ndarray) -> np.ndarray:
        observation = np.asarray(observation, np.float32)
        if observation.ndim not in (1, 2) or observation.shape[-1] != self.spec.observation_size:
            size = self.spec.observation_size
            raise TetherError(f"the policy takes observations of shape ({size},) or (B, {size}); got {observation.shape}")
        actions = np.asarray(act(self.actor, np.atleast_2d(observation)))
        return actions if observation.ndim == 2 else actions[0]

    def save(self, path: str | Path) -> None:
        network = self.actor.network
        shape = {
            "hidden_sizes": [weight.shape[1] for weight in network.weights[:-1]],
            "activations": network.activations[:-1],
            "layer_norm": network.norm is not None,
        }
        metadata = {
            "kind": KIND,
            "spec": json.dumps(asdict(self.spec)),
            "shape": json.dumps(shape),
            "about": json.dumps(self.about),
        }
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
    template = eqx.filter_eval_shape(
        make_actor, jax.random.key(0), spec, tuple(shape["hidden_sizes"]), tuple(shape["activations"]), shape["layer_norm"]
    )
    return Policy(storage.unflatten_tree(template, tensors), spec, json.loads(metadata["about"]))

"""A trained policy to ship: one file that carries everything acting needs, and a function from observations to actions."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from tether import storage
from tether.bonuses import BONUSES, frozen_template
from tether.errors import TetherError
from tether.networks import Layers, make_network
from tether.policies.base import act, describe, rebuilt
from tether.policies.deterministic import make_deterministic
from tether.policies.greedy import Greedy
from tether.policies.observations import as_rows
from tether.settings import from_named
from tether.types import Spec, spec_from_json, spec_to_json, spell_actions, spell_observations

KIND = "tether policy"
ABOUT = {"dataset": "learnt from", "policy": "policy", "step": "at step", "env_id": "for"}  # what is shown, and how


@dataclass(frozen=True)
class Policy:
    """`policy(observation)` gives the action, for one observation `(O,)` or a batch `(B, O)`; discrete actions are whole numbers.

    An image may keep its own shape instead of being flat. A policy of imported data (`tether data import`) knows its columns: a
    dict of them, a DataFrame or a structured array may have them in any order.
    """

    actor: Any  # one of `tether.policies.POLICIES`
    spec: Spec
    about: dict[str, Any] = field(default_factory=dict)  # where it comes from: dataset, run, step, env_id

    def __repr__(self) -> str:
        seen = ", ".join(self.columns) if self.columns else spell_observations(self.spec)
        facts = [f"{name} {self.about[key]}" for key, name in ABOUT.items() if self.about.get(key) is not None]
        learnt = f"\n  {', '.join(facts)}" if facts else ""
        return f"Policy ({type(self.actor).__name__}): {seen} -> {spell_actions(self.spec)}{learnt}"

    @property
    def columns(self) -> list[str] | None:
        """The names of what it sees, in order; None where they are not known."""
        return self.about.get("columns", {}).get("observation")

    def __call__(self, observation: Any) -> Any:
        flat = as_rows(observation, self.spec, self.columns)
        actions = np.asarray(act(self.actor, np.atleast_2d(flat)))
        if self.spec.discrete:
            actions = np.argmax(actions, axis=-1)
            return actions if flat.ndim == 2 else int(actions[0])
        return actions if flat.ndim == 2 else actions[0]

    def predict(
        self, observation: Any, state: None = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[Any, None]:
        """The action and no state, as users and tools of Stable-Baselines3 call a policy. It remembers nothing between calls."""
        if not deterministic:
            raise TetherError("the policy has no chance in it; call predict with deterministic=True")
        return self(observation), None

    def save(self, path: str | Path) -> None:
        metadata = {
            "kind": KIND,
            "spec": json.dumps(spec_to_json(self.spec)),
            "policy": json.dumps(describe(self.actor)),
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
    spec = spec_from_json(json.loads(metadata["spec"]))
    template = rebuilt(json.loads(metadata["policy"])) if "policy" in metadata else _before_descriptions(spec, metadata)
    return Policy(storage.unflatten_tree(template, tensors, any_length=True), spec, json.loads(metadata["about"]))


def _before_descriptions(spec: Spec, metadata: dict[str, str]) -> Any:
    """The template of a file from when policies were deterministic or greedy, and had one network of a few known shapes."""
    shape, key = json.loads(metadata["shape"]), jax.random.key(0)
    layers = Layers(tuple(shape["hidden_sizes"]), tuple(shape["activations"]), "first" if shape["layer_norm"] else "none")
    if not spec.discrete:
        return eqx.filter_eval_shape(make_deterministic, key, spec, layers)
    network = eqx.filter_eval_shape(make_network, key, spec, 0, layers, spec.action_size)
    if "bonus" not in metadata:
        return Greedy(network)
    penalty = frozen_template(from_named(json.loads(metadata["bonus"]), BONUSES, "bonus"), spec)
    return Greedy(network, penalty, jax.ShapeDtypeStruct((), np.float32))  # type: ignore[arg-type]

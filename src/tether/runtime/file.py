"""Policy files, and a policy that NumPy runs. docs/policy-file.md has the format.

Versions of the file: 1 had one network of a few known shapes; 2 has a description of any policy, and so has 3, which may also
have an `Experience`. 1 and 2 do not say their number.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tether import storage
from tether.errors import TetherError
from tether.runtime import acting
from tether.runtime.acting import THRESHOLD, Fallback
from tether.runtime.actors import Actor, read_actor
from tether.runtime.bonuses import Novelty, read_bonus
from tether.runtime.experience import Experience, belongs_to_experience, read_experience, spell
from tether.runtime.layers import Tensors
from tether.types import Spec, spec_from_json, spell_actions, spell_observations

KIND = "tether policy"
VERSION = 3
ABOUT = {"dataset": "learnt from", "policy": "policy", "step": "at step", "env_id": "for"}  # what is shown, and how


class PolicyFile(NamedTuple):
    """What is in a policy file, before anybody runs it."""

    spec: Spec
    description: dict[str, Any] | None  # of the actor; None in files of version 1
    tensors: dict[str, np.ndarray]  # of the actor
    about: dict[str, Any]
    experience: Experience | None
    metadata: dict[str, str]


def read_policy_file(path: str | Path) -> PolicyFile:
    """A policy file, or that of a run folder."""
    path = Path(path)
    if path.is_dir():
        path = path / "policy.safetensors"
    if not path.exists():
        raise TetherError(f"there is no policy file {path}")
    tensors, metadata = storage.read_tensors(path)
    if metadata.get("kind") != KIND:
        raise TetherError(f"{path} is not a policy (it may be a checkpoint); a run folder holds policy.safetensors")
    version = metadata.get("version", "2")
    if not version.isdecimal() or int(version) > VERSION:
        raise TetherError(
            f"{path} is a policy file of version {version}, this Tether reads those up to {VERSION}; upgrade Tether"
        )
    try:
        return PolicyFile(
            spec_from_json(json.loads(metadata["spec"])),
            json.loads(metadata["policy"]) if "policy" in metadata else None,
            {name: array for name, array in tensors.items() if not belongs_to_experience(name)},
            json.loads(metadata["about"]),
            read_experience(metadata, tensors),
            metadata,
        )
    except TetherError as error:
        raise TetherError(f"{path}: {error}") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise TetherError(f"{path} was edited or damaged: its header cannot be read ({type(error).__name__}: {error})") from error


@dataclass(frozen=True)
class Policy:
    """A policy that NumPy runs alone. It is asked exactly as `tether.Policy` is, which JAX runs."""

    actor: Actor
    spec: Spec
    about: dict[str, Any] = field(default_factory=dict)
    experience: Experience | None = None
    bonus: Novelty | None = None
    kind: str = ""

    def __repr__(self) -> str:
        return spell_policy(self, self.kind)

    @property
    def columns(self) -> list[str] | None:
        return acting.columns_of(self)

    def __call__(self, observation: Any) -> Any:
        return acting.action_for(self, observation)

    def act(
        self,
        observation: Any,
        with_familiarity: bool = False,
        *,
        fallback: Fallback | None = None,
        threshold: float = THRESHOLD,
    ) -> Any:
        """See `tether.Policy.act`."""
        return acting.answer(self, observation, with_familiarity, fallback, threshold)

    def familiarity(self, observation: Any, action: Any) -> Any:
        """See `tether.Policy.familiarity`."""
        return acting.familiarity_of(self, observation, action)

    def outside(self, observation: Any) -> list[str]:
        """See `tether.Policy.outside`."""
        return acting.outside(self, observation)

    def predict(
        self, observation: Any, state: None = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[Any, None]:
        """See `tether.Policy.predict`."""
        return acting.predicted(self, observation, deterministic)

    def rows_to_actions(self, rows: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):  # an exponential that overflows is infinite in JAX too, and says nothing
            return np.asarray(self.actor(np, np.asarray(rows, np.float32)))

    def novelty(self, rows: np.ndarray, actions: np.ndarray) -> np.ndarray:
        assert self.bonus is not None
        with np.errstate(all="ignore"):
            return np.asarray(self.bonus(np, np.asarray(rows, np.float32), np.asarray(actions, np.float32), None))


def load_policy(path: str | Path) -> Policy:
    """The policy of a file or a run folder, to be run by NumPy. What it cannot run, it says by name."""
    read = read_policy_file(path)
    try:
        description = read.description or _described(read.spec, read.metadata)
        bonus = None
        if read.experience is not None:
            bonus = read_bonus(read.experience.bonus, read.spec, Tensors(read.experience.state))
        actor = read_actor(description, Tensors(read.tensors))
        _try(actor, bonus, read.spec)
    except (TetherError, AttributeError, KeyError, TypeError, ValueError, IndexError) as error:
        raise TetherError(f"{path}: the policy cannot be run: {error}") from error
    return Policy(actor, read.spec, read.about, read.experience, bonus, str(description["kind"]))


def spell_policy(policy: acting.Asked, kind: str) -> str:
    names = acting.columns_of(policy)
    seen = ", ".join(names) if names else spell_observations(policy.spec)
    facts = [f"{name} {policy.about[key]}" for key, name in ABOUT.items() if policy.about.get(key) is not None]
    lines = [f"Policy ({kind}): {seen} -> {spell_actions(policy.spec)}", ", ".join(facts)]
    lines.append(spell(policy.experience) if policy.experience is not None else "")
    return "\n  ".join(line for line in lines if line)


def _try(actor: Actor, bonus: Novelty | None, spec: Spec) -> None:
    """One observation through all of it, so that a file whose arrays do not fit each other is refused when it is read."""
    row = np.zeros((1, spec.observation_size), np.float32)
    with np.errstate(all="ignore"):
        action = actor(np, row)
        if np.shape(action) != (1, spec.action_size):
            raise TetherError(f"it gives actions of shape {np.shape(action)[1:]}, and the file says {spec.action_size}")
        if bonus is not None and np.shape(bonus(np, row, action, None)) != (1,):
            raise TetherError("its bonus does not give a number for each pair")


def _described(spec: Spec, metadata: Mapping[str, str]) -> dict[str, Any]:
    """What a file of version 1 would say of its policy in version 2."""
    shape = json.loads(metadata["shape"])
    activations = [*shape["activations"], "none" if spec.discrete else "tanh"]
    network: dict[str, Any] = {"kind": "mlp", "activations": activations}
    if spec.observation_shape:
        network = {"kind": "image-mlp", "dense": network, "shape": list(spec.observation_shape)}
    if not spec.discrete:
        return {"kind": "deterministic", "network": network, "low": spec.action_low, "high": spec.action_high}
    if "bonus" not in metadata:
        return {"kind": "greedy", "network": network}
    penalty = {"kind": "bonus", "bonus": json.loads(metadata["bonus"]), "spec": json.loads(metadata["spec"])}
    return {"kind": "greedy", "network": network, "penalty": penalty, "weight": True}

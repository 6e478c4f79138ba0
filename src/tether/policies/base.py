"""What a policy is: an Equinox module `(B, O) -> (B, A)` with everything that acting needs inside, which describes itself.

The description is plain JSON: the kinds of the modules it is made of, their static fields, and the shapes of their arrays. So a
policy is rebuilt from its description and its arrays alone, without the agent that learnt it.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tether.bonuses import BONUSES, FrozenBonus, frozen_template
from tether.errors import TetherError, did_you_mean
from tether.networks import MLP, Critics, ImageMLP, LayerNorm, Scaler
from tether.settings import from_named, to_named
from tether.types import spec_from_json, spec_to_json

# Every module that may be part of a policy, by the name that descriptions have for it. `policies/__init__.py` adds its kinds.
PARTS: dict[str, type] = {"mlp": MLP, "image-mlp": ImageMLP, "layer-norm": LayerNorm, "scaler": Scaler, "critics": Critics}


def describe(part: Any) -> Any:
    """Plain JSON from which `rebuilt` makes a template of the same structure."""
    if part is None or isinstance(part, str | bool | int | float):
        return part
    if isinstance(part, jax.Array | np.ndarray):
        return {"kind": "array", "shape": list(part.shape), "dtype": str(part.dtype)}
    if isinstance(part, tuple):
        return [describe(item) for item in part]
    if isinstance(part, FrozenBonus):
        return {"kind": "bonus", "bonus": to_named(part.bonus, BONUSES), "spec": spec_to_json(part.spec)}
    name = next((name for name, kind in PARTS.items() if kind is type(part)), None)
    if name is None:
        raise TetherError(
            f"a {type(part).__name__} cannot be part of a policy that is saved; add it to tether.policies.base.PARTS"
        )
    return {"kind": name, **{field.name: describe(getattr(part, field.name)) for field in dataclasses.fields(part)}}


def rebuilt(description: Any) -> Any:
    """The module that was described, with shapes in place of its arrays."""
    if isinstance(description, list):
        return tuple(map(rebuilt, description))
    if not isinstance(description, dict):
        return description
    given = dict(description)
    kind = given.pop("kind")
    if kind == "array":
        return jax.ShapeDtypeStruct(tuple(given["shape"]), jnp.dtype(given["dtype"]))
    if kind == "bonus":
        return frozen_template(from_named(given["bonus"], BONUSES, "bonus"), spec_from_json(given["spec"]))
    if kind not in PARTS:
        raise TetherError(f"the policy has a part {kind!r}, which this Tether does not know{did_you_mean(str(kind), PARTS)}")
    return PARTS[kind](**{name: rebuilt(value) for name, value in given.items()})


@jax.jit
def act(policy: Any, observation: jax.Array) -> jax.Array:
    """The compiled policy, shared by all policies of one shape. Discrete actions are one-hot rows."""
    return policy(observation)


@jax.jit
def novelty_of(bonus: FrozenBonus, observation: jax.Array, action: jax.Array) -> jax.Array:
    """The bonus of each pair, `(B,)`, compiled. It has no chance in it (`bonuses.without_chance`), so any key will do."""
    return bonus(observation, action, jax.random.key(0))

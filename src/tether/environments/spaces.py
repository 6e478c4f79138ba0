"""Gymnasium spaces as vectors of numbers: what a policy sees of an observation that is made of parts.

The order is that of `gymnasium.spaces.flatten`, with the keys of every Dict in alphabetical order. Minari stores spaces so;
an environment may order its keys otherwise, so an environment is flattened through `in_key_order` too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from tether.errors import TetherError


def in_key_order(space: spaces.Space) -> spaces.Space:
    """The same space with the keys of every Dict in alphabetical order, which decides the order of the flat numbers."""
    if isinstance(space, spaces.Dict):
        return spaces.Dict([(key, in_key_order(space[key])) for key in sorted(space.spaces)])
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([in_key_order(part) for part in space.spaces])
    return space


def check_flattenable(space: spaces.Space, where: str) -> None:
    """Refuse, with the reason, a space that does not become a vector of fixed length which a small network can read."""
    for name, part in _parts(space):
        what = f"{where}: the observation {name} is" if name else f"{where}: the observation is"
        if isinstance(part, spaces.Box):
            if len(part.shape) > 1 and (part.dtype == np.uint8 or len(part.shape) > 2):
                raise TetherError(f"{what} an image of shape {part.shape}; Tether's networks read vectors, so encode it first")
        elif not isinstance(part, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
            raise TetherError(
                f"{what} a {type(part).__name__} space, which has no fixed number of entries; "
                "Tether reads Box, Discrete, MultiDiscrete, MultiBinary, and Dict and Tuple of them"
            )
    if not spaces.flatdim(space):
        raise TetherError(f"{where}: the observation has no numbers in it")


def flatten_rows(space: spaces.Space, values: Any) -> np.ndarray:
    """(N, K) float32: every row as `gymnasium.spaces.flatten` would have it, all rows at once.

    `values` has the structure of the space with N rows in each leaf. Discrete parts become one-hot.
    """
    if isinstance(space, spaces.Dict):
        return np.concatenate([flatten_rows(space[key], values[key]) for key in space.spaces], axis=1)
    if isinstance(space, spaces.Tuple):
        return np.concatenate([flatten_rows(part, value) for part, value in zip(space.spaces, values, strict=True)], axis=1)
    array = np.asarray(values)
    if isinstance(space, spaces.Discrete):
        return _one_hot(array.reshape(len(array), 1) - int(space.start), np.array([space.n]))
    if isinstance(space, spaces.MultiDiscrete):
        return _one_hot((array - space.start).reshape(len(array), -1), space.nvec.ravel())
    with np.errstate(over="ignore"):  # beyond float32 becomes Inf, which the reader reports
        return array.reshape(len(array), -1).astype(np.float32)


def spell_parts(space: spaces.Space) -> str:
    """`achieved_goal 2, desired_goal 2, observation 4`: the parts in their order and how many numbers each has; empty for one."""
    parts = list(_parts(space))
    if len(parts) == 1 and isinstance(parts[0][1], spaces.Box):
        return ""
    return ", ".join(f"{name or type(part).__name__} {spaces.flatdim(part)}" for name, part in parts)


def check_parts(space: spaces.Space, recorded: str, env_id: str) -> None:
    """Refuse an environment whose observations are not put together as the recorded ones (`spell_parts`) were.

    Their numbers may still be as many, in another order. A plain vector that a wrapper made of parts has them in the order of the
    environment; Tether's is alphabetical, which must then be the same.
    """
    here = spell_parts(in_key_order(space))
    if here == recorded or (not recorded and here == spell_parts(space)):
        return
    shown, was = here or "a plain vector", recorded or "a plain vector"
    raise TetherError(
        f"environment {env_id} has other observations ({shown}) than the data was recorded with ({was}): a wrapper was between "
        "them, which the id does not bring. Register the wrapped environment under an id of its own and give that as "
        "evaluation.env_id, or train without evaluating (evaluation.env_id=none)"
    )


def _parts(space: spaces.Space, name: str = "") -> list[tuple[str, spaces.Space]]:
    """The leaves and where they are: `pose/left`, `0`; a space that is itself a leaf has no name."""
    if isinstance(space, spaces.Dict):
        children = [(str(key), space[key]) for key in space.spaces]
    elif isinstance(space, spaces.Tuple):
        children = [(str(index), part) for index, part in enumerate(space.spaces)]
    else:
        return [(name, space)]
    return [leaf for key, part in children for leaf in _parts(part, f"{name}/{key}" if name else key)]


def _one_hot(choices: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """(N, sum of sizes) from (N, len(sizes)) choices counted from 0."""
    if ((choices < 0) | (choices >= sizes)).any():
        raise TetherError(f"a choice lies outside its space of {', '.join(map(str, sizes))} values")
    flat = np.zeros((len(choices), int(sizes.sum())), dtype=np.float32)
    offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    np.put_along_axis(flat, (choices + offsets).astype(np.int64), 1.0, axis=1)
    return flat

"""What may be asked over HTTP, and the answer: plain JSON in, plain JSON out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether.errors import TetherError
from tether.runtime import Policy
from tether.runtime.acting import as_shipped, check_finite, columns_of, units_of
from tether.runtime.observations import as_rows
from tether.serving.counters import Counters
from tether.types import spell_observations

FIELDS = ("observation",)


@dataclass(frozen=True)
class Limits:
    """What one request may ask for."""

    most_bytes: int = 1_000_000
    most_rows: int = 1_024
    threshold: float = 0.01  # familiarity below which a row counts as unfamiliar, and a fallback acts
    nearest: bool = False  # whether the nearest recorded action takes the place of the policy's there


@dataclass
class Ending:
    """Whether the server has been told to end."""

    began: bool = False


@dataclass(frozen=True)
class Answer:
    """One for each row; `one` is whether a single observation was asked, and not a batch."""

    one: bool
    rows: np.ndarray
    actions: Any  # as `Policy` gives them, of a batch
    familiarity: np.ndarray | None
    outside: list[list[str]]
    fallback: np.ndarray  # (B,) bool: the nearest recorded action was taken

    def plain(self) -> dict[str, Any]:
        """As it goes over the wire."""
        known = [None] * len(self.rows) if self.familiarity is None else [float(value) for value in self.familiarity]
        found = {
            "action": self.actions.tolist(),
            "familiarity": known,
            "outside": self.outside,
            "fallback": self.fallback.tolist(),
        }
        return {name: values[0] for name, values in found.items()} if self.one else found


def observation_of(body: bytes) -> Any:
    """What stands under `observation` in a JSON object; nothing else may be beside it."""
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise TetherError(f"the body is not JSON: {error}") from error
    if not isinstance(asked, dict) or "observation" not in asked:
        raise TetherError('the body must be a JSON object like {"observation": [0.1, 0.2]}')
    for name in asked:
        if name not in FIELDS:
            raise TetherError(f"the body has {name!r}; it takes observation and nothing else")
    return asked["observation"]


def checked_rows(policy: Policy, observation: Any, limits: Limits) -> tuple[np.ndarray, bool]:
    """`(B, O)` and whether it is a single observation."""
    if isinstance(observation, list) and len(observation) > max(limits.most_rows, policy.spec.observation_size):
        raise TetherError(f"the batch has {len(observation):,} rows; at most {limits.most_rows:,} are taken at once")
    rows = as_rows(observation, policy.spec, columns_of(policy))
    batch = np.atleast_2d(rows)
    if not 1 <= len(batch) <= limits.most_rows:
        raise TetherError(f"the batch has {len(batch):,} rows; from 1 to {limits.most_rows:,} are taken at once")
    return batch, rows.ndim == 1


def answered(policy: Policy, rows: np.ndarray, one: bool, limits: Limits) -> Answer:
    actions = policy.rows_to_actions(rows)
    known, fallback = policy.experience, np.zeros(len(rows), bool)
    if known is None:
        check_finite(policy, rows, actions)
        return Answer(one, rows, as_shipped(policy.spec, actions), None, [[] for _ in rows], fallback)
    familiarity = known.familiarity(policy.novelty(rows, actions))
    names = columns_of(policy) or [str(number) for number in range(rows.shape[1])]
    out = known.outside(rows)
    outside = [[names[column] for column in np.flatnonzero(row)] for row in out] if out.any() else [[] for _ in rows]
    if limits.nearest:
        fallback = familiarity < limits.threshold
        if fallback.any():
            actions = np.array(actions)
            actions[fallback] = known.nearest(rows[fallback])
    check_finite(policy, rows, actions)
    return Answer(one, rows, as_shipped(policy.spec, actions), familiarity, outside, fallback)


def count(counters: Counters, answer: Answer, threshold: float) -> None:
    counters.rows += len(answer.rows)
    counters.fallbacks += int(answer.fallback.sum())
    for names in answer.outside:
        counters.outside.update(names)
    if answer.familiarity is not None:
        counters.unfamiliar += int((answer.familiarity < threshold).sum())
        for value in answer.familiarity:
            counters.familiarity.add(float(value))


def request_schema(policy: Policy) -> dict[str, Any]:
    """The body of /act for the OpenAPI page: an array of numbers, or columns by name where the policy knows them."""
    number = {"type": "number"}
    row = {"type": "array", "items": number, "minItems": policy.spec.observation_size, "maxItems": policy.spec.observation_size}
    kinds: list[dict[str, Any]] = [row, {"type": "array", "items": row}]
    names, units = columns_of(policy), units_of(policy)
    if names:
        one_or_many = {"oneOf": [number, {"type": "array", "items": number}]}
        columns = {name: one_or_many | ({"description": units[name]} if name in units else {}) for name in names}
        kinds.append({"type": "object", "properties": columns, "required": names, "additionalProperties": False})
    observation = {"oneOf": kinds, "description": f"{spell_observations(policy.spec)}, one observation or a batch"}
    return {
        "type": "object",
        "required": ["observation"],
        "properties": {"observation": observation},
        "additionalProperties": False,
    }

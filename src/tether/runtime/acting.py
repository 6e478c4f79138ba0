"""How a policy is asked: the same for one that runs in JAX and one that runs in NumPy alone."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from tether.errors import TetherError
from tether.runtime.experience import Experience, spell_outside
from tether.runtime.observations import as_rows
from tether.types import Spec

THRESHOLD = 0.01  # familiarity below which a fallback takes over
KNOWN_FALLBACKS = ("nearest", "error")

# What acts where the policy has not been: the nearest recorded action, an exception, or the caller's own: (O,) -> an action.
Fallback: TypeAlias = Literal["nearest", "error"] | Callable[[np.ndarray], Any]


class Unfamiliar(TetherError):
    """The policy was asked about what is not like its data."""

    def __init__(self, message: str, familiarity: np.ndarray) -> None:
        super().__init__(message)
        self.familiarity = familiarity


class OutsideRange(UserWarning):
    """Some columns of an observation have values that the policy's data never had."""


class Asked(Protocol):
    """A policy, as far as asking it goes."""

    @property
    def spec(self) -> Spec: ...
    @property
    def about(self) -> Mapping[str, Any]: ...
    @property
    def experience(self) -> Experience | None: ...
    def rows_to_actions(self, rows: np.ndarray) -> np.ndarray:
        """`(B, O) -> (B, A)`; discrete actions are one-hot rows."""

    def novelty(self, rows: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """The bonus of each pair, `(B, O), (B, A) -> (B,)`."""


def columns_of(policy: Asked) -> list[str] | None:
    """The names of what it sees, in order; None where they are not known."""
    return policy.about.get("columns", {}).get("observation")


def units_of(policy: Asked) -> dict[str, str]:
    """The unit of each column that has one."""
    return policy.about.get("columns", {}).get("units", {})


def action_for(policy: Asked, observation: Any) -> Any:
    rows = as_rows(observation, policy.spec, columns_of(policy))
    batch = np.atleast_2d(rows)
    actions = policy.rows_to_actions(batch)
    check_finite(policy, batch, actions)
    return _as_asked(policy, actions, rows.ndim == 1)


def predicted(policy: Asked, observation: Any, deterministic: bool) -> tuple[Any, None]:
    """The action and no state, as Stable-Baselines3 has it."""
    if not deterministic:
        raise TetherError("the policy has no chance in it; call predict with deterministic=True")
    return action_for(policy, observation), None


def answer(policy: Asked, observation: Any, with_familiarity: bool, fallback: Fallback | None, threshold: float) -> Any:
    """The action, and how familiar the policy's own action is there if that is asked for."""
    if fallback is not None and not callable(fallback) and fallback not in KNOWN_FALLBACKS:
        raise TetherError(f"the fallback is {fallback!r}; it takes 'nearest', 'error', or a function of one observation")
    if not (isinstance(threshold, int | float) and math.isfinite(threshold) and 0.0 <= threshold <= 1.0):
        raise TetherError(f"the threshold is {threshold!r}; familiarity is between 0 and 1")
    rows = as_rows(observation, policy.spec, columns_of(policy))
    batch, one = np.atleast_2d(rows), rows.ndim == 1
    warn_of_range(policy, batch)
    actions = policy.rows_to_actions(batch)
    if not with_familiarity and fallback is None:
        check_finite(policy, batch, actions)
        return _as_asked(policy, actions, one)
    experience = experience_of(policy)
    if fallback is not None:
        experience.check_threshold(threshold)
    found = experience.familiarity(policy.novelty(batch, actions))
    if fallback is not None:
        actions = _replaced(policy, experience, batch, actions, found, fallback, threshold)
    check_finite(policy, batch, actions)
    action = _as_asked(policy, actions, one)
    return (action, float(found[0]) if one else found) if with_familiarity else action


def familiarity_of(policy: Asked, observation: Any, action: Any) -> Any:
    """Of given pairs: a number, or `(B,)`."""
    rows = as_rows(observation, policy.spec, columns_of(policy))
    batch, one = np.atleast_2d(rows), rows.ndim == 1
    pairs = as_actions(policy.spec, action, len(batch), one)
    found = experience_of(policy).familiarity(policy.novelty(batch, pairs))
    return float(found[0]) if one else found


def outside(policy: Asked, observation: Any) -> list[str]:
    """The columns of the observation, or of any row, that are outside their recorded range."""
    rows = np.atleast_2d(as_rows(observation, policy.spec, columns_of(policy)))
    names = columns_of(policy) or [str(number) for number in range(rows.shape[1])]
    return [names[column] for column in np.flatnonzero(experience_of(policy).outside(rows).any(axis=0))]


def experience_of(policy: Asked) -> Experience:
    if policy.experience is None:
        reason = policy.about.get("no_familiarity", "it was written by an earlier Tether, or without its bonus")
        raise TetherError(
            f"the policy cannot say how familiar an observation is: {reason}. `tether export RUN --out FILE` adds that from the "
            "run's own bonus, and with --bonus rnd-film from one that is fitted for it"
        )
    return policy.experience


def warn_of_range(policy: Asked, rows: np.ndarray) -> None:
    if policy.experience is None:
        return
    told = spell_outside(rows, policy.experience, columns_of(policy), units_of(policy))
    if told is not None:
        warnings.warn(OutsideRange(f"outside the recorded range: {told}"), stacklevel=4)


def check_finite(policy: Asked, rows: np.ndarray, actions: np.ndarray) -> None:
    """Numbers may be so large that a network overflows on them; what comes out then is no action."""
    if np.isfinite(actions).all():
        return
    row = int(np.argmin(np.isfinite(actions).all(axis=-1)))
    column, names = int(np.argmax(np.abs(rows[row]))), columns_of(policy)
    what = repr(names[column]) if names else f"number {column} (counted from 0)"
    where = f" in row {row} (counted from 0)" if len(rows) > 1 else ""
    raise TetherError(f"the observation has {rows[row, column]:.4g} as {what}{where}, too large for the policy to give an action")


def as_actions(spec: Spec, given: Any, number: int, one: bool) -> np.ndarray:
    """`(B, A)`; whole numbers become one-hot rows where actions are discrete."""
    try:
        actions = np.asarray(given, np.float32)
    except (TypeError, ValueError) as error:
        raise TetherError(f"the action is not made of numbers: {error}") from error
    actions = actions[None] if one else actions
    if spec.discrete:
        whole = actions.shape == (number,) and bool(np.all((actions == np.floor(actions)) & (actions >= 0)))
        if not whole or (actions >= spec.action_size).any():
            raise TetherError(
                f"an action is a whole number from 0 to {spec.action_size - 1}, one for each observation; got {given!r}"
            )
        return np.eye(spec.action_size, dtype=np.float32)[actions.astype(int)]
    if actions.shape != (number, spec.action_size) or not np.isfinite(actions).all():
        wanted = f"({spec.action_size},)" if one else f"({number}, {spec.action_size})"
        raise TetherError(f"the action must be {wanted} finite numbers; got {given!r}")
    return actions


def _replaced(
    policy: Asked,
    experience: Experience,
    rows: np.ndarray,
    actions: np.ndarray,
    familiarity: np.ndarray,
    fallback: Fallback,
    threshold: float,
) -> np.ndarray:
    """The actions, with others in the rows that are below the threshold."""
    strange = np.flatnonzero(familiarity < threshold)
    if len(strange) == 0:
        return actions
    if fallback == "error":
        told = spell_outside(rows[strange], experience, columns_of(policy), units_of(policy))
        where = "" if len(rows) == 1 else f" in row {strange[0]} (counted from 0), {len(strange):,} rows in all"
        raise Unfamiliar(
            f"the policy has not seen this: familiarity {familiarity[strange[0]]:.2g}{where}, below {threshold:g}"
            + (f"; outside the recorded range: {told}" if told else ""),
            familiarity,
        )
    replaced = np.array(actions)
    if callable(fallback):
        for row in strange:
            replaced[row] = as_actions(policy.spec, fallback(rows[row]), 1, one=True)[0]
    else:
        replaced[strange] = experience.nearest(rows[strange])
    return replaced


def as_shipped(spec: Spec, actions: np.ndarray) -> np.ndarray:
    """Rows of actions as users see them: whole numbers where they are choices."""
    return np.argmax(actions, axis=-1) if spec.discrete else actions


def _as_asked(policy: Asked, actions: np.ndarray, one: bool) -> Any:
    shipped = as_shipped(policy.spec, actions)
    if not one:
        return shipped
    return int(shipped[0]) if policy.spec.discrete else shipped[0]

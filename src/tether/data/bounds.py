"""The action bounds of a dataset: what a policy learnt from it may do."""

from __future__ import annotations

import numpy as np

from tether.environments.tasks import find_task
from tether.errors import TetherError
from tether.types import Spec

# Share of the measured range added on each side, so that a tanh policy can reach the largest recorded action.
MEASURED_MARGIN = 0.01


def action_bounds(actions: np.ndarray, env_id: str | None) -> tuple[np.ndarray, np.ndarray, str]:
    """Low (A,), high (A,) and how they were found.

    `environment`: of the task, whatever was recorded (Adroit's demonstrations leave its bounds).
    `assumed`: no environment is known and every action is within [-1, 1], the custom of D4RL.
    `measured`: no environment is known and actions leave [-1, 1]; each dimension's range, a little widened.
    """
    size = actions.shape[1]
    task = find_task(env_id)
    if task is not None and task.action_size == size:
        limit = np.full(size, task.action_limit, dtype=np.float32)
        return -limit, limit, "environment"
    registered = _registered_bounds(env_id)
    if registered is not None and registered[0].shape == (size,):
        return *registered, "environment"
    if np.abs(actions).max() <= 1.0:
        limit = np.ones(size, dtype=np.float32)
        return -limit, limit, "assumed"
    return *measured_bounds(actions), "measured"


def are_bounds(low: np.ndarray, high: np.ndarray) -> bool:
    """Whether a policy can use them: in float32 each below the other, and neither infinite nor the largest float there is."""
    with np.errstate(all="ignore"):
        low, high = np.asarray(low, np.float32), np.asarray(high, np.float32)
        return bool(np.isfinite([low, high, high - low]).all() and (low < high).all())


def measured_bounds(actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The range of each dimension, a little widened."""
    low, high = actions.min(axis=0), actions.max(axis=0)
    # A constant action still needs a range. Others get no more than their share: a log's unit may make every action tiny.
    margin = np.where(high > low, MEASURED_MARGIN * (high - low), np.maximum(1e-3, 1e-6 * np.abs(high)))
    return (low - margin).astype(np.float32), (high + margin).astype(np.float32)


def _registered_bounds(env_id: str | None) -> tuple[np.ndarray, np.ndarray] | None:
    """Bounds of a registered Gymnasium environment; None where it is unknown, cannot be made, is discrete or unbounded."""
    spec = registered_spec(env_id)
    if spec is None or spec.discrete:
        return None
    low, high = np.asarray(spec.action_low, np.float32), np.asarray(spec.action_high, np.float32)
    return (low, high) if are_bounds(low, high) else None


def registered_spec(env_id: str | None) -> Spec | None:
    """The spec of a registered Gymnasium environment; None where it is unknown or cannot be made."""
    if env_id is None:
        return None
    from tether.environments.making import make_environment  # here, as most datasets load without Gymnasium
    from tether.environments.vectors import environment_spec

    try:
        environment = make_environment(env_id)
    except TetherError:
        return None
    spec = environment_spec(environment)
    environment.close()
    return spec

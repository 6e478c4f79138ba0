"""Returns as D4RL's normalised scores."""

from __future__ import annotations

import numpy as np

from tether.environments.tasks import find_task


def normalised_score(returns: np.ndarray, env_id: str | None) -> np.ndarray | None:
    """Scores of `returns` in that environment: 0 is D4RL's random policy, 100 its expert. None without reference returns."""
    task = find_task(env_id)
    return None if task is None else task.normalised_score(returns)

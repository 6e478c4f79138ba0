"""The D4RL tasks of the paper: environments, horizons and reference returns.

The reference returns are D4RL's own (`d4rl/infos.py`). They are kept here because Minari has none for `mujoco/*` and wrong
ones for pen. A normalised score of 0 is D4RL's random policy, 100 its expert.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

D4RL = "D4RL reference scores (Fu et al., 2020)"


@dataclass(frozen=True)
class Task:
    """One control task with known reference returns."""

    name: str
    group: str  # locomotion or manipulation
    env_ids: tuple[str, ...]  # the first is where datasets that name no environment are evaluated
    observation_size: int
    action_size: int
    horizon: int  # steps after which an episode is cut, in D4RL
    score_0: float  # return that counts as 0
    score_100: float  # return that counts as 100
    action_limit: float = 1.0  # every action entry is within [-action_limit, action_limit]
    source: str = D4RL

    def normalised_score(self, returns: np.ndarray) -> np.ndarray:
        """`100 (return - score_0) / (score_100 - score_0)`, elementwise."""
        return 100.0 * (np.asarray(returns, dtype=np.float64) - self.score_0) / (self.score_100 - self.score_0)


# D4RL recorded locomotion with mujoco-py; v4 is its nearest living relative, v5 changed rewards at the edges of health.
TASKS = {
    task.name: task
    for task in (
        Task("halfcheetah", "locomotion", ("HalfCheetah-v4", "HalfCheetah-v5"), 17, 6, 1000, -280.178953, 12135.0),
        Task("walker2d", "locomotion", ("Walker2d-v4", "Walker2d-v5"), 17, 6, 1000, 1.629008, 4592.3),
        Task("hopper", "locomotion", ("Hopper-v4", "Hopper-v5"), 11, 3, 1000, -20.272305, 3234.3),
        Task("pen", "manipulation", ("AdroitHandPen-v1",), 45, 24, 100, 96.262799, 3076.8331017826877),
        Task("hammer", "manipulation", ("AdroitHandHammer-v1",), 46, 26, 200, -274.856578, 12794.134825156867),
        Task("door", "manipulation", ("AdroitHandDoor-v1",), 39, 28, 200, -56.512833, 2880.5693087298737),
        Task("relocate", "manipulation", ("AdroitHandRelocate-v1",), 39, 30, 200, -6.425911, 4233.877797728884),
    )
}


def find_task(name: str | None) -> Task | None:
    """The task of an environment id (`Hopper-v5`), a task (`hopper`) or a dataset (`hopper_medium-v2`, `pen-human-v1`)."""
    if name is None:
        return None
    for task in TASKS.values():
        if name in task.env_ids:
            return task
    return TASKS.get(re.split(r"[-_.]", name, maxsplit=1)[0])

"""The D4RL tasks of the paper: environments, horizons and reference returns.

The reference returns are D4RL's own (`d4rl/infos.py`). They are kept here because Minari has none for `mujoco/*` and wrong
ones for pen. A normalised score of 0 is D4RL's random policy, 100 its expert.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

D4RL = "D4RL reference scores (Fu et al., 2020)"

# D4RL registers an environment for each of its datasets, under the dataset's name; files may say that they are from it.
_D4RL_ID = re.compile(r"([a-z0-9]+)-(random|medium|medium-replay|medium-expert|full-replay|human|cloned|expert)-v[0-2]")


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


def find_task(env_id: str | None) -> Task | None:
    """The task of an environment id: `Hopper-v5`, or D4RL's own, `hopper-medium-v2`.

    No other id will do, however it begins: Meta-World's `door-open-v3` or a `door-v0` of the user's own is another task, whose
    returns and time limits have nothing to do with Adroit's door.
    """
    if env_id is None:
        return None
    for task in TASKS.values():
        if env_id in task.env_ids:
            return task
    match = _D4RL_ID.fullmatch(env_id)
    return TASKS.get(match[1]) if match else None


def task_of_dataset(name: str) -> Task | None:
    """The task that the name of a dataset begins with (`hopper_medium-v2`, `pen-human-v1`), or is.

    A name is a hint: whoever asks has to see whether the sizes of the data are the task's. Not for ids of environments.
    """
    return find_task(name) or TASKS.get(re.split(r"[-_.]", name, maxsplit=1)[0])

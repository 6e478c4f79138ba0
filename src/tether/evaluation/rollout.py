"""Episodes of a policy in the real environment.

Environments are stepped in lockstep by a plain loop, so that the policy is called once per step on one batch of fixed size
(a jitted policy compiles once), and no automatic reset has to be undone, as Gymnasium's vector environments would need.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple, TypeAlias

import gymnasium
import numpy as np

from tether.environments.making import action_limits, make_environment, time_limit, wrap_environment
from tether.errors import TetherError
from tether.types import Spec

MOST_STEPS = 100_000  # of an episode without a time limit, which may have no end at all

Act: TypeAlias = Callable[[np.ndarray], np.ndarray]  # observations (E, O) float32 -> actions (E, A)


class EpisodeResults(NamedTuple):
    returns: np.ndarray  # (E,) float64, unscaled
    lengths: np.ndarray  # (E,) int64
    starts: np.ndarray | None = None  # (E, O) float32, the first observations
    rewards: tuple[np.ndarray, ...] = ()  # of each episode's steps, float64, unscaled
    cut: np.ndarray | None = None  # (E,) bool: ended by a time limit, not by itself


class Evaluator:
    """Runs the same `episodes` starts for every policy it is given. The environments are made once and kept.

    Episode i starts from seed `seed + i`, whatever the number of episodes. (A policy's own rounding may depend on the size of
    its batch, and these simulations magnify it.) An environment itself in place of an id is there once, so its episodes come one
    after the other, and it is left open.
    """

    def __init__(
        self, env_id: str | gymnasium.Env, spec: Spec, episodes: int = 10, seed: int = 0, recorded_parts: str | None = None
    ) -> None:
        if episodes < 1:
            raise TetherError(f"episodes is {episodes}, expected at least 1")
        self.env_id = env_id if isinstance(env_id, str) else name_of(env_id)
        self.spec = spec
        self.seed = seed
        self._episodes, self._given = episodes, not isinstance(env_id, str)
        if isinstance(env_id, str):
            self._environments = [make_environment(env_id, spec, recorded_parts=recorded_parts) for _ in range(episodes)]
        else:
            self._environments = [wrap_environment(env_id, self.env_id, spec, recorded_parts)]

    @property
    def limits(self) -> tuple[np.ndarray, np.ndarray]:
        """The lowest and the highest action that the environment takes; what is beyond is clipped to them."""
        return action_limits(self._environments[0])

    def __call__(self, act: Act) -> EpisodeResults:
        """Run every episode to its own end."""
        if not self._given:
            return self._side_by_side(act, self.seed)
        found = [self._side_by_side(act, self.seed + episode) for episode in range(self._episodes)]
        returns, lengths, starts, cut = (np.concatenate([np.asarray(result[part]) for result in found]) for part in (0, 1, 2, 4))
        return EpisodeResults(returns, lengths, starts, tuple(result.rewards[0] for result in found), cut)

    def _side_by_side(self, act: Act, seed: int) -> EpisodeResults:
        """Rows of finished episodes keep their last observation; their actions are unused."""
        environments = self._environments
        low, high = action_limits(environments[0])
        observations = np.empty((len(environments), self.spec.observation_size), dtype=np.float32)
        for row, environment in enumerate(environments):
            observations[row], _ = environment.reset(seed=seed + row)
        starts = observations.copy()
        rewards: list[list[float]] = [[] for _ in environments]
        returns = np.zeros(len(environments))
        lengths = np.zeros(len(environments), dtype=np.int64)
        cut = np.zeros(len(environments), dtype=bool)
        running = list(range(len(environments)))
        while running:
            actions = np.asarray(act(observations))
            if not np.isfinite(actions[running]).all():
                raise TetherError(f"the policy gave a NaN or Inf action at step {lengths.max()} of an episode of {self.env_id}")
            actions = np.clip(actions, low, high)
            still_running = []
            for row in running:
                observations[row], reward, terminated, truncated, _ = environments[row].step(actions[row])
                if not math.isfinite(float(reward)):
                    step = f"step {lengths[row]} of the episode from seed {seed + row}"
                    raise TetherError(f"{self.env_id} gave a reward of {reward} at {step}")
                returns[row] += float(reward)
                rewards[row].append(float(reward))
                lengths[row] += 1
                cut[row] = truncated and not terminated
                if not (terminated or truncated):
                    check_length(int(lengths[row]), environments[row], self.env_id)
                    still_running.append(row)
            running = still_running
        return EpisodeResults(returns, lengths, starts, tuple(map(np.asarray, rewards)), cut)

    def close(self) -> None:
        for environment in () if self._given else self._environments:
            environment.close()


def check_length(steps: int, environment: gymnasium.Env, env_id: str) -> None:
    """Stop at an episode that has no end and no time limit, which would go on for ever."""
    if steps >= MOST_STEPS and time_limit(environment) is None:
        raise TetherError(
            f"an episode of {env_id} has no end after {steps:,} steps, and it has no time limit; register it with "
            "max_episode_steps, or wrap it in gymnasium.wrappers.TimeLimit"
        )


def name_of(environment: gymnasium.Env) -> str:
    return environment.spec.id if environment.spec is not None else type(environment.unwrapped).__name__


def discounted_returns(rewards: Sequence[np.ndarray], scaled: Callable[[np.ndarray], np.ndarray], discount: float) -> np.ndarray:
    """(E,) float64: what each episode was worth from its start, in rewards as the agent learns them.

    Where a time limit cut the episode, what would have come after it is missing: at most discount^length / (1 - discount).
    """
    return np.asarray([np.sum(discount ** np.arange(len(steps)) * scaled(steps), dtype=np.float64) for steps in rewards])


def visited_returns(results: EpisodeResults, scaled: Callable[[np.ndarray], np.ndarray], discount: float) -> np.ndarray:
    """(E,) float64: the same from each of an episode's steps on, in the mean over them: the objective where the policy has been.

    Starts are one state in many, and all of an agent's training is on the others. An episode that a time limit cut goes on with
    its mean reward, as in `tether.data.rewards.episode_worths`; else its last states would be worth nearly nothing.
    """
    assert results.cut is not None
    found = []
    for steps, cut in zip(results.rewards, results.cut, strict=True):
        rewards = np.asarray(scaled(steps), np.float64)
        after = rewards.mean() / (1.0 - discount) if cut else 0.0
        to_go = list(accumulate(rewards[::-1], lambda later, reward: reward + discount * later, initial=after))[1:]
        found.append(np.mean(to_go))
    return np.asarray(found)


def evaluate(
    act: Act,
    spec: Spec,
    env_id: str | gymnasium.Env,
    episodes: int = 10,
    seed: int = 0,
    recorded_parts: str | None = None,
) -> EpisodeResults:
    """Run a policy once; to run several in the same environments, keep an Evaluator."""
    evaluator = Evaluator(env_id, spec, episodes, seed, recorded_parts)
    try:
        return evaluator(act)
    finally:
        evaluator.close()

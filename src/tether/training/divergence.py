"""Whether the numbers of a training are still numbers."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from tether.agents import Agent
from tether.errors import TetherError
from tether.training.loop import Epoch
from tether.types import Batch

VALUES = ("critic/q", "critic/target", "actor/q")


# By how much a sound mean Q may err: of the most that rewards can add up to, which it is where all rewards are the same, and of
# the whole range, where the best step costs nothing and the most is 0.
MARGIN_OF_THE_MOST, MARGIN_OF_THE_RANGE = 0.02, 0.001


class Diverged(TetherError):
    """The critic left all bounds. The run's last checkpoint is from before."""


def all_finite(tree: Any) -> bool:
    """Whether no array of a pytree has a NaN or an infinity."""
    return all(bool(np.isfinite(leaf).all()) for leaf in jax.tree.leaves(tree))


def check_finite(epoch: Epoch, agent: Agent, value_limit: float, where: str, last_good: int | None = None) -> None:
    """Raise `Diverged` where a metric or a weight is not a number or a Q-value has passed the limit.

    `where` names the run. Of seeds that are trained together, those that have diverged are named.
    """
    keep = f"last good checkpoint: step {last_good}" if last_good else "there is no checkpoint yet"

    def at(broken: Any) -> str:
        seeds = np.flatnonzero(broken) if np.ndim(broken) else ()
        which = f", seed {', '.join(map(str, seeds))} of {np.size(broken)}" if len(seeds) else ""
        return f"at step {epoch.step} (run {where}{which})"

    for name, value in epoch.metrics.items():
        broken = ~np.isfinite(value)
        if np.any(broken):
            raise Diverged(f"{name} is {_first(value, broken)} {at(broken)}; {keep}")
    if not all_finite(epoch.state):  # the metrics of an update are from before its last step
        raise Diverged(f"a weight of the agent is NaN or infinite {at(_broken_seeds(epoch))}; {keep}")
    for name in VALUES:
        value = epoch.metrics.get(name, 0.0)
        broken = np.abs(value) > value_limit
        if np.any(broken):
            setting = agent.traits.holding_setting
            advice = f" A larger agent.{setting} holds it;" if setting else ""
            raise Diverged(
                f"{name} is {_first(value, broken):.3g} {at(broken)}, past training.value_limit {value_limit:g}: "
                f"the critic is exploding; {keep}.{advice} training.value_limit=inf lets it run on"
            )


class Overestimation:
    """Tells, once in a training, of a Q that no policy can earn: more than the largest reward of the data in every step.

    It must be rising too: a fresh critic may begin above, and where every step costs values begin at 0 and take long to fall,
    so that 0 is the least that is taken for the most. A low Q is no sign of anything: bonuses and conservative agents subtract.
    """

    def __init__(self, rows: Batch, agent: Agent) -> None:
        most, least = max(float(np.max(rows.reward)), 0.0), min(float(np.min(rows.reward)), 0.0)
        self._most = most / (1.0 - agent.discount)
        margin = MARGIN_OF_THE_MOST * most + MARGIN_OF_THE_RANGE * (most - least)
        self._limit = np.inf if agent.traits.raises_values else (most + margin) / (1.0 - agent.discount)
        self._bounding = "" if getattr(agent, "bound_values", True) else "agent.bound_values=true, "
        self._last: Any = np.inf
        self._said = False

    def __call__(self, epoch: Epoch) -> str | None:
        now = np.asarray(epoch.metrics.get("critic/q", -np.inf))
        beyond, self._last = now[(now > self._limit) & (now > self._last)], now
        if self._said or not beyond.size:
            return None
        self._said, value = True, float(beyond.max())
        return (
            f"critic/q is {value:.3g} at step {epoch.step:,}, but the rewards of the data, as they are scaled, add up to at most "
            f"{self._most:.3g}: the critic believes in what was never recorded, and the policy may follow it. "
            f"What may help: {self._bounding}a larger weight, which holds it closer to the data, a bonus that sees more "
            "(--bonus auto), or a smaller agent.discount"
        )


def _first(value: Any, broken: Any) -> float:
    return float(np.asarray(value)[broken].ravel()[0])


def _broken_seeds(epoch: Epoch) -> Any:
    """Which seeds have a broken weight, where metrics show that there are several; else that it is so."""
    seeds = max((np.shape(value) for value in epoch.metrics.values()), key=len, default=())
    if not seeds:
        return True
    leaves = [np.asarray(leaf).reshape(seeds[0], -1) for leaf in jax.tree.leaves(epoch.state)]
    return np.any([~np.isfinite(leaf).all(axis=1) for leaf in leaves], axis=0)

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


def check_finite(
    epoch: Epoch, agent: Agent, value_limit: float, where: str, last_good: int | None = None, has_bonus: bool = True
) -> None:
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
            holds = setting and (has_bonus or not setting.startswith("bonus_weight"))  # of no bonus, any weight is of zero
            advice = f" A larger agent.{setting} holds it;" if holds else ""
            raise Diverged(
                f"{name} is {_first(value, broken):.3g} {at(broken)}, past training.value_limit {value_limit:g}: "
                f"the critic is exploding; {keep}.{advice} training.value_limit=inf lets it run on"
            )


class ImpossibleValues:
    """Tells, once in a training, of a Q that no policy can have: beyond the best or the worst reward of the data in every step.

    It must be moving away too: a fresh critic may begin beyond, and where every step costs values begin at 0 and take long to
    fall, so that 0 is always among what is possible. A low Q is a sign only of agents that take nothing off: bonuses and
    conservative losses subtract, and so does a penalty on the rewards themselves.
    """

    def __init__(self, rows: Batch, agent: Agent, reward_penalty: float = 0.0) -> None:
        most, least = max(float(np.max(rows.reward)), 0.0), min(float(np.min(rows.reward)), 0.0)
        steps = 1.0 / (1.0 - agent.discount)  # what a reward of 1 in every step is worth
        self._most, self._least = most * steps, least * steps
        margin = MARGIN_OF_THE_RANGE * (most - least)
        self._highest = np.inf if agent.traits.raises_values else (most + MARGIN_OF_THE_MOST * most + margin) * steps
        nothing_off = agent.traits.values_of_rewards and not getattr(agent, "bonus_weight_critic", 0.0) and not reward_penalty
        self._lowest = (least + MARGIN_OF_THE_MOST * least - margin) * steps if nothing_off else -np.inf
        self._can_bound = not getattr(agent, "bound_values", True)
        self._last: Any = None
        self._said = False

    def __call__(self, epoch: Epoch) -> str | None:
        if "critic/q" not in epoch.metrics:
            return None
        now = np.asarray(epoch.metrics["critic/q"])
        before, self._last = now if self._last is None else self._last, now
        high = now[(now > self._highest) & (now > before)]
        low = now[(now < self._lowest) & (now < before)]
        if self._said or not (high.size or low.size):
            return None
        self._said = True
        return self._too_high(epoch.step, float(high.max())) if high.size else self._too_low(epoch.step, float(low.min()))

    def _too_high(self, step: int, value: float) -> str:
        bounding = "agent.bound_values=true, " if self._can_bound else ""
        return (
            f"critic/q is {value:.3g} at step {step:,}, but the rewards of the data, as they are scaled, add up to at most "
            f"{self._most:.3g}: the critic believes in what was never recorded, and the policy may follow it. "
            f"What may help: {bounding}a larger weight, which holds it closer to the data, a bonus that sees more "
            "(--bonus auto), or a smaller agent.discount"
        )

    def _too_low(self, step: int, value: float) -> str:
        who = "" if self._can_bound else " with an agent that has it"
        return (
            f"critic/q is {value:.3g} at step {step:,}, but the rewards of the data, as they are scaled, add up to at least "
            f"{self._least:.3g}: the critic is wrong about what was recorded, and may be about which action is better. "
            f"What may help: agent.bound_values=true{who}, or a smaller agent.discount"
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

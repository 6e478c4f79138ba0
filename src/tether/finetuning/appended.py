"""A new log behind the one that a run learnt from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tether.data import Dataset, load_dataset
from tether.data.provenance import check_columns, imported_columns, recorded_parts
from tether.data.rewards import RewardScale
from tether.data.transforms import concatenate
from tether.environments.tasks import find_task
from tether.errors import TetherError
from tether.types import Spec, spell_actions, spell_observations

Say = Callable[[str], None]


def append_log(old: Dataset, log: str, scale: RewardScale, say: Say = print) -> Dataset:
    """Both as one dataset, with the bounds of the old, which are those of the run's policy. What is done to the new is said.

    `scale` is the run's, of rewards, which stay unscaled here.
    """
    new = load_dataset(log)
    check_same_task(old, new)
    low, high = (np.asarray(bound, np.float32) for bound in (old.spec.action_low, old.spec.action_high))
    action = np.asarray(new.transitions.action)
    outside = int(np.sum((action < low) | (action > high)))
    if outside:
        say(
            f"{outside:,} of the {action.size:,} numbers in the actions of {new.name} are outside the bounds of the run's "
            f"policy, {spell_actions(old.spec)}, and are clipped to them"
        )
    new = replace(new, spec=old.spec, env_id=old.env_id)
    both = concatenate([old, new])  # which clips to the bounds that both have now
    say(f"{new.size:,} transitions of {new.name} are appended to {old.size:,} of {old.name}: {both.size:,} in all")
    _say_rewards(new, scale, say)
    return both


def check_same_task(old: Dataset, new: Dataset) -> None:
    """Refuse a log that is not of the same environment, or whose columns have other names."""
    if _kind(new.spec) != _kind(old.spec):
        raise TetherError(f"{new.name} has {_spelt(new.spec)}; the run's data has {_spelt(old.spec)}, and the two do not join")
    if old.env_id and new.env_id and not same_task(old.env_id, new.env_id):
        raise TetherError(f"{new.name} is of {new.env_id}, the run's data of {old.env_id}, which is another task")
    check_columns(new.name, imported_columns(new.provenance), old.name, imported_columns(old.provenance))
    parts = recorded_parts(old.provenance), recorded_parts(new.provenance)
    if None not in parts and parts[0] != parts[1]:
        spelt = [part or "a plain vector" for part in parts]
        raise TetherError(f"{new.name} has observations of {spelt[1]}, {old.name} of {spelt[0]}")


def same_task(one: str, other: str) -> bool:
    """Whether two environments are of one task: by D4RL's tasks, else by their names without the version."""
    tasks = find_task(one), find_task(other)
    return tasks[0] == tasks[1] and (tasks[0] is not None or one.partition("-v")[0] == other.partition("-v")[0])


def _say_rewards(new: Dataset, scale: RewardScale, say: Say) -> None:
    """Rewards keep the run's scale, in which its values are; those beyond its range have no bounds any more."""
    reward = np.asarray(new.transitions.reward)
    low, high = float(reward.min()), float(reward.max())
    before = f"which went from {scale.low:.4g} to {scale.high:.4g}"
    say(f"its rewards go from {low:.4g} to {high:.4g} and are scaled as the run's were, {before}")
    if low < scale.low or high > scale.high:
        scaled = scale.apply(np.asarray([low, high]))
        say(
            f"warning: some are beyond that range, so scaled they go from {scaled[0]:.3g} to {scaled[1]:.3g}; Q-values may follow"
        )


def _kind(spec: Spec) -> tuple[object, ...]:
    return spec.observation_size, spec.action_size, spec.discrete, spec.observation_shape


def _spelt(spec: Spec) -> str:
    return f"observations of {spell_observations(spec)} and actions of {spell_actions(spec)}"

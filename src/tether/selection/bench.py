"""The bench on which policies of one task are measured: a log to learn their values from, held-out episodes, a bonus that judges.

Every policy gets the same: the same rows, the same starts, the same bootstraps. So two of them can be compared start by start and
member by member, and much of what is wrong with one value is wrong with the other and drops out. What was measured is kept in the
cache, by all that decides it, so that an interrupted command goes on with the next policy.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tether import storage
from tether.agents.bc import BC
from tether.bonuses import Bonus, without_chance
from tether.bonuses.density import Density
from tether.data.dataset import Dataset
from tether.errors import TetherError
from tether.policies import Policy
from tether.progress import progress
from tether.selection.fqe import EPOCH_STEPS, Acts, Evaluated, FittedQ, actions_at, evaluate_policy
from tether.selection.measures import (
    Estimate,
    distance,
    outside_share,
    over_members_and_starts,
    recorded_worth,
    root_mean_square,
)
from tether.training.code import code_version
from tether.training.fit import FittedBonus, bonus_of_rows, cache_folder, fit_bonus, fit_name, steps_done
from tether.training.lesson import Lesson
from tether.types import Batch, Spec, spell_actions, spell_observations

FORMAT = 1  # of what is kept of a measurement, and of how all are made
MOST_PAIRS = 10_000  # held-out pairs that are looked at
MOST_STARTS = 2_000
CLONE_STEPS = 5_000
CLONE = BC(normalise_observations=True)

# It knows discrete actions too, tells actions apart well (docs/selection.md) and is fitted in half a minute.
JUDGE = Density(steps=5_000, hidden_sizes=(128, 128), learning_rate=1e-3)

OwnError = Callable[[Batch, np.ndarray], np.ndarray]  # rows, the policy's next actions (B, A) -> (B,), in the log's own rewards


@dataclass(frozen=True)
class Measured:
    """What is known of one policy. Plain numbers, so that it can be kept."""

    values: np.ndarray  # (members, starts) what it is worth from each held-out start on
    value_at_rows: float  # the mean over held-out observations, wherever in an episode
    outside: float | None  # share of its actions outside the data; None of whoever made the log
    novelty: float | None  # the mean bonus of its actions, in units of that of recorded ones
    distance: float | None
    td_error: float | None = None  # of its own critic
    fqe_error: float = 0.0  # the same of the Q-functions that evaluate it
    cut_off: float = 0.0  # share of targets beyond what rewards can add up to, at the end
    moved: float = 0.0  # by how much its value still moved over the last fifth, as a share

    @property
    def value(self) -> Estimate:
        return over_members_and_starts(self.values)

    def gain_over(self, other: Measured) -> Estimate:
        """Start by start and member by member."""
        return over_members_and_starts(self.values - other.values)


@dataclass(frozen=True)
class Bench:
    log: Dataset  # rewards as recorded
    held_out: Dataset
    fqe: FittedQ = field(default_factory=FittedQ)
    bonus: Bonus = JUDGE
    show: bool = True
    cache: Path | None = field(default_factory=lambda: storage.cache_root() / "selection")

    def __post_init__(self) -> None:
        check_task(self.held_out.name, self.held_out.spec, self.log.spec, self.log.name)
        # The bounds of a part are those of its own rows where no file or environment says better.
        object.__setattr__(self, "held_out", replace(self.held_out, spec=self.log.spec))

    @property
    def starts(self) -> np.ndarray:
        """Numbers of the held-out episodes whose starts are looked at."""
        return _some(len(self.held_out.episode_ends), MOST_STARTS)

    def judge(self) -> FittedBonus:
        """The bonus that judges, fitted to the log."""
        bonus, cache = self.bonus, cache_folder()
        start = steps_done(bonus, self.log, cache) if bonus.steps else 0
        title, wanted = "fitting the bonus that judges", self.show and start < bonus.steps
        with progress(title, max(bonus.steps, 1), start=start, enabled=wanted) as bar:
            return fit_bonus(bonus, self.log, cache, lambda step, _: bar.update(step))

    def recorded(self) -> Estimate:
        """What the held-out episodes themselves earned."""
        return over_members_and_starts(recorded_worth(self.held_out, self.fqe.discount, self.starts)[None])

    def log_itself(self) -> Measured:
        """Whoever made the log, by recorded actions alone: what it earned is known, so it shows how far values can be trusted."""
        title = "the log's own actions"
        return self._measured(["recorded"], lambda: self._measure(title, None, None))

    def policy(self, title: str, policy: Policy, own_error: OwnError | None = None) -> Measured:
        """`own_error` is the TD error of the critic that it was learnt with."""
        check_task(title, policy.spec, self.log.spec, self.log.name)
        arrays = sorted((name, _digest(array)) for name, array in storage.flatten_tree(policy.actor).items())
        facts = [arrays, str(jax.tree.structure(policy.actor)), own_error is not None]
        return self._measured(facts, lambda: self._measure(title, policy.rows_to_actions, own_error))

    def clone(self) -> Measured:
        """A clone of the log, fitted for some thousand steps; its observations scaled, since a log may have any units."""
        facts = ["clone", repr(CLONE), CLONE_STEPS, code_version(BC)]
        return self._measured(facts, lambda: self._measure("a clone", self._cloned().rows_to_actions, None))

    def _cloned(self) -> Policy:
        with (
            closing(Lesson(CLONE, self.log, None, 0, CLONE_STEPS)) as lesson,
            progress("cloning the log", CLONE_STEPS, enabled=self.show) as bar,
        ):
            for epoch in lesson.epochs(lesson.fresh(), 0, EPOCH_STEPS):
                bar.update(epoch.step)
            return lesson.policy(epoch.state, "target", epoch.step, self.log.env_id)

    def _measured(self, facts: list[Any], measure: Callable[[], Measured]) -> Measured:
        data = [[part.sha256, part.size] for part in (self.log, self.held_out)]
        decided = [facts, data, asdict(self.fqe), fit_name(self.bonus, self.log), code_version(FittedQ), MOST_PAIRS, FORMAT]
        name = hashlib.sha256(json.dumps(decided, sort_keys=True).encode()).hexdigest()[:32]
        place = None if self.cache is None else self.cache / f"{name}.json"
        if place is not None and place.exists():
            return _read(place)
        found = measure()
        if place is not None:
            storage.write_json(place, asdict(found))
        return found

    def _measure(self, title: str, acts: Acts | None, own_error: OwnError | None) -> Measured:
        judge = None if acts is None else self.judge()
        with progress(f"evaluating {title}", self.fqe.steps, enabled=self.show) as bar:
            found = evaluate_policy(self.fqe, self.log, acts, lambda step, metrics: bar.update(step, value=metrics["fqe/value"]))
        numbers = _some(self.held_out.size, MOST_PAIRS)
        rows = Batch(*(np.asarray(column[numbers], np.float32) for column in self.held_out.transitions))
        begins = self.held_out.episode_starts[self.starts]
        first, recorded = (np.asarray(column[begins], np.float32) for column in self.held_out.transitions[:2])
        if acts is None or judge is None:
            values, at_rows = found.value(first, recorded), found.value(rows.observation, rows.action)
            return Measured(values, float(at_rows.mean()), None, None, None, **_sound(found))
        taken, next_taken = actions_at(acts, rows.observation), actions_at(acts, rows.next_observation)
        after = found.value(rows.next_observation, next_taken).mean(axis=0)
        error = found.value(rows.observation, rows.action).mean(axis=0) - (
            rows.reward + self.fqe.discount * (1.0 - rows.terminated) * after
        )
        bonus, bonus_recorded = (self._bonus(judge, rows.observation, action) for action in (taken, rows.action))
        return Measured(
            values=found.value(first, actions_at(acts, first)),
            value_at_rows=float(found.value(rows.observation, taken).mean()),
            outside=outside_share(bonus, bonus_recorded),
            novelty=float(np.mean(bonus) / max(float(np.mean(bonus_recorded)), 1e-12)),
            distance=distance(taken, rows.action, self.held_out),
            td_error=None if own_error is None else root_mean_square(own_error(rows, next_taken)),
            fqe_error=root_mean_square(error),
            **_sound(found),
        )

    def _bonus(self, judge: FittedBonus, observation: np.ndarray, action: np.ndarray) -> np.ndarray:
        return bonus_of_rows(without_chance(judge.bonus), judge.state, observation, action, jax.random.key(0))


def check_task(name: str, spec: Spec, wanted: Spec, other: str) -> None:
    """Refuse what is of another task than the other."""
    if _task(spec) != _task(wanted):
        theirs, ours = (f"{spell_observations(each)} -> {spell_actions(each)}" for each in (spec, wanted))
        raise TetherError(f"{name} is of another task than {other}: it has {theirs}, and {other} {ours}")


def _task(spec: Spec) -> tuple[object, ...]:
    return spec.observation_size, spec.action_size, spec.discrete, spec.observation_shape


def _sound(found: Evaluated) -> dict[str, float]:
    """What speaks against the evaluation itself."""
    means = [record["fqe/value"] for record in found.history]
    fifth = max(len(means) // 5, 1)
    moved = abs(means[-1] - means[-1 - fifth]) / max(abs(means[-1]), 1e-12) if len(means) > fifth else 1.0
    return {"cut_off": float(found.history[-1]["fqe/cut_off"]), "moved": float(moved)}


def _read(place: Path) -> Measured:
    try:
        plain = storage.read_json(place)
        return Measured(**plain | {"values": np.asarray(plain["values"], float)})
    except (TetherError, TypeError, KeyError) as error:
        raise TetherError(f"{place} is not a measurement ({error}); delete it and it is made anew") from error


def _digest(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


def _some(size: int, most: int) -> np.ndarray:
    """At most so many numbers below `size`, ascending, always the same."""
    return np.arange(size) if size <= most else np.sort(np.random.default_rng(0).choice(size, most, replace=False))

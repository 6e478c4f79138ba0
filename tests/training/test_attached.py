"""What a run attaches to its loop."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tether.data.rewards import RewardScale
from tether.evaluation.rollout import EpisodeResults, Evaluator
from tether.runs.metrics import MetricsLog
from tether.training.attached import Evaluations, digest
from tether.training.loop import Epoch
from tether.types import Spec

SPEC = Spec(observation_size=4, action_low=(-3.0,), action_high=(3.0,))


class Pushing(NamedTuple):
    force: jax.Array

    def __call__(self, observation: jax.Array) -> jax.Array:
        return jnp.broadcast_to(self.force, (observation.shape[0], 1))


class PushingBack(NamedTuple):
    force: jax.Array

    def __call__(self, observation: jax.Array) -> jax.Array:
        return -jnp.broadcast_to(self.force, (observation.shape[0], 1))


@dataclass(frozen=True)
class OfItsState:
    """An agent whose state is its policies."""

    discount: float = 0.9

    def policies(self, state: Any, penalty: Any) -> Any:
        return state

    def value(self, state: Any, observation: jax.Array, action: jax.Array) -> None:
        return None


def test_a_policy_that_was_just_evaluated_is_not_again(tmp_path: Path):
    episodes, made = Evaluator("InvertedPendulum-v5", SPEC, episodes=2), []

    def evaluator(act: Any) -> EpisodeResults:
        made.append(episodes(act))
        return made[-1]

    log, bar = MetricsLog(tmp_path, 0, None), SimpleNamespace(update=lambda step, **fields: None)
    lesson = SimpleNamespace(agent=OfItsState(), penalty=None, steps=100)
    evaluations = Evaluations(lesson, evaluator, log, bar, 1, RewardScale(0.0, 1.0), "ema")

    def evaluated(step: int, online: Any, ema: Any) -> int:
        before = len(made)
        evaluations(Epoch(step, {"online": online, "ema": ema}, {}))
        return len(made) - before

    def pushing(force: float) -> Pushing:
        return Pushing(jnp.array([force]))  # numbers of its own, which must be compared

    assert evaluated(1, pushing(0.0), pushing(0.0)) == 1
    assert evaluated(2, pushing(0.0), pushing(0.0)) == 0
    assert log.evaluations[1] == log.evaluations[2]
    assert evaluated(3, pushing(2.0), pushing(0.0)) == 1
    assert log.evaluations[3]["ema"] == log.evaluations[1]["ema"]
    assert log.evaluations[3]["online"]["lengths"] == made[-1].lengths.tolist() != log.evaluations[1]["online"]["lengths"]
    assert evaluated(4, pushing(1.0), pushing(1.0)) == 1
    assert evaluated(5, pushing(0.0), pushing(1.0)) == 1  # that of two evaluations ago is forgotten
    log.close()


def test_policies_with_the_same_numbers_may_differ_in_kind():
    force = jnp.array([1.0])
    assert digest(Pushing(force)) == digest(Pushing(jnp.array([1.0])))
    assert digest(Pushing(force)) != digest(PushingBack(force))
    assert digest(Pushing(force)) != digest(Pushing(jnp.array([[1.0]])))

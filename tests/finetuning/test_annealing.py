"""Weights that fall, worked by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import SPEC, bandit, bowl_state, constant_reward, initial_state, penalty, small

from tether.agents import AGENTS, AgentTraits, critic_steps
from tether.finetuning.annealing import Annealed, AnnealedState, share_left
from tether.training.loop import epoch, learn, run_keys
from tether.training.sources import Rows
from tether.types import Batch, Problem, row_shapes


@pytest.mark.parametrize(("step", "share"), [(100, 1.0), (150, 0.75), (200, 0.5), (300, 0.0), (301, 0.0), (10_000, 0.0)])
def test_the_share_falls_in_a_straight_line(step: int, share: float):
    assert float(share_left(jnp.asarray(step), start=100, length=200)) == share


def test_without_a_length_there_is_nothing_left_at_once():
    assert float(share_left(jnp.asarray(100), start=100, length=0)) == 0.0


@dataclass(frozen=True)
class Adder:
    """An agent whose state is the sum of the weights that its updates saw."""

    traits: ClassVar[AgentTraits] = AgentTraits(annealed=("weight",))
    batch_shape: ClassVar[tuple[int, ...]] = (2, 1)

    weight: float = 8.0
    other: float = 3.0

    def update(self, state: Any, batches: Any, key: Any, given: Any) -> tuple[Any, dict[str, Any]]:
        return state + self.weight, {"other": jnp.asarray(self.other)}


def test_one_compiled_program_sees_every_weight_of_the_schedule():
    """Updates of two steps from 100 on, over 8 steps: 8 times 1, 3/4, 1/2, 1/4, 0 and 0."""
    learner = Annealed(Adder(), start=100, length=8)  # type: ignore[arg-type]
    state: Any = AnnealedState(jnp.zeros(()), jnp.asarray(100, jnp.int32))
    before, sums = epoch._cache_size(), []
    for turn in range(2):
        at = 100 + 6 * turn
        rows, key = Rows(bandit()), run_keys(0)[1]
        (done,) = learn(learner, state, rows, key, start=at, end=at + 6, epoch_steps=6, stride=2, given=(None,))
        state = done.state
        sums.append((float(state.agent), float(done.metrics["online/bonus_left"]), float(done.metrics["other"])))
    assert sums == [(8 + 6 + 4, 0.75, 3.0), (8 + 6 + 4 + 2, pytest.approx(0.25 / 3), 3.0)]
    assert epoch._cache_size() == before + 1


def whole_and_half(kind: type) -> tuple[Any, Any]:
    return (small(kind, bonus_weight_actor=weight, bonus_weight_critic=weight / 5) for weight in (5.0, 2.5))  # type: ignore[return-value]


@pytest.mark.parametrize("name", ["td3", "td3-bc", "sac"])
def test_those_that_go_on_online_take_weights_that_are_traced(name: str):
    """Without compiling anything: an agent that asks whether its weight is above 0 would fail here."""
    agent = small(AGENTS[name])
    assert agent.traits.annealed == ("bonus_weight_actor", "bonus_weight_critic")
    batches = Batch(*(jax.ShapeDtypeStruct((*agent.batch_shape, *shape), jnp.float32) for shape in row_shapes(SPEC)))

    def update(key: Any, batches: Any) -> Any:
        key_init, key_update = jax.random.split(key)
        learner = Annealed(agent, start=0, length=20)
        return learner.update(learner.init(key_init, Problem(SPEC, constant_reward())), batches, key_update, penalty())

    state, metrics = jax.eval_shape(update, jax.random.key(0), batches)
    assert state.step.dtype == jnp.int32
    assert metrics["online/bonus_left"].shape == ()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["td3", "td3-bc", "sac"])
def test_an_agent_half_way_is_one_with_half_the_weights(name: str):
    """With a bowl as the bonus the weights show in the very first update."""
    whole, half = whole_and_half(AGENTS[name])
    rows, bowl, key = Rows(bandit()), penalty(bowl_state(steepness=1.0)), run_keys(0)[1]
    stride = critic_steps(half)
    steps: dict[str, int] = {"start": 10, "end": 10 + stride, "epoch_steps": stride, "stride": stride}
    (plain,) = learn(half, initial_state(half), rows, key, given=(bowl,), **steps)
    state = AnnealedState(initial_state(whole), jnp.asarray(10, jnp.int32))
    (annealed,) = learn(Annealed(whole, start=0, length=20), state, rows, key, given=(bowl,), **steps)
    for metric in ("actor/loss", "critic/target", "actor/bonus"):  # the bonus itself is told unweighted, as ever
        np.testing.assert_allclose(annealed.metrics[metric], plain.metrics[metric], rtol=1e-6)

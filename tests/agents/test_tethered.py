"""The tethered policy and its loss by hand: one observation, one action in [-1, 3], so that half the range is 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import ROWS, bandit, initial_state, penalty, small, train

import tether
from tether import Tethered as Agent
from tether.agents import with_known
from tether.agents.tethered import actor_loss
from tether.bonuses import ANCHOR, Anchor, BonusTraits, FrozenBonus
from tether.networks import MLP, Critics
from tether.policies import Tethered, act
from tether.training.lesson import Lesson
from tether.training.loop import epoch
from tether.types import Batch, Spec

SPEC = Spec(1, (-1.0,), (3.0,))
COLUMN = jnp.array([[1.0], [7.0]])
BATCH = Batch(COLUMN, jnp.array([[1.0], [3.0]]), jnp.zeros(2), COLUMN, jnp.zeros(2))
# Q_1 = s - 3 a and Q_2 = s - a: their mean is s - 2 a.
CRITICS = Critics(tuple(MLP((jnp.array([[1.0], [slope]]),), (jnp.zeros(1),), None, ("none",)) for slope in (-3.0, -1.0)))


@dataclass(frozen=True)
class Fixed:
    """Everywhere the same anchor: 1, give or take what its state says."""

    traits: ClassVar[BonusTraits] = BonusTraits(frozenset({ANCHOR}))

    def anchor(self, state: jax.Array, observation: jax.Array) -> Anchor:
        return Anchor(jnp.ones_like(observation), jnp.full_like(observation, state))


def anchored(std: float) -> FrozenBonus:
    return FrozenBonus(Fixed(), jnp.asarray(std), SPEC)


def always(share: float) -> MLP:
    """A step that takes this share of what it may."""
    return MLP((jnp.zeros((1, 1)),), (jnp.array([share]),), None, ("none",))


@pytest.mark.parametrize(
    ("std", "reach", "longest", "share", "expected"),
    [
        (0.2, 1.0, 0.3, 0.0, 1.0),  # at rest: the anchor
        (0.2, 1.0, 0.3, 1.0, 1.2),  # a standard deviation
        (0.2, 2.0, 0.3, -0.5, 0.8),  # half of two
        (1.0, 1.0, 0.3, 1.0, 1.6),  # 0.3 half ranges of 2 are less than a standard deviation
        (1.0, 9.0, 9.0, 1.0, 3.0),  # the bound
    ],
)
def test_it_acts_at_the_anchor_and_a_bounded_step_from_there(std, reach, longest, share, expected):
    policy = Tethered(always(share), anchored(std), reach, longest)
    np.testing.assert_allclose(policy(COLUMN), np.full((2, 1), expected), rtol=1e-6)


def loss_of(agent: Agent, share: float) -> tuple[float, dict[str, jax.Array]]:
    loss, metrics = actor_loss(agent, anchored(0.5), always(share), CRITICS, BATCH, jax.random.key(0))
    return float(loss), metrics


def test_the_loss_by_hand():
    # Half a share of 0.5 from 1 is 1.25; Q = (1 - 2.5, 7 - 2.5) = (-1.5, 4.5), mean 1.5, mean size 3; the step costs 0.5^2 / 2.
    agent = Agent(reach=1.0, longest=1.0, bonus_weight_actor=0.4, actor_noise=0.0)
    loss, metrics = loss_of(agent, 0.5)
    assert loss == pytest.approx(-(1.5 / 3.0 - 0.4 * 0.125))
    assert float(metrics["actor/bonus"]) == pytest.approx(0.125)
    assert float(metrics["actor/data_distance"]) == pytest.approx((0.25**2 + 1.75**2) / 2.0)


def test_the_step_is_charged_in_standard_deviations():
    assert float(loss_of(Agent(reach=2.0, longest=1.0, actor_noise=0.0), 0.5)[1]["actor/bonus"]) == pytest.approx(0.5)


def test_bounded_values_are_those_of_the_log():
    rows = bandit()
    worst = float(jnp.min(rows.reward))  # no reward is above 0, and 0.995 for ever is 200 times
    possible = initial_state(small(Agent, discount=0.995), rows=rows).possible
    np.testing.assert_allclose(possible, [200.0 * worst, float(jnp.max(rows.reward))], rtol=1e-4)
    assert initial_state(small(Agent, bound_values=False), rows=rows).possible is None


def test_noise_spreads_where_q_is_seen_and_costs_nothing():
    agent = Agent(reach=1.0, longest=1.0, bonus_weight_actor=0.4, actor_noise=1.0)
    still = Agent(reach=1.0, longest=1.0, bonus_weight_actor=0.4, actor_noise=0.0)
    (_, noisy), (_, clean) = loss_of(agent, 0.5), loss_of(still, 0.5)
    assert float(noisy["actor/q"]) != pytest.approx(float(clean["actor/q"]))
    for told in ("actor/bonus", "actor/data_distance"):
        assert float(noisy[told]) == pytest.approx(float(clean[told]))


def test_it_starts_at_the_anchor_and_stays_there_while_it_warms_up():
    agent, observation = small(Agent, warm_up_steps=10**6), jax.random.normal(jax.random.key(0), (32, 2))
    anchor = penalty().anchor(observation).mean
    first = initial_state(agent)
    trained, _ = train(agent, bandit())
    for state in (first, trained):
        for policy in agent.policies(state, penalty()).values():
            np.testing.assert_allclose(act(policy, observation), anchor, atol=1e-6)


def test_it_leaves_the_anchor_with_the_first_update_after_the_warm_up():
    agent = small(Agent, actor_period=2, warm_up_steps=6)  # the first three updates
    state, rows = initial_state(agent), jax.tree.map(lambda column: column.reshape(2, -1, *column.shape[1:]), bandit())
    moved = []
    for number in range(5):
        state, metrics = agent.update(state, rows, jax.random.key(number), penalty())
        moved.append(bool(jnp.any(state.actor.weights[-1])))
        assert float(metrics["actor/q"]) != 0.0  # which is told from the start
    assert moved == [False, False, False, True, True]


def test_it_goes_as_far_as_q_pays_for_and_no_farther_than_it_may():
    # The bandit's best is (0.5, 1); the anchor is about (0, 2), and it may move by 0.3 half ranges: (0.3, 0.6).
    agent = small(Agent, bonus_weight_actor=0.0, warm_up_steps=0, longest=0.3, reach=9.0)
    state, _ = train(agent, bandit(), epochs=8)
    observation = jax.random.normal(jax.random.key(0), (64, 2))
    step = act(agent.policies(state, penalty())["online"], observation) - penalty().anchor(observation).mean
    np.testing.assert_allclose(np.mean(step, axis=0), [0.3, -0.6], rtol=0.1)


def test_anchors_of_all_rows_are_computed_once():
    agent, rows = small(Agent, bonus_weight_actor=0.1), bandit()._replace(terminated=jnp.zeros(ROWS))
    known = with_known(agent, rows, penalty())
    assert known._fields[5:] == ("anchor_mean", "anchor_std", "next_anchor_mean", "next_anchor_std")
    np.testing.assert_allclose(known.next_anchor_mean, penalty().anchor(rows.next_observation).mean, rtol=1e-5)
    # What is learnt with them is what is learnt without; and from others it is not.
    numbers = jax.random.randint(jax.random.key(1), (20, *agent.batch_shape), 0, len(rows.reward))

    def learnt(given: Batch) -> list[np.ndarray]:
        state = epoch(agent, initial_state(agent), given, numbers, jax.random.key(2), jnp.asarray(0), 1, (penalty(),))[0]
        return [np.asarray(leaf) for leaf in jax.tree.leaves((state.actor, state.critics))]

    without = learnt(rows)
    for one, other in zip(learnt(known), without, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)
    for column in ("anchor_mean", "next_anchor_mean"):
        moved = learnt(known._replace(**{column: getattr(known, column) + 0.5}))
        assert any(np.abs(one - other).max() > 1e-3 for one, other in zip(moved, without, strict=True))


def test_a_log_in_memory_is_learnt_from_with_its_anchors():
    rows = bandit()
    columns = dict(zip(("observations", "actions", "rewards", "next_observations", "terminated"), rows, strict=True))
    dataset = tether.dataset(**{name: np.asarray(column) for name, column in columns.items()})
    bonus = tether.fit(small(tether.Density, steps=1, held_out_share=0.0), dataset, cache=False)
    lesson = Lesson(small(Agent), dataset, bonus, seed=0, steps=2)
    taken, _ = lesson._rows.draw((2, 32), jax.random.key(0), 0, 2, 1)
    assert taken._fields[5:] == ("anchor_mean", "anchor_std", "next_anchor_mean", "next_anchor_std")

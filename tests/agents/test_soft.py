"""SAC, CQL and BRAC by hand: one observation, one action in [-1, 1], linear networks with weights set by hand."""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tether import CQL, SAC, BRACp, BRACv
from tether.agents import brac, cql, sac
from tether.agents.soft import Drawn
from tether.networks import MLP, Critics
from tether.policies import SquashedGaussian
from tether.types import Batch, Problem, Spec

KEY = jax.random.key(0)
COLUMN = jnp.array([[1.0], [7.0]])
BATCH = Batch(COLUMN, jnp.zeros((2, 1)), jnp.zeros(2), COLUMN, jnp.zeros(2))
DRAWN = Drawn(jnp.array([[0.5], [-0.5]]), jnp.array([-1.0, -3.0]))


POLICY = SquashedGaussian(MLP((jnp.zeros((1, 2)),), (jnp.zeros(2),), None, ("none",)), (-1.0,), (1.0,))  # tanh of a standard one


class Behaviour:
    """A penalty of 10 a^2 whose log-probability is s."""

    def __call__(self, observation: jax.Array, action: jax.Array, key: jax.Array) -> jax.Array:
        return 10.0 * jnp.square(action[:, 0])

    def log_probability(self, observation: jax.Array, action: jax.Array) -> jax.Array:
        return observation[:, 0]


def test_what_sac_pays_by_hand():
    agent, temperature = SAC(bonus_weight_actor=0.5, bonus_weight_critic=2.0), jnp.asarray(0.25)
    # The bonus is 2.5 for both. Next: 0.25 log pi + 2 * 2.5; here: 0.25 log pi + 0.5 * 2.5.
    cost, told = sac.next_entropy_and_bonus(agent, Behaviour(), temperature, POLICY, BATCH, DRAWN, KEY)
    np.testing.assert_allclose(cost, [4.75, 4.25])
    assert float(told["critic/bonus"]) == pytest.approx(2.5)
    cost, _ = sac.entropy_and_bonus(agent, Behaviour(), temperature, COLUMN, POLICY, DRAWN, KEY)
    np.testing.assert_allclose(cost, [1.0, 0.5])


class Drawing:
    """A policy whose log-probability is -s, and whose actions are its keys' numbers."""

    def sample_with_log_probability(self, observation: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jax.random.uniform(key, observation.shape), -observation[:, 0]


@pytest.mark.parametrize(
    ("agent", "next_cost"), [(BRACp(divergence_weight=0.5), [0.0, 0.0]), (BRACv(divergence_weight=0.5), [-1.0, -7.0])]
)
def test_what_brac_pays_by_hand(agent, next_cost):
    # log pi - log pi_b = (-1 - 1, -7 - 7) = (-2, -14); half of that in the actor, and in the value of brac-v alone.
    cost, told = brac.divergence_here(agent, Behaviour(), COLUMN, Drawing(), DRAWN, jax.random.key(1))
    np.testing.assert_allclose(cost, [-1.0, -7.0])
    assert float(told["actor/bonus"]) == pytest.approx(2.5)  # of the action at which Q is seen
    cost, told = brac.next_divergence(agent, Behaviour(), Drawing(), BATCH, DRAWN, jax.random.key(2))
    np.testing.assert_allclose(cost, next_cost)
    assert float(told["critic/divergence"]) == pytest.approx(-8.0)


def test_the_divergence_is_the_mean_over_so_many_actions():
    """Of a standard Gaussian squashed, from the uniform on [-1, 1]: E[log pi] = -(entropy), and log pi_b = -log 2."""

    class Uniform:
        def log_probability(self, observation: jax.Array, action: jax.Array) -> jax.Array:
            return jnp.full(observation.shape[0], -math.log(2.0))

    found = brac.divergence(POLICY, Uniform(), jnp.zeros((1, 1)), 100_000, jax.random.key(3))
    # The entropy of a standard Gaussian, and what squashing takes of it: E[log(1 - tanh(u)^2)] is -0.7491, by quadrature.
    entropy = 0.5 * math.log(2.0 * math.pi * math.e) - 0.7491
    np.testing.assert_allclose(found, [math.log(2.0) - entropy], atol=0.01)


@pytest.mark.parametrize("kind", [BRACp, BRACv])
def test_brac_follows_q_only_after_its_warm_up(kind):
    """With no weight of the divergence the actor has nothing to learn from but Q: it stands still until Q counts."""
    agent = kind(divergence_weight=0.0, warm_up_steps=2, hidden_sizes=(4,))
    spec = Spec(1, (-1.0,), (1.0,))
    state = agent.init(jax.random.key(1), Problem(spec, BATCH))
    batches = jax.tree.map(lambda rows: rows[None], BATCH)
    moved = []
    for key in jax.random.split(jax.random.key(2), 4):
        before = state.actor
        state, metrics = agent.update(state, batches, key, Behaviour())
        moved.append(not eqx.tree_equal(before, state.actor))
    assert moved == [False, False, True, True]
    assert "actor/temperature" not in metrics  # of an entropy that it does not aim at


def test_the_conservative_gap_by_hand():
    # Q = s + 2 a. At s = 1: proposals 0 and 0.5 with densities 1/2 and 1/4: log(e^1 * 2 + e^2 * 4) - Q(recorded) = ... - 1.
    # At s = 3: proposals -1 and 1 with densities 1 and 1/2: log(e^1 + e^5 * 2) - 2. Each with its own observation.
    critics = Critics((MLP((jnp.array([[1.0], [2.0]]),), (jnp.zeros(1),), None, ("none",)),))
    proposals = cql.Proposals(jnp.array([[[0.0], [-1.0]], [[0.5], [1.0]]]), jnp.log(jnp.array([[0.5, 1.0], [0.25, 0.5]])))
    gap = cql.conservative_gap(critics, jnp.array([[1.0], [3.0]]), proposals, jnp.array([[1.0, 2.0]]))
    by_hand = [math.log(2 * math.e + 4 * math.e**2) - 1.0, math.log(math.e + 2 * math.e**5) - 2.0]
    np.testing.assert_allclose(gap, [by_hand], rtol=1e-5)


def test_the_gap_of_a_flat_q_has_the_volume_once_for_each_proposal():
    """exp(Q) over its density is, on average, the integral of exp(Q): 4 exp(5) on [-1, 3]. The sum of 1,500 is not divided."""
    actor = SquashedGaussian(MLP((jnp.zeros((1, 2)),), (jnp.array([0.3, -0.5]),), None, ("none",)), (-1.0,), (3.0,))
    flat = Critics((MLP((jnp.zeros((2, 1)),), (jnp.array([5.0]),), None, ("none",)),))
    observation = jnp.zeros((200, 1))
    proposals = cql.propose(CQL(sampled_actions=500), actor, observation, observation, KEY)
    assert proposals.action.shape == (1500, 200, 1)
    np.testing.assert_allclose(proposals.log_density[:500], -math.log(4.0))
    gap = cql.conservative_gap(flat, observation, proposals, jnp.full((1, 200), 5.0))
    np.testing.assert_allclose(np.mean(gap), math.log(1500 * 4.0), atol=0.1)


class Plain:
    """Plain descent in the place of an optimiser, whose steps can be worked by hand."""

    def start(self, parameters: Any, learning_rate: float, steps: int = 1) -> tuple[()]:
        return ()

    def step(self, parameters: Any, gradient: Any, state: Any, learning_rate: float) -> tuple[Any, Any]:
        return jax.tree.map(lambda one, slope: one - learning_rate * slope, parameters, gradient), state


@pytest.mark.parametrize(("gap_target", "slope"), [(1.0, -7.9176), (3.0, 12.0824)])
def test_the_lagrange_multiplier_by_hand(gap_target, slope, monkeypatch):
    # Q = 5 everywhere. Proposals 0.5, -0.5 and 0.6 with a density of 1/2 each: gap = log(3 exp(5) / (1/2)) - 5 = log 6 = 1.79176.
    proposals = cql.Proposals(jnp.array([[[0.5]] * 2, [[-0.5]] * 2, [[0.6]] * 2]), jnp.full((3, 2), math.log(0.5)))
    monkeypatch.setattr(cql, "propose", lambda *given: proposals)
    agent = CQL(gap_target=gap_target, conservative_weight=5.0, learning_rate_critic=0.1, hidden_sizes=(4,), optimiser=Plain())
    flat = Critics(tuple(MLP((jnp.zeros((2, 1)),), (jnp.array([5.0]),), None, ("none",)) for _ in range(2)))
    state = agent.init(jax.random.key(0), Problem(Spec(1, (-1.0,), (1.0,)), BATCH))
    soft = state.soft._replace(actor=POLICY, target_actor=POLICY, critics=flat, target_critics=flat)
    state = state._replace(soft=soft, log_multiplier=jnp.log(2.0))
    batches = jax.tree.map(lambda rows: rows[None], BATCH)
    after, metrics = agent.update(state, batches, jax.random.key(1), Behaviour())
    assert float(metrics["critic/gap"]) == pytest.approx(math.log(6.0))
    # The slope of -2 * 5 (log 6 - target) in the logarithm of the multiplier, 2: up while the gap is above the target, else down.
    np.testing.assert_allclose(after.log_multiplier, math.log(2.0) - 0.1 * slope, rtol=1e-4)
    # All proposals count alike and the recorded action is 0: Q's slope along the action is 2 * 5 * mean(0.5, -0.5, 0.6).
    for critic in after.soft.critics.each:
        np.testing.assert_allclose(critic.weights[0][1], [-0.1 * 2.0], rtol=1e-4)


def test_without_a_gap_target_there_is_no_multiplier_to_move():
    agent = CQL(hidden_sizes=(4,), sampled_actions=2)
    state = agent.init(jax.random.key(0), Problem(Spec(1, (-1.0,), (1.0,)), BATCH))
    after, _ = agent.update(state, jax.tree.map(lambda rows: rows[None], BATCH), jax.random.key(1), Behaviour())
    assert float(after.log_multiplier) == 0.0


@pytest.mark.parametrize(("gap_target", "sign"), [(0.1, 1.0), (100.0, -1.0)])
def test_the_lagrange_multiplier_goes_on_while_the_gap_is_on_that_side(gap_target, sign):
    # The gap of a fresh Q, of 6 proposals on [-1, 1], is about log 6 + log 2 = 2.5.
    agent = CQL(gap_target=gap_target, hidden_sizes=(4,), sampled_actions=2)
    state = agent.init(jax.random.key(0), Problem(Spec(1, (-1.0,), (1.0,)), BATCH))
    logs = [state.log_multiplier]
    for key in jax.random.split(jax.random.key(1), 3):
        state, metrics = agent.update(state, jax.tree.map(lambda rows: rows[None], BATCH), key, Behaviour())
        assert np.sign(metrics["critic/gap"] - gap_target) == sign
        logs.append(state.log_multiplier)
    assert (np.sign(np.diff(np.array(logs))) == sign).all()

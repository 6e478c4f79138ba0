"""Double DQN with the bonus in its target and in acting: linear networks with weights set by hand, and a known answer."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import CHOICES, go_on, initial_state, small, suited, transitions, uniform_actions

from tether.agents.dqn import DQN, DQNState, targets
from tether.bonuses import FrozenBonus, NoBonus
from tether.networks import MLP
from tether.optimisation import ADAM
from tether.policies import Policy
from tether.types import Batch, Key, discrete_spec

AGENT = DQN(bonus_weight=2.0, learning_rate=0.125, discount=0.5, target_mix=0.25, ema_mix=0.5)


def linear(slopes: list[float], offsets: list[float]) -> MLP:
    """One observation; `slope * s + offset` for each of three choices."""
    return MLP((jnp.array([slopes]),), (jnp.array(offsets),), None, ("none",))


def state() -> DQNState:
    """Q = (s, 2, 0),  Qbar = (10 s, 20, 30)."""
    q = linear([1.0, 0.0, 0.0], [0.0, 2.0, 0.0])
    return DQNState(q, linear([10.0, 0.0, 0.0], [0.0, 20.0, 30.0]), linear([0.0] * 3, [0.0] * 3), ADAM.start(q, 0.125))


def penalty(observation: jax.Array, action: jax.Array, key: Key) -> jax.Array:
    """b = (s - 1, 0.25, 5) for the three choices."""
    return action[:, 0] * (observation[:, 0] - 1.0) + 0.25 * action[:, 1] + 5.0 * action[:, 2]


BATCH = Batch(
    observation=jnp.array([[1.0], [4.0], [3.0]]),
    action=jnp.eye(3)[jnp.array([0, 1, 0])],
    reward=jnp.array([1.0, 10.0, 5.0]),
    next_observation=jnp.array([[1.0], [4.0], [4.0]]),
    terminated=jnp.array([0.0, 0.0, 1.0]),
)


def test_targets_by_hand():
    found, next_bonus = jax.jit(lambda state: targets(AGENT, state, BATCH, jax.random.key(0), penalty))(state())
    # s' = 1: Q - 2 b = (1 - 0, 2 - 0.5, 0 - 10), so choice 1, which Qbar values at 20: 1 + 0.5 (20 - 0.5) = 10.75.
    # s' = 4: Q - 2 b = (4 - 6, 1.5, -10), so choice 1 again though Q alone prefers 0: 10 + 0.5 * 19.5 = 19.75.
    # Choosing by Qbar would take choice 2 in both. The last row has ended.
    np.testing.assert_allclose(found, [10.75, 19.75, 5.0])
    np.testing.assert_allclose(next_bonus, [0.25, 0.25, 0.25])


def test_without_weight_the_choice_is_that_of_q_alone():
    agent = DQN(bonus_weight=0.0, discount=0.5)
    found, _ = jax.jit(lambda state: targets(agent, state, BATCH, jax.random.key(0), penalty))(state())
    np.testing.assert_allclose(found, [1.0 + 0.5 * 20.0, 10.0 + 0.5 * 40.0, 5.0])


@pytest.fixture(scope="module")
def updated():
    batches = Batch(*(column[None] for column in BATCH))
    return jax.jit(lambda state, key: AGENT.update(state, batches, key, penalty))(state(), jax.random.key(0))


def test_metrics_by_hand(updated):
    _, metrics = updated
    # Q of the recorded choices: s = 1 in the first row, 2 in the second, s = 3 in the third, against 10.75, 19.75, 5.
    assert float(metrics["critic/loss"]) == pytest.approx((9.75**2 + 17.75**2 + 2.0**2) / 3)
    assert float(metrics["critic/q"]) == pytest.approx(2.0)
    assert float(metrics["critic/target"]) == pytest.approx(35.5 / 3)
    assert float(metrics["critic/bonus"]) == pytest.approx(0.25)
    # Greedy at s = 1, 4, 3: (1, 1.5, .), (-2, 1.5, .), (-1, 1.5, .): always choice 1, worth 2; another than recorded in two rows.
    assert float(metrics["actor/q"]) == pytest.approx(2.0)
    assert float(metrics["actor/bonus"]) == pytest.approx(0.25)
    assert float(metrics["actor/data_distance"]) == pytest.approx(2 * 2 / 3)


def test_only_the_recorded_choices_learn_and_the_averages_follow_by_their_shares(updated):
    after, _ = updated
    # Choices 0 and 1 must rise, by one Adam step; choice 2 was never taken.
    np.testing.assert_allclose(after.q.biases[0], [0.125, 2.125, 0.0], rtol=1e-5)
    np.testing.assert_allclose(
        after.target_q.biases[0], [0.75 * 0 + 0.25 * 0.125, 0.75 * 20 + 0.25 * 2.125, 0.75 * 30], rtol=1e-5
    )
    np.testing.assert_allclose(after.ema_q.biases[0], [0.5 * 0.125, 0.5 * 2.125, 0.0], rtol=1e-5)


def test_acting_subtracts_the_bonus_and_its_value_does_not():
    class Known(NoBonus):
        def novelty(self, state, observation, action, key):
            return penalty(observation, action, key)

    spec = discrete_spec(1, 3)
    policies = AGENT.policies(state(), FrozenBonus(Known(), (), spec))
    held, free = Policy(policies["online"], spec), Policy(policies["unpenalised"], spec)
    observation = np.array([[1.0], [1.9], [4.0]], np.float32)
    # s = 1: (1, 1.5, -10).  s = 1.9: (1.9 - 1.8, 1.5, .).  s = 4: (-2, 1.5, .).  Alone: (1, 2), (1.9, 2), (4, 2).
    np.testing.assert_array_equal(held(observation), [1, 1, 1])
    np.testing.assert_array_equal(free(observation), [1, 1, 0])
    for name, value in (("online", [2.0, 2.0, 2.0]), ("unpenalised", [2.0, 2.0, 4.0])):
        np.testing.assert_allclose(AGENT.value(state(), observation, policies[name](observation)), value)


def test_it_finds_the_better_choice_in_each_state():
    """One step; choice 1 pays where the first number is positive, choice 0 where it is not, and all is tried."""
    observation = np.random.default_rng(5).uniform(-1.0, 1.0, (512, 2))
    rows = suited(transitions(uniform_actions(), 0.0, terminated=1.0, observation=observation), "discrete")
    right = (observation[:, 0] > 0).astype(int)
    rows = rows._replace(reward=jnp.asarray(np.asarray(rows.action)[np.arange(512), right]))
    agent = small(DQN)
    state, _ = go_on(agent, initial_state(agent, CHOICES), rows, epochs=2, kind="discrete")
    policy = Policy(agent.policies(state, FrozenBonus(NoBonus(), (), CHOICES))["online"], CHOICES)
    clear = np.abs(observation[:, 0]) > 0.1
    assert (policy(observation) == right)[clear].mean() > 0.98

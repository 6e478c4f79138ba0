"""TD3 with the bonus in both losses: linear networks with weights set by hand, and problems with known answers.

Observations and actions have one number each; actions lie in [-1, 3], so that tanh 0 is the action 1 and tanh 0.5 the action 2.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import UPDATES, as_dataset, bowl_state, constant_reward, small, tempting_bandit, train

from tether import CVAE
from tether.agents.actor_critic import ActorCriticState, critic_targets, next_bonus
from tether.agents.td3 import TD3, actor_loss
from tether.networks import MLP, Critics
from tether.optimisation import ADAM
from tether.policies import Deterministic, act
from tether.training.fit import fit_bonus
from tether.training.lesson import Lesson
from tether.types import Batch, Key

AGENT = TD3(
    bonus_weight_actor=2.0,
    bonus_weight_critic=0.5,
    learning_rate_actor=0.1,
    learning_rate_critic=1e-5,  # so little that the losses of two steps are those of one critic
    discount=0.5,
    target_mix=0.25,
    ema_mix=0.125,
    target_noise=0.0,
)


def constant_actor(unit: float) -> Deterministic:
    return Deterministic(MLP((jnp.zeros((1, 1)),), (jnp.array([math.atanh(unit)]),), None, ("tanh",)), (-1.0,), (3.0,))


def linear_critics(*critics: tuple[float, float, float]) -> Critics:
    """One critic `w_s s + w_a a + bias` for each triple."""
    return Critics(tuple(MLP((jnp.array([[w_s], [w_a]]),), (jnp.array([bias]),), None, ("none",)) for w_s, w_a, bias in critics))


def state() -> ActorCriticState:
    """pi = 1, pibar = 2;  Q_1 = s + a, Q_2 = 100;  Qbar_1 = 2 s + a, Qbar_2 = s + 2 a."""
    actor, critics = constant_actor(0.0), linear_critics((1.0, 1.0, 0.0), (0.0, 0.0, 100.0))
    return ActorCriticState(
        actor=actor,
        target_actor=constant_actor(0.5),
        ema_actor=constant_actor(-0.5),
        critics=critics,
        target_critics=linear_critics((2.0, 1.0, 0.0), (1.0, 2.0, 0.0)),
        actor_optimiser=ADAM.start(actor, 0.1),
        critic_optimiser=ADAM.start(critics, 1e-5),
    )


def penalty(observation: jax.Array, action: jax.Array, key: Key) -> jax.Array:
    return observation[:, 0] * action[:, 0]


cost = partial(next_bonus, AGENT, penalty)
targets_of = jax.jit(lambda state, batches: critic_targets(AGENT, state, batches, jax.random.key(0), cost))


def column(*values: float) -> jax.Array:
    return jnp.array(values)[:, None]


FIRST = Batch(
    observation=column(3.0, 1.0, 0.0),
    action=column(1.0, 3.0, 0.0),
    reward=jnp.array([1.0, 10.0, 5.0]),
    next_observation=column(3.0, 1.0, 3.0),
    terminated=jnp.array([0.0, 0.0, 1.0]),
)
SECOND = Batch(
    observation=column(3.0, 1.0, 0.0),
    action=column(0.0, 2.0, 1.0),
    reward=jnp.array([6.0, 6.0, 6.0]),
    next_observation=column(1.0, 1.0, 1.0),
    terminated=jnp.array([1.0, 1.0, 1.0]),
)
BOTH = Batch(*(jnp.stack(columns) for columns in zip(FIRST, SECOND, strict=True)))


def test_critic_targets_by_hand():
    targets, told = targets_of(state(), BOTH)
    # a' = 2.  s' = 3: Qbar = (8, 7), least 7, bonus 6, so 7 - 0.5 * 6 = 4.  s' = 1: Qbar = (4, 5), least 4, bonus 2, so 3.
    # y = 1 + 0.5 * 4 = 3;  10 + 0.5 * 3 = 11.5;  where terminated the reward alone.
    np.testing.assert_allclose(targets, [[3.0, 11.5, 5.0], [6.0, 6.0, 6.0]], rtol=1e-6)
    np.testing.assert_allclose(told["critic/bonus"], [6.0, 2.0, 6.0, 2.0, 2.0, 2.0], rtol=1e-6)


def test_next_values_stay_within_what_is_possible():
    targets, told = targets_of(state()._replace(possible=jnp.array([4.5, 5.0])), BOTH)
    # As above, but the least of 7 counts as 5 and that of 4 as 4.5: y = 1 + 0.5 * (5 - 3) = 2;  10 + 0.5 * (4.5 - 1) = 11.75.
    np.testing.assert_allclose(targets[0], [2.0, 11.75, 5.0], rtol=1e-6)
    np.testing.assert_allclose(told["critic/bounded"], [1.0, 1.0, 0.0, 0.0, 0.0, 0.0])  # where an episode ends nothing is valued
    within, told = targets_of(state()._replace(possible=jnp.array([0.0, 7.0])), BOTH)
    np.testing.assert_allclose(within, targets_of(state(), BOTH)[0])
    assert not np.any(told["critic/bounded"])


def test_rewards_that_come_later_widen_what_is_possible():
    # Rewards from 1 to 10, discount 0.5: 1 once is the least, 10 for ever is 20. The least of the log, 0.5, stays.
    after, _ = AGENT.update(state()._replace(possible=jnp.array([0.5, 3.0])), BOTH, jax.random.key(0), penalty)
    np.testing.assert_allclose(after.possible, [0.5, 20.0])
    assert AGENT.update(state(), BOTH, jax.random.key(0), penalty)[0].possible is None


def test_a_clean_bonus_does_not_charge_the_smoothing():
    noisy = replace(AGENT, target_noise=0.5)
    told = {
        clean: critic_targets(
            noisy,
            state(),
            BOTH,
            jax.random.key(0),
            partial(next_bonus, replace(noisy, clean_bonus=clean), penalty),
        )[1]["critic/bonus"]
        for clean in (True, False)
    }
    np.testing.assert_allclose(told[True], [6.0, 2.0, 6.0, 2.0, 2.0, 2.0], rtol=1e-6)  # s' times the action 2
    assert np.abs(told[False] - told[True]).min() > 1e-3


def test_q_can_be_brought_to_one_size_in_the_actor_s_loss():
    # Q_1 = (4, 2, 1), mean 7/3 and of that size; b = (3, 1, 0), mean 4/3, weight 2: -(1 - 8/3).
    agent = replace(AGENT, normalise_q=True)
    loss, _ = actor_loss(agent, penalty, state().actor, state().critics, FIRST, jax.random.key(0))
    assert float(loss) == pytest.approx(8 / 3 - 1, rel=1e-5)


def test_the_target_side_as_one_batch_is_the_target_side_batch_by_batch():
    together, _ = targets_of(state(), BOTH)
    for step in range(2):
        alone, _ = targets_of(state(), Batch(*(column[step][None] for column in BOTH)))
        np.testing.assert_array_equal(alone[0], together[step])


def test_actor_loss_by_hand():
    loss, metrics = jax.jit(
        lambda state, batch: actor_loss(AGENT, penalty, state.actor, state.critics, batch, jax.random.key(0))
    )(state(), FIRST)
    # pi = 1, so Q_1 = (4, 2, 1) and b = (3, 1, 0): -mean(4 - 6, 2 - 2, 1 - 0) = 1/3.
    assert float(loss) == pytest.approx(1 / 3)
    assert float(metrics["actor/q"]) == pytest.approx(7 / 3)
    assert float(metrics["actor/bonus"]) == pytest.approx(4 / 3)
    assert float(metrics["actor/data_distance"]) == pytest.approx((0 + 4 + 1) / 3)


@pytest.fixture(scope="module")
def updated():
    return jax.jit(lambda state, batches, key: AGENT.update(state, batches, key, penalty))(state(), BOTH, jax.random.key(0))


def test_each_critic_step_has_its_own_batch_and_targets(updated):
    # First batch: Q_1 = (4, 4, 0) against (3, 11.5, 5): (1 + 56.25 + 25) / 3. Q_2 = 100: (97^2 + 88.5^2 + 95^2) / 3.
    # Second: Q_1 = (3, 3, 1) against 6: (9 + 9 + 25) / 3. Q_2: 94^2.
    first, second = (1 + 56.25 + 25 + 9409 + 7832.25 + 9025) / 3, (9 + 9 + 25) / 3 + 8836
    _, metrics = updated
    assert float(metrics["critic/loss"]) == pytest.approx((first + second) / 2, rel=1e-4)
    assert float(metrics["critic/q"]) == pytest.approx((8 / 3 + 7 / 3) / 2, rel=1e-4)
    assert float(metrics["critic/target"]) == pytest.approx((3 + 11.5 + 5 + 6 + 6 + 6) / 6)
    assert float(metrics["critic/bonus"]) == pytest.approx((6 + 2 + 6 + 2 + 2 + 2) / 6)


def test_the_actor_climbs_the_online_critic(updated):
    # Q_1 at pi = 1 and the last batch's s = 3, 1, 0 is 4, 2, 1; Qbar_1 would be 7, 3, 1.
    _, metrics = updated
    assert float(metrics["actor/q"]) == pytest.approx(7 / 3, rel=1e-4)


def test_critics_step_toward_the_targets_and_the_actor_up_its_objective(updated):
    after, _ = updated
    # Both batches want Q_1 higher and Q_2 lower: two Adam steps of 1e-5 each.
    first, second = (float(critic.biases[0][0]) for critic in after.critics.each)
    assert (first, second - 100.0) == pytest.approx((2e-5, -2e-5), abs=8e-6)
    # d/da (Q_1 - 2 b) = 1 - 2 s is -5, -1, 1 at s = 3, 1, 0: the action must fall, by one Adam step of 0.1 on its bias.
    np.testing.assert_allclose(after.actor.network.biases[0], [-0.1], rtol=1e-4)


def test_targets_and_average_move_by_their_shares_toward_the_new_weights(updated):
    after, _ = updated
    half = math.atanh(0.5)
    np.testing.assert_allclose(after.target_actor.network.biases[0], [0.75 * half + 0.25 * -0.1], rtol=1e-4)
    np.testing.assert_allclose(after.ema_actor.network.biases[0], [0.875 * -half + 0.125 * -0.1], rtol=1e-4)
    # Online (1, 1, 0) and (0, 0, 100) into (2, 1, 0) and (1, 2, 0), a quarter.
    for critic, weights, bias in zip(after.target_critics.each, ([1.75, 1.0], [0.75, 1.5]), (0.0, 25.0), strict=True):
        np.testing.assert_allclose(critic.weights[0][:, 0], weights, atol=1e-4)
        np.testing.assert_allclose(critic.biases[0], [bias], atol=1e-4)


def test_the_critics_targets_can_move_at_every_critic_step():
    agent = replace(AGENT, targets_each_step=True)
    one = FIRST._replace(terminated=jnp.array([0.0, 1.0, 1.0]))  # only the first row looks at Qbar
    batches = Batch(*(jnp.stack(columns) for columns in zip(SECOND, one, strict=True)))
    after, metrics = jax.jit(lambda state, key: agent.update(state, batches, key, penalty))(state(), jax.random.key(0))
    # After the first step Qbar_1 = 1.75 s + a, Qbar_2 = 0.75 s + 1.5 a + 25. At s' = 3, a' = 2 the least is 7.25, where it was 7;
    # less 0.5 * 6: y = 1 + 0.5 * 4.25.
    assert float(metrics["critic/target"]) == pytest.approx((6 + 6 + 6 + 3.125 + 10 + 5) / 6, rel=1e-4)
    # Twice a quarter: 0.5625 of what they were.
    np.testing.assert_allclose(after.target_critics.each[0].weights[0][:, 0], [0.5625 * 2 + 0.4375 * 1, 1.0], atol=1e-4)


def test_the_actor_and_the_targets_move_once_in_an_actor_period():
    trained, _ = train(small(TD3), constant_reward())
    assert int(trained.critic_optimiser[0].count) == 2 * UPDATES
    assert int(trained.actor_optimiser[0].count) == UPDATES


def test_the_bonus_of_the_critics_is_discounted():
    # A bonus of 1 everywhere, weight 0.5: Q = 1 + 0.8 (Q - 0.5), so Q = 0.6 / 0.2 = 3. Outside the discount it would be 2.5.
    _, metrics = train(small(TD3), constant_reward(), bowl_state(floor=1.0), epochs=8)
    np.testing.assert_allclose(metrics["critic/q"], 3.0, rtol=0.03)


@pytest.mark.slow  # the tiny problems show the same of every agent
def test_without_a_bonus_the_actor_climbs_to_the_edge_and_with_the_cvae_it_stays_by_the_data():
    rows = tempting_bandit()
    recorded = np.asarray(rows.action)
    assert np.abs(recorded[:, 0]).max() < 0.4

    free, _ = train(small(TD3), rows, epochs=8)
    assert np.asarray(act(free.actor, rows.observation))[:, 0].min() > 0.95

    dataset = as_dataset(rows)
    lesson = Lesson(small(TD3), dataset, fit_bonus(small(CVAE), dataset), seed=0, steps=16 * UPDATES)
    *_, held = lesson.epochs(lesson.fresh(), 0, 2 * UPDATES)
    action = np.asarray(act(held.state.actor, rows.observation))
    # Were the bonus |a - (0, 2)|^2, the best would be a_1 = 1 / (2 * 5) above the data's mean.
    assert action[:, 0].min() > 0.0
    assert action[:, 0].max() < 0.3
    np.testing.assert_allclose(action[:, 1], 2.0, atol=0.3)

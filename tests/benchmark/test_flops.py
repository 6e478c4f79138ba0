"""Operations counted by hand, for networks small enough to do so."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from tether import CVAE, TD3, Count, Density, Forward, Tethered
from tether.benchmark import flops
from tether.bonuses import NoBonus
from tether.types import Spec

SPEC = Spec(2, (-1.0,), (1.0,))
AGENT = TD3(hidden_sizes=(3, 4), batch_size=5, actor_period=2)
BONUS = CVAE(hidden_sizes=(3, 3), latent_size=2, batch_size=5)
# One row forward, 2 operations a weight. Actor (2, 3, 4, 1): 2 (6 + 12 + 4) = 44. Critic (3, 3, 4, 1): 2 (9 + 12 + 4) = 50.
ACTOR, CRITIC = 44, 50
# Encoder (2 + 1, 3, 3, 2 * 2): 2 (9 + 9 + 12) = 60. Decoder (2 + 2, 3, 3, 1): 2 (12 + 9 + 3) = 48.
ENCODER, DECODER = 60, 48


def test_a_product_is_a_multiplication_and_an_addition_for_each_term():
    left, right = jnp.zeros((2, 3)), jnp.zeros((3, 5))
    assert flops.of(lambda: left @ right) == 2 * 2 * 3 * 5
    assert flops.of(jax.jit(lambda: left @ right)) == 2 * 2 * 3 * 5
    assert flops.of(lambda: jax.lax.scan(lambda carry, _: (carry @ jnp.eye(3), None), left, length=7)[0]) == 7 * 2 * 2 * 3 * 3
    assert flops.of(lambda: jnp.tanh(left) + left) == 0
    either = lambda one: jax.lax.cond(one, lambda: left @ right, lambda: left @ jnp.eye(3) @ right)  # noqa: E731
    assert flops.of(either, True) == 2 * 2 * 3 * 3 + 2 * 2 * 3 * 5  # the dearer of two


def test_a_step_of_td3_without_a_bonus():
    target = ACTOR + 2 * CRITIC
    # Training is three passes, but for the gradient of the first layer's input: the critics' 18 and the actor's 12.
    critics = 2 * (3 * CRITIC - 18)
    actor = (3 * ACTOR - 12) + 2 * CRITIC  # through the first critic to the action, and back
    assert flops.agent_step(AGENT, NoBonus(), SPEC) == 5 * (target + critics + actor / 2)


def test_a_step_of_td3_with_a_bonus():
    scored = ENCODER + DECODER  # once a target; forward and back every second step
    assert flops.agent_step(AGENT, BONUS, SPEC) == flops.agent_step(AGENT, NoBonus(), SPEC) + 5 * (scored + 2 * scored / 2)
    # Six projections of a pair of 3; the counting of the data beforehand is no part of a step.
    assert flops.agent_step(AGENT, Count(bits=6), SPEC) == flops.agent_step(AGENT, NoBonus(), SPEC) + 5 * (36 + 36 / 2)


def test_what_is_known_of_every_row_beforehand_costs_a_step_nothing():
    agent = Tethered(hidden_sizes=(3, 4), batch_size=5, actor_period=2)
    target = ACTOR + 2 * CRITIC
    critics, actor = 2 * (3 * CRITIC - 18), (3 * ACTOR - 12) + 2 * 2 * CRITIC  # through both critics to the action, and back
    for width in (3, 7):  # of what gives the anchors
        assert flops.agent_step(agent, Density(hidden_sizes=(width,)), SPEC) == 5 * (target + critics + actor / 2)


def test_a_step_of_a_fit():
    # The encoder's input needs no gradient; the decoder's does, for the latent.
    assert flops.fit_step(BONUS, SPEC) == 5 * ((3 * ENCODER - 18) + 3 * DECODER)
    # Three models (3, 4, 2): 2 (12 + 8) = 40 forward, 24 of the first layer.
    assert flops.fit_step(Forward(models=3, hidden_sizes=(4,), batch_size=5), SPEC) == 3 * 5 * (3 * 40 - 24)


def test_the_bonus_of_a_pair():
    assert flops.novelty(BONUS, SPEC) == ENCODER + DECODER
    assert flops.novelty(Count(bits=6), SPEC) == 2 * 3 * 6  # the projection
    assert flops.novelty(NoBonus(), SPEC) == 0

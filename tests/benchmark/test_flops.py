"""Operations counted by hand, for networks small enough to do so."""

from __future__ import annotations

from tether.agents import TD3
from tether.benchmark import flops
from tether.bonuses import CVAE, NoBonus
from tether.types import Spec

SPEC = Spec(2, (-1.0,), (1.0,))
AGENT = TD3(hidden_sizes=(3, 4), batch_size=5, actor_period=2)
BONUS = CVAE(hidden_sizes=(3, 3), latent_size=2, batch_size=5)


def test_a_weight_is_a_multiplication_and_an_addition():
    assert flops.layer_flops((2, 3, 4, 1)) == [12, 24, 8]
    assert flops.forward((2, 3, 4, 1)) == 44


def test_training_is_three_passes_but_for_the_first_input():
    assert flops.training((2, 3, 4, 1)) == 3 * 44 - 12


def test_the_networks_of_the_bonus():
    # Encoder: a pair of 2 + 1, to means and log-stds of 2 latents. Decoder: 2 observations and 2 latents, to 1 action.
    assert flops.cvae_sizes(BONUS, SPEC) == ((3, 3, 3, 4), (4, 3, 3, 1))
    assert flops.bonus_forward(BONUS, SPEC) == (18 + 18 + 24) + (24 + 18 + 6)
    assert flops.bonus_forward(NoBonus(), SPEC) == 0


def test_a_step_of_td3_without_a_bonus():
    # Actor (2, 3, 4, 1): 44 forward, 120 to train. Critic (3, 3, 4, 1): 50 forward, 132 to train.
    target = 44 + 2 * 50
    critics = 2 * 132
    actor = 120 + 2 * 50  # through the first critic to the action, and back
    assert flops.td3_step(AGENT, NoBonus(), SPEC) == 5 * (target + critics + actor / 2)


def test_a_step_of_td3_with_a_bonus():
    # 108 forward: once a target; forward and back every second step.
    assert flops.td3_step(AGENT, BONUS, SPEC) == flops.td3_step(AGENT, NoBonus(), SPEC) + 5 * (108 + 2 * 108 / 2)


def test_a_step_of_the_fit():
    # Encoder: 60 forward, the first layer's input needs no gradient. Decoder: 48, and its input does, for the latent.
    assert flops.cvae_fit_step(BONUS, SPEC) == 5 * ((3 * 60 - 18) + 3 * 48)

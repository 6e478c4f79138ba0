"""Floating-point operations of the matrix products in one update. Elementwise work is not counted, so shares are a little low."""

from __future__ import annotations

import itertools

from tether.agents import TD3
from tether.bonuses import CVAE, Bonus
from tether.types import Spec


def layer_flops(sizes: tuple[int, ...]) -> list[int]:
    """Of each layer, for one row: a multiplication and an addition for each weight."""
    return [2 * inputs * outputs for inputs, outputs in itertools.pairwise(sizes)]


def forward(sizes: tuple[int, ...]) -> int:
    return sum(layer_flops(sizes))


def training(sizes: tuple[int, ...]) -> int:
    """Forward, gradient of the weights, and gradient of every layer's input but the first, which nothing asks for."""
    layers = layer_flops(sizes)
    return 3 * sum(layers) - layers[0]


def cvae_sizes(bonus: CVAE, spec: Spec) -> tuple[tuple[int, ...], tuple[int, ...]]:
    encoder = (spec.observation_size + spec.action_size, *bonus.hidden_sizes, 2 * bonus.latent_size)
    decoder = (spec.observation_size + bonus.latent_size, *bonus.hidden_sizes, spec.action_size)
    return encoder, decoder


def bonus_forward(bonus: Bonus, spec: Spec) -> int:
    return sum(map(forward, cvae_sizes(bonus, spec))) if isinstance(bonus, CVAE) else 0


def td3_step(agent: TD3, bonus: Bonus, spec: Spec) -> float:
    """Per critic step: an update's operations, divided by its critic steps."""
    actor = (spec.observation_size, *agent.hidden_sizes, spec.action_size)
    critic = (spec.observation_size + spec.action_size, *agent.hidden_sizes, 1)
    scored = bonus_forward(bonus, spec)
    target_side = forward(actor) + 2 * forward(critic) + scored
    critic_side = 2 * training(critic)
    # The actor's gradient passes through Q_1 and the bonus to the action: their inputs' gradients, not their weights'.
    actor_side = training(actor) + 2 * forward(critic) + 2 * scored
    return agent.batch_size * (target_side + critic_side + actor_side / agent.critic_steps)


def cvae_fit_step(bonus: CVAE, spec: Spec) -> float:
    encoder, decoder = cvae_sizes(bonus, spec)
    return bonus.batch_size * (training(encoder) + 3 * forward(decoder))  # the decoder's input has the latent in it

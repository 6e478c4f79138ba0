"""TD3 with an anti-exploration bonus in both losses (Rezaeifar et al., section 5; SPEC section 4).

    critic target   y = r + discount (1 - terminated) (min_i Qbar_i(s', a') - beta_c b(s', a'))
                    with a' = clip(pibar(s') + clip(noise))
    actor loss      - E[Q_1(s, pi(s)) - beta_a b(s, pi(s))]

Differs from the paper as printed:
- the critic's bonus is inside the discount and stops at termination, as in its section 3; its critic loss has it outside;
- the actor climbs the online Q_1, as TD3 does; the paper's equation has the target network;
- the actor's noise is 0 unless set.
Beyond the paper: a slow average of the actor is kept beside the target, to be evaluated with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax

from tether import losses
from tether.networks import Actor, Critics, make_actor, make_critics
from tether.optimisation import adam_init, adam_step, copy_of, mix
from tether.types import Batch, Key, Metrics, Penalty, Spec

ACTIVATIONS = ("tanh", "elu")


class TD3State(NamedTuple):
    actor: Actor
    target_actor: Actor
    ema_actor: Actor  # a slower average than the target, never trained on
    critics: Critics
    target_critics: Critics
    actor_optimiser: optax.OptState
    critic_optimiser: optax.OptState


@dataclass(frozen=True)
class TD3:
    """Every knob of the agent; the paper's values."""

    action_kinds: ClassVar[tuple[str, ...]] = ("continuous",)
    follows_penalty: ClassVar[bool] = True  # its actor goes down the bonus by its gradient

    bonus_weight_actor: float = 5.0  # the paper's beta_a: 5 for locomotion, 10 for manipulation
    bonus_weight_critic: float = 1.0  # the paper's beta_c: 1 for locomotion, 10 for manipulation
    batch_size: int = 256
    hidden_sizes: tuple[int, int] = (256, 256)  # tanh after the first, elu after the second
    layer_norm: bool = False  # after the first product of actor and critics; measured both ways, see docs/results.md
    learning_rate_actor: float = 3e-4
    learning_rate_critic: float = 3e-4
    discount: float = 0.99  # gamma
    target_mix: float = 0.005  # share of the online weights mixed into the targets at each update (tau)
    ema_mix: float = 0.0005  # the same for the slow average of the actor
    target_noise: float = 0.2  # smoothing of the target action, in half action ranges
    target_noise_clip: float = 0.5
    actor_noise: float = 0.0  # the paper's sigma in the actor loss, in half action ranges
    actor_period: int = 2  # critic steps per actor step

    @property
    def critic_steps(self) -> int:
        return self.actor_period

    def init(self, key: Key, spec: Spec) -> TD3State:
        key_actor, key_critics = jax.random.split(key)
        actor = make_actor(key_actor, spec, self.hidden_sizes, ACTIVATIONS, self.layer_norm)
        critics = make_critics(key_critics, spec, 2, self.hidden_sizes, ACTIVATIONS, self.layer_norm)
        return TD3State(
            actor=actor,
            target_actor=copy_of(actor),
            ema_actor=copy_of(actor),
            critics=critics,
            target_critics=copy_of(critics),
            actor_optimiser=adam_init(actor, self.learning_rate_actor),
            critic_optimiser=adam_init(critics, self.learning_rate_critic),
        )

    def update(self, state: TD3State, batches: Batch, key: Key, penalty: Penalty) -> tuple[TD3State, Metrics]:
        key_target, key_actor = jax.random.split(key)
        targets, next_bonus = critic_targets(self, state, batches, key_target, penalty)

        critics, critic_optimiser = state.critics, state.critic_optimiser
        critic_metrics = []
        for step in range(self.critic_steps):
            batch = Batch(*(column[step] for column in batches))
            (loss, values), gradient = jax.value_and_grad(critic_loss, has_aux=True)(critics, batch, targets[step])
            critics, critic_optimiser = adam_step(critics, gradient, critic_optimiser, self.learning_rate_critic)
            critic_metrics.append((loss, jnp.mean(values[0])))

        observation = batches.observation[-1]
        gradient, actor_metrics = jax.grad(actor_loss, argnums=1, has_aux=True)(
            self, state.actor, critics, observation, batches.action[-1], key_actor, penalty
        )
        actor, actor_optimiser = adam_step(state.actor, gradient, state.actor_optimiser, self.learning_rate_actor)

        state = TD3State(
            actor=actor,
            target_actor=mix(state.target_actor, actor, self.target_mix),
            ema_actor=mix(state.ema_actor, actor, self.ema_mix),
            critics=critics,
            target_critics=mix(state.target_critics, critics, self.target_mix),
            actor_optimiser=actor_optimiser,
            critic_optimiser=critic_optimiser,
        )
        loss, value = (jnp.mean(jnp.stack(column)) for column in zip(*critic_metrics, strict=True))
        return state, {
            "critic/loss": loss,
            "critic/q": value,
            "critic/target": jnp.mean(targets),
            "critic/bonus": jnp.mean(next_bonus),
            **actor_metrics,
        }

    def policies(self, state: TD3State, penalty: Penalty) -> dict[str, Actor]:
        return {"online": state.actor, "target": state.target_actor, "ema": state.ema_actor}

    def value(self, state: TD3State, observation: jax.Array, action: jax.Array) -> jax.Array:
        return state.critics.first(observation, action)


def critic_targets(agent: TD3, state: TD3State, batches: Batch, key: Key, penalty: Penalty) -> tuple[jax.Array, jax.Array]:
    """Targets and next bonuses of all critic steps, `(critic_steps, B)` each, computed as one batch.

    The target networks move once an update, so one large batch gives the same numbers as one batch a step, faster.
    """
    rows = Batch(*(column.reshape(-1, *column.shape[2:]) for column in batches))
    key_noise, key_bonus = jax.random.split(key)
    actor = state.target_actor
    proposed = actor(rows.next_observation)
    next_action = losses.smoothed_action(proposed, key_noise, agent.target_noise, agent.target_noise_clip, actor.low, actor.high)
    next_bonus = penalty(rows.next_observation, next_action, key_bonus)
    next_value = jnp.min(state.target_critics(rows.next_observation, next_action), axis=0)
    target = losses.bellman_target(
        rows.reward, rows.terminated, next_value - agent.bonus_weight_critic * next_bonus, agent.discount
    )
    shape = batches.reward.shape
    return target.reshape(shape), next_bonus.reshape(shape)


def critic_loss(critics: Critics, batch: Batch, target: jax.Array) -> tuple[jax.Array, jax.Array]:
    values = critics(batch.observation, batch.action)
    return losses.squared_td_error(values, target), values


def actor_loss(
    agent: TD3, actor: Actor, critics: Critics, observation: jax.Array, data_action: jax.Array, key: Key, penalty: Penalty
) -> tuple[jax.Array, Metrics]:
    key_noise, key_bonus = jax.random.split(key)
    proposed = actor(observation)
    action = proposed
    if agent.actor_noise > 0:  # not clipped in itself: the paper's Gaussian; the bounds still hold
        action = losses.smoothed_action(proposed, key_noise, agent.actor_noise, jnp.inf, actor.low, actor.high)
    value = critics.first(observation, action)
    bonus = penalty(observation, action, key_bonus)
    loss = -jnp.mean(value - agent.bonus_weight_actor * bonus)
    return loss, {
        "actor/loss": loss,
        "actor/q": jnp.mean(value),
        "actor/bonus": jnp.mean(bonus),
        "actor/data_distance": jnp.mean(jnp.sum(jnp.square(proposed - data_action), axis=-1)),
    }

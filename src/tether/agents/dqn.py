"""Double DQN with an anti-exploration bonus (Rezaeifar et al., section 3; SPEC section 5), for discrete actions.

    target   y = r + discount (1 - terminated) (Qbar(s', a*) - beta b(s', a*)),   a* = argmax_a (Q - beta b)(s', a)
    acting   argmax_a (Q - beta b)(s, a)

The bonus is part of acting, so a policy carries it along.
Where the paper's example is silent: a* by the online network (van Hasselt et al. 2016), targets that follow slowly as TD3's do
instead of a copy every 10,000 steps (Mnih et al. 2015), the plain squared error, sizes and rates as TD3's.
Beyond it: the same greedy policy without the bonus (`unpenalised`) is evaluated beside the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax

from tether.agents.actor_critic import batch_number, bellman_target, data_distance, squared_td_error
from tether.agents.base import AgentTraits
from tether.bonuses.base import VALUE, novelties
from tether.networks import Layers, Network, make_network, observation_scaler
from tether.optimisation import ADAM, Optimiser, copy_of, mix
from tether.policies.greedy import Greedy
from tether.settings import Amount, Share, ShareBelowOne, Size
from tether.types import Batch, Key, Metrics, Penalty, Problem

WATCHED_ROWS = 32  # of each batch, for metrics of the greedy action: its bonus there is needed for nothing else


class DQNState(NamedTuple):
    q: Network
    target_q: Network
    ema_q: Network  # a slower average than the target, never trained on
    optimiser: optax.OptState


@dataclass(frozen=True)
class DQN:
    """Every knob of the agent."""

    traits: ClassVar[AgentTraits] = AgentTraits(
        policies=("online", "target", "ema", "unpenalised"),
        actions=("discrete",),
        requires=frozenset({VALUE}),  # it compares actions
        holding_setting="bonus_weight",
    )

    bonus_weight: Amount = 1.0  # the paper's beta, in the target and in acting
    batch_size: Size = 128
    hidden_sizes: tuple[Size, ...] = (256, 256)  # relu; behind a convolution where observations are images
    learning_rate: Amount = 3e-4
    discount: ShareBelowOne = 0.99  # gamma
    target_mix: Share = 0.005  # share of the online weights mixed into the target at each step (tau)
    ema_mix: Share = 0.0005  # the same for the slow average
    normalise_observations: bool = False  # by the data's moments, inside the network; images stay as they are
    optimiser: Optimiser = ADAM

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return 1, self.batch_size

    def init(self, key: Key, problem: Problem) -> DQNState:
        spec, scaler = problem.spec, observation_scaler(problem, self.normalise_observations)
        q = make_network(key, spec, 0, Layers(self.hidden_sizes, scaler=scaler), spec.action_size)
        return DQNState(q, copy_of(q), copy_of(q), self.optimiser.start(q, self.learning_rate, problem.steps))

    def update(self, state: DQNState, batches: Batch, key: Key, penalty: Penalty) -> tuple[DQNState, Metrics]:
        key_target, key_watch = jax.random.split(key)
        batch = batch_number(batches, 0)
        target, next_bonus = targets(self, state, batch, key_target, penalty)
        (loss, value), gradient = jax.value_and_grad(q_loss, has_aux=True)(state.q, batch, target)
        q, optimiser = self.optimiser.step(state.q, gradient, state.optimiser, self.learning_rate)
        metrics = {
            "critic/loss": loss,
            "critic/q": jnp.mean(value),
            "critic/target": jnp.mean(target),
            "critic/bonus": jnp.mean(next_bonus),
            **greedy_metrics(self, state.q, batch, key_watch, penalty),
        }
        return DQNState(q, mix(state.target_q, q, self.target_mix), mix(state.ema_q, q, self.ema_mix), optimiser), metrics

    def policies(self, state: DQNState, penalty: Penalty) -> dict[str, Greedy]:
        weight = jnp.asarray(self.bonus_weight, jnp.float32)
        return {
            "online": Greedy(state.q, penalty, weight),
            "target": Greedy(state.target_q, penalty, weight),
            "ema": Greedy(state.ema_q, penalty, weight),
            "unpenalised": Greedy(state.q, penalty, jnp.zeros_like(weight)),
        }

    def value(self, state: DQNState, observation: jax.Array, action: jax.Array) -> jax.Array:
        return value_of(state.q, observation, action)


def targets(agent: DQN, state: DQNState, batch: Batch, key: Key, penalty: Penalty) -> tuple[jax.Array, jax.Array]:
    """The target of each row and the bonus of its next action, `(B,)` each."""
    online, slow = state.q(batch.next_observation), state.target_q(batch.next_observation)
    bonus = novelties(penalty, batch.next_observation, online.shape[1], key)
    best = jnp.argmax(online - agent.bonus_weight * bonus, axis=-1)[:, None]
    next_value, next_bonus = (jnp.take_along_axis(column, best, axis=1)[:, 0] for column in (slow, bonus))
    target = bellman_target(batch.reward, batch.terminated, next_value - agent.bonus_weight * next_bonus, agent.discount)
    return target, next_bonus


def q_loss(q: Network, batch: Batch, target: jax.Array) -> tuple[jax.Array, jax.Array]:
    value = value_of(q, batch.observation, batch.action)
    return squared_td_error(value[None, :], target), value


def value_of(q: Network, observation: jax.Array, action: jax.Array) -> jax.Array:
    """Of the action whose one-hot row it is."""
    return jnp.sum(q(observation) * action, axis=-1)


def greedy_metrics(agent: DQN, q: Network, batch: Batch, key: Key, penalty: Penalty) -> Metrics:
    """Of the action that the policy takes where the data is, on a few rows."""
    observation, recorded = batch.observation[:WATCHED_ROWS], batch.action[:WATCHED_ROWS]
    values = q(observation)
    bonus = novelties(penalty, observation, values.shape[1], key)
    action = jax.nn.one_hot(jnp.argmax(values - agent.bonus_weight * bonus, axis=-1), values.shape[1])
    return {
        "actor/q": jnp.mean(jnp.sum(values * action, axis=-1)),
        "actor/bonus": jnp.mean(jnp.sum(bonus * action, axis=-1)),
        "actor/data_distance": data_distance(action, recorded),
    }

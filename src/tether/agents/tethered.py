"""Ours: a policy that starts as what the log's better episodes usually did, and steps away from it only as far as Q pays for.

    policy         pi(s) = clip(m(s) + l(s) d(s)),   l(s) = min(reach sigma(s), longest),   d in [-1, 1] learnt, 0 at the start
    critic target  y = r + discount (1 - terminated) clip(min_i Qbar_i(s', a')),   a' = clip(pibar(s') + clip(noise))
    actor loss     - E[Q(s, clip(m(s) + l(s) (d(s) + noise))) / E|Q| - beta 1/2 |reach d(s)|^2],   Q the mean of both critics

m and sigma are the bonus's anchor: the mean and the standard deviation of what is usually done. What a next state is worth is
clipped to what the log's rewards allow.

The bonus is the distance from the anchor, in the standard deviations of what was done: anti-exploration whose zero is known.
TD3 has to find the low places of its bonus by descent, from anywhere. Here every state begins at the anchor, none can be
farther than the reach, and critics bootstrap from there alone, but for the smoothing. So they pay no bonus.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from tether.agents import actor_critic
from tether.agents.actor_critic import ActorCriticState, NextCostValue, data_distance, unit_size
from tether.agents.base import AgentTraits
from tether.agents.td3 import ACTIVATIONS
from tether.bonuses.base import ANCHOR, Anchor
from tether.networks import MLP, Critics, Norm
from tether.optimisation import ADAM, Optimiser, copy_of, steps_made
from tether.policies import tethered
from tether.settings import Amount, Share, ShareBelowOne, Size, Steps
from tether.types import Batch, Key, Metrics, Penalty, Problem, Spec


@dataclass(frozen=True)
class Tethered:
    """Every knob of the agent; chosen by results/tether-preset/PROTOCOL.md."""

    traits: ClassVar[AgentTraits] = AgentTraits(
        main_policy="ema",
        requires=frozenset({ANCHOR}),
        usual_bonus="density",
        reward_scaling="divide",
        values_of_rewards=True,
        annealed=("bonus_weight_actor",),
    )
    formerly: ClassVar[dict[str, Any]] = {"bound_values": False}  # what it was in runs that do not say
    dropped: ClassVar[dict[str, Any]] = {"weight_each_action": False}  # tried once; runs with it on are of another agent

    reach: Amount = 1.0  # the farthest step from the anchor, in its standard deviations; 0: the anchor itself
    longest: Amount = 0.3  # and in half action ranges: where the anchor is vague, its standard deviation is no measure
    bonus_weight_actor: Amount = 0.003  # of half the squared step, in units of Q's mean size
    bound_values: bool = True  # critic targets stay within what the log's rewards allow
    warm_up_steps: Steps = 20_000  # in which the critics learn what the anchor is worth, and the policy stays there
    actor_noise: Amount = 1.0  # around the action at which the actor sees Q, in shares of how far it may step
    batch_size: Size = 256
    hidden_sizes: tuple[Size, ...] = (256, 256)  # tanh after the first, elu after the others
    critic_norm: Norm = "every"  # layer norm in the critics alone
    layer_norm: bool = False
    learning_rate_actor: Amount = 1e-3
    learning_rate_critic: Amount = 1e-3
    discount: ShareBelowOne = 0.995  # gamma
    target_mix: Share = 0.05  # share of the online weights mixed into the targets at each update (tau)
    ema_mix: Share = 0.0005  # the same for the slow average that acts
    target_noise: Amount = 0.2  # smoothing of the target action, in half action ranges
    target_noise_clip: Amount = 0.5
    actor_period: Size = 2  # critic steps per actor step
    normalise_observations: bool = True
    optimiser: Optimiser = ADAM

    batch_shape, value = actor_critic.batch_shape, actor_critic.value

    def init(self, key: Key, problem: Problem) -> ActorCriticState:
        state = actor_critic.start(self, key, problem, ACTIVATIONS, self.bound_values)
        step = at_rest(state.actor.network)
        updates = problem.steps // self.actor_period
        return state._replace(
            actor=step,
            target_actor=copy_of(step),
            ema_actor=copy_of(step),
            actor_optimiser=self.optimiser.start(step, self.learning_rate_actor, updates),
        )

    def update(self, state: ActorCriticState, batches: Batch, key: Key, penalty: Penalty) -> tuple[ActorCriticState, Metrics]:
        loss = partial(actor_loss, self, penalty)
        waits = self.actor_period * steps_made(state.actor_optimiser) < self.warm_up_steps

        def acting(step: MLP, rows: Batch) -> tethered.Tethered:
            return acting_of(self, anchors_of(penalty, rows, "next_"), step)

        return actor_critic.update(self, state, batches, key, loss, no_cost, acting, waits=waits)

    def known(self, penalty: Any, observation: jax.Array) -> dict[str, jax.Array]:
        """The anchors stand still, so they are computed once for every row of the log."""
        return {f"anchor_{name}": column for name, column in penalty.anchor(observation)._asdict().items()}

    def policies(self, state: ActorCriticState, penalty: Penalty) -> dict[str, tethered.Tethered]:
        steps = actor_critic.policies(self, state, penalty)
        return {name: acting_of(self, penalty, step) for name, step in steps.items()}


def acting_of(agent: Tethered, anchors: Any, step: Any) -> tethered.Tethered:
    return tethered.Tethered(step, anchors, agent.reach, agent.longest)


class KnownAnchors(NamedTuple):
    """In the place of the bonus, where the anchors of the very rows that it is asked about are known."""

    known: Anchor
    spec: Spec

    def anchor(self, observation: jax.Array) -> Anchor:
        return self.known


def anchors_of(penalty: Any, rows: Any, prefix: str = "") -> Any:
    """What gives the anchors at the rows' observations, or at their next ones. A replay's rows come without them."""
    if not hasattr(rows, "anchor_mean"):
        return penalty
    return KnownAnchors(Anchor(*(getattr(rows, f"{prefix}anchor_{name}") for name in Anchor._fields)), penalty.spec)


def at_rest(network: MLP) -> MLP:
    """The same with an output of 0 everywhere. Its last layer learns from there, and the others with it."""
    last = network.weights[-1], network.biases[-1]
    return eqx.tree_at(lambda net: (net.weights[-1], net.biases[-1]), network, tuple(map(jnp.zeros_like, last)))


def actor_loss(
    agent: Tethered, penalty: Penalty, step: MLP, critics: Critics, batch: Batch, key: Key
) -> tuple[jax.Array, Metrics]:
    policy = acting_of(agent, anchors_of(penalty, batch), step)
    mean, room = policy.room(batch.observation)
    share = step(batch.observation)
    noise = agent.actor_noise * jnp.clip(jax.random.normal(key, share.shape), -2.0, 2.0)
    value = jnp.mean(critics(batch.observation, policy.bounded(mean + room * (share + noise))), axis=0)
    bonus = 0.5 * jnp.sum(jnp.square(agent.reach * share), axis=-1)
    loss = -jnp.mean(unit_size(value) - agent.bonus_weight_actor * bonus)
    return loss, {
        "actor/loss": loss,
        "actor/q": jnp.mean(value),
        "actor/bonus": jnp.mean(bonus),
        "actor/data_distance": data_distance(policy.bounded(mean + room * share), batch.action),
    }


def no_cost(rows: Batch, action: jax.Array, proposed: jax.Array, key: Key) -> NextCostValue:
    return jnp.zeros_like(rows.reward), {}

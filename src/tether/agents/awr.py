"""AWR, advantage-weighted regression (Peng et al. 2019): cloning, the more of an action the more it earned.

    returns       R_t = r_t + discount (1 - terminated) ((1 - lambda) V(s_t+1) + lambda R_t+1),   TD(lambda) over episodes
    value loss    E[(R - V(s))^2]
    actor loss    - E[min(exp(beta A), 20) log pi(a|s)],   A = R - V(s), over all rows of mean 0 and deviation 1

Returns and weights are those of the V at the last refresh, over the whole log at once, as in the authors' code. At a time limit V
of what comes next stands for the rest.
Differs from the authors' code: Adam in place of SGD with momentum; an update is one step of V and one of the actor, where they
take 200 of V, then compute the advantages, then take 1,000 of the actor, so that weights here are by a V of up to 1,000 steps
before (in the first 1,000 by one that has learnt nothing); V learns the returns as they are, theirs scaled by 1 - discount; the
mean stays within the bounds by tanh, theirs is linear with a loss for leaving them; the std is learned, theirs a constant of each
task, as are its rates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax

from tether.agents.actor_critic import batch_number
from tether.agents.base import AgentTraits
from tether.agents.weighted_cloning import Clone, advantage_weight, make_clone, weighted_cloning_loss
from tether.networks import MLP, Layers, make_mlp, observation_scaler
from tether.optimisation import ADAM, Optimiser, copy_of, mix
from tether.policies.deterministic import Deterministic
from tether.settings import Amount, Share, ShareBelowOne, Size
from tether.types import Batch, Key, Metrics, Penalty, Problem

BLOCK = 65_536  # rows valued at once
SMALLEST_DEVIATION = 1e-5


class AWRState(NamedTuple):
    actor: Clone
    target_actor: Clone  # a slow average, never trained on
    value: MLP
    returns: jax.Array  # (N,) of every row of the log, since the last refresh
    weights: jax.Array  # (N,)
    actor_optimiser: optax.OptState
    value_optimiser: optax.OptState


@dataclass(frozen=True)
class AWR:
    """Every knob of the agent; the authors' values, but for the rates, which are Adam's."""

    traits: ClassVar[AgentTraits] = AgentTraits(
        policies=("online", "target"),
        main_policy="online",
        usual_bonus="none",
        reward_scaling="none",
        values_of_rewards=True,
        columns=("row", "has_next_action"),
    )

    trace_decay: Share = 0.95  # lambda
    inverse_temperature: Amount = 1.0  # of the advantage in its standard deviations
    most_weight: Amount = 20.0  # of a row
    bonus_weight_actor: Amount = 0.0  # of the mean action's bonus
    refresh_every: Size = 1_000  # steps between two computations of all returns and weights
    batch_size: Size = 256
    hidden_sizes: tuple[Size, ...] = (128, 64)  # relu
    learning_rate_actor: Amount = 3e-4
    learning_rate_value: Amount = 1e-3
    discount: ShareBelowOne = 0.99  # gamma
    target_mix: Share = 0.005  # share of the online weights mixed into the slow average at each step
    normalise_observations: bool = True  # the authors' code does
    optimiser: Optimiser = ADAM

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return 1, self.batch_size

    def init(self, key: Key, problem: Problem) -> AWRState:
        key_actor, key_value = jax.random.split(key)
        layers = Layers(self.hidden_sizes, scaler=observation_scaler(problem, self.normalise_observations))
        actor = make_clone(key_actor, problem.spec, layers)
        value = make_mlp(key_value, problem.spec.observation_size, layers, 1)
        size = problem.rows.reward.shape[0]
        return AWRState(
            actor=actor,
            target_actor=copy_of(actor),
            value=value,
            returns=jnp.zeros(size),
            weights=jnp.ones(size),
            actor_optimiser=self.optimiser.start(actor, self.learning_rate_actor, problem.steps),
            value_optimiser=self.optimiser.start(value, self.learning_rate_value, problem.steps),
        )

    def refresh(self, state: AWRState, rows: Any) -> AWRState:
        """Returns and weights of all rows by the V that there is now."""
        here, after = (value_of_all(state.value, column) for column in (rows.observation, rows.next_observation))
        returns = lambda_returns(rows, after, self.discount, self.trace_decay)
        advantage = returns - here
        unit = (advantage - jnp.mean(advantage)) / (jnp.std(advantage) + SMALLEST_DEVIATION)
        return state._replace(returns=returns, weights=advantage_weight(unit, self.inverse_temperature, self.most_weight))

    def update(self, state: AWRState, batches: Batch, key: Key, penalty: Penalty) -> tuple[AWRState, Metrics]:
        batch: Any = batch_number(batches, 0)
        returns, weights = state.returns[batch.row], state.weights[batch.row]

        def value_loss(value: MLP) -> tuple[jax.Array, jax.Array]:
            found = value(batch.observation)[:, 0]
            return jnp.mean(jnp.square(returns - found)), jnp.mean(found)

        (loss, mean_value), gradient = jax.value_and_grad(value_loss, has_aux=True)(state.value)
        value, value_optimiser = self.optimiser.step(state.value, gradient, state.value_optimiser, self.learning_rate_value)
        gradient, metrics = jax.grad(weighted_cloning_loss, has_aux=True)(
            state.actor, batch, weights, key, penalty, self.bonus_weight_actor
        )
        actor, actor_optimiser = self.optimiser.step(state.actor, gradient, state.actor_optimiser, self.learning_rate_actor)
        state = state._replace(
            actor=actor,
            target_actor=mix(state.target_actor, actor, self.target_mix),
            value=value,
            actor_optimiser=actor_optimiser,
            value_optimiser=value_optimiser,
        )
        return state, metrics | {"critic/loss": loss, "critic/q": mean_value, "critic/target": jnp.mean(returns)}

    def policies(self, state: AWRState, penalty: Penalty) -> dict[str, Deterministic]:
        return {"online": state.actor.mean, "target": state.target_actor.mean}

    def value(self, state: AWRState, observation: jax.Array, action: jax.Array) -> jax.Array:
        """What the log's own policy is worth here, whatever the action: it has no other value."""
        return state.value(observation)[:, 0]


def value_of_all(value: MLP, observation: jax.Array) -> jax.Array:
    """`(N, O) -> (N,)`, in blocks: the hidden layers of a large log would not fit at once."""
    return jax.lax.map(lambda row: value(row[None, :])[0, 0], observation, batch_size=BLOCK)


def lambda_returns(rows: Any, next_value: jax.Array, discount: float, trace_decay: float) -> jax.Array:
    """TD(lambda) returns of every row, `(N,)`; the rows are in their order, episode after episode.

    Backwards over the log they are R_t = constant_t + slope_t R_t+1, with slope 0 where an episode ends: a scan of affine maps.
    """
    goes_on = discount * (1.0 - rows.terminated)
    decay = trace_decay * rows.has_next_action
    slope, constant = goes_on * decay, rows.reward + goes_on * (1.0 - decay) * next_value

    def after(later: tuple[jax.Array, jax.Array], earlier: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        return earlier[0] * later[0], earlier[1] + earlier[0] * later[1]

    return jax.lax.associative_scan(after, (slope, constant), reverse=True)[1]

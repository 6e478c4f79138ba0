"""The probe (SPEC section 3): where does an actor go that minimises the bonus and nothing else?

A bonus that tells pairs apart may still lead an actor astray: it must also have its low places where the data is, and slopes that
lead there. The probe starts as TD3's actor does and follows the bonus alone; behaviour cloning, the same actor led by the data
itself, is what it can hope for. Of discrete actions it takes the one with the lowest bonus, and there is nothing to learn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from tether.agents import BC
from tether.agents.td3 import ACTIVATIONS, TD3
from tether.bonuses import Bonus, FrozenBonus, NoBonus
from tether.data.dataset import Dataset
from tether.networks import Actor, Greedy, make_actor, penalties
from tether.optimisation import adam_init, adam_step
from tether.policy import act
from tether.training.fit import FittedBonus
from tether.training.loop import initial_state, run_keys, sample_rows, train_epoch
from tether.types import Batch, Key

EPOCH_STEPS = 500

OnEpoch = Callable[[int], None]


@dataclass(frozen=True)
class Distances:
    """Mean squared distance to the recorded actions of held-out episodes, summed over action dimensions.

    Of discrete actions, which are one-hot rows, it is twice the share that differs.
    """

    probe: float
    cloning: float  # BC's, as many gradient steps
    uniform: float  # of actions drawn uniformly within the bounds, or from the choices

    @property
    def share(self) -> float:
        """0 where the probe is as near as cloning, 1 where it is as far as chance."""
        return (self.probe - self.cloning) / (self.uniform - self.cloning)


def probe(fitted: FittedBonus, kept: Dataset, steps: int, seed: int, on_epoch: OnEpoch) -> Actor:
    """The actor after `steps` gradient steps down the bonus, at the observations of `kept`."""
    key_init, key_steps = jax.random.split(jax.random.key(seed))
    agent = TD3()
    actor = make_actor(key_init, kept.spec, agent.hidden_sizes, ACTIVATIONS)
    carry = actor, adam_init(actor, agent.learning_rate_actor)
    transitions = Batch(*map(jnp.asarray, kept.transitions))
    for step in range(0, steps, EPOCH_STEPS):
        count = min(EPOCH_STEPS, steps - step)
        carry = _descend(fitted.bonus, fitted.state, carry, transitions, key_steps, step, count)
        jax.block_until_ready(carry)
        on_epoch(step + count)
    return carry[0]


@partial(jax.jit, static_argnames=("bonus", "count"))
def _descend(
    bonus: Bonus, state: Any, carry: tuple[Actor, optax.OptState], transitions: Batch, key: Key, step: int, count: int
) -> tuple[Actor, optax.OptState]:
    agent = TD3()

    def one(carry: tuple[Actor, optax.OptState], number: jax.Array) -> tuple[tuple[Actor, optax.OptState], None]:
        actor, optimiser = carry
        key_rows, key_score = jax.random.split(jax.random.fold_in(key, number))
        observation = sample_rows(transitions, key_rows, (agent.batch_size,)).observation

        def loss_of(actor: Actor) -> jax.Array:
            return jnp.mean(bonus.score(state, observation, actor(observation), key_score))

        return adam_step(actor, jax.grad(loss_of)(actor), optimiser, agent.learning_rate_actor), None

    return jax.lax.scan(one, carry, step + jnp.arange(count))[0]


class Lowest(eqx.Module):
    """The probe of discrete actions: the choice with the lowest bonus."""

    penalty: FrozenBonus
    choices: int = eqx.field(static=True)

    def __call__(self, observation: jax.Array) -> jax.Array:
        """`(B, O) -> (B, A)`, one-hot."""
        scores = penalties(self.penalty, observation, self.choices, jax.random.key(0))
        return jax.nn.one_hot(jnp.argmin(scores, axis=1), self.choices)


def clone(kept: Dataset, steps: int, seed: int, on_epoch: OnEpoch) -> Actor | Greedy:
    """Behaviour cloning for as many gradient steps."""
    agent = BC()
    state = initial_state(agent, (), kept.spec, seed)
    _, key = run_keys(seed)
    transitions = Batch(*map(jnp.asarray, kept.transitions))
    for step in range(0, steps, EPOCH_STEPS):
        count = min(EPOCH_STEPS, steps - step)
        state, _ = train_epoch(agent, NoBonus(), state, transitions, key, count)
        on_epoch(step + count)
    return state.agent.actor


def distances(probed: Actor | Lowest, cloned: Actor | Greedy, held_out: Dataset, seed: int) -> Distances:
    """Of all three from the recorded actions."""
    observation, action = (np.asarray(held_out.transitions[column]) for column in (0, 1))
    random, spec = np.random.default_rng(seed), held_out.spec
    if spec.discrete:
        uniform = np.eye(spec.action_size)[random.integers(spec.action_size, size=len(action))]
    else:
        uniform = random.uniform(spec.action_low, spec.action_high, action.shape)

    def distance(other: np.ndarray) -> float:
        return float(np.mean(np.sum(np.square(other - action), axis=1)))

    led = [distance(np.asarray(act(actor, observation))) for actor in (probed, cloned)]
    return Distances(probe=led[0], cloning=led[1], uniform=distance(uniform))

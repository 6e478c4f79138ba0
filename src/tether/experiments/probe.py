"""The probe (SPEC section 3): where does an actor go that minimises the bonus and nothing else?

A bonus that tells pairs apart may still lead an actor astray: it must also have its low places where the data is, and slopes that
lead there. The probe starts as TD3's actor does and follows the bonus alone; behaviour cloning, the same actor led by the data
itself, is what it can hope for. Of discrete actions it takes the one with the lowest bonus, and there is nothing to learn.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from tether.agents.bc import BC
from tether.agents.td3 import ACTIVATIONS, TD3
from tether.bonuses import FrozenBonus
from tether.bonuses.base import GRADIENT, novelties
from tether.data.dataset import Dataset
from tether.networks import Layers
from tether.optimisation import ADAM
from tether.policies import Deterministic, act
from tether.policies.deterministic import make_deterministic
from tether.progress import progress
from tether.training.fit import FittedBonus
from tether.training.lesson import Lesson
from tether.training.loop import fresh_state, learn, run_keys
from tether.training.sources import Rows
from tether.types import Batch, Key, Metrics, Problem

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


class ProbeState(NamedTuple):
    actor: Deterministic
    optimiser: optax.OptState


@dataclass(frozen=True)
class Probe:
    """TD3's actor, learning from the bonus alone."""

    like: TD3 = field(default_factory=TD3)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return (self.like.batch_size,)

    def init(self, key: Key, problem: Problem) -> ProbeState:
        actor = make_deterministic(key, problem.spec, Layers(self.like.hidden_sizes, ACTIVATIONS))
        return ProbeState(actor, ADAM.start(actor, self.like.learning_rate_actor))

    def update(self, state: ProbeState, batch: Batch, key: Key, penalty: FrozenBonus) -> tuple[ProbeState, Metrics]:
        def loss_of(actor: Deterministic) -> jax.Array:
            return jnp.mean(penalty(batch.observation, actor(batch.observation), key))

        loss, gradient = jax.value_and_grad(loss_of)(state.actor)
        return ProbeState(*ADAM.step(state.actor, gradient, state.optimiser, self.like.learning_rate_actor)), {"actor/loss": loss}


def probe(fitted: FittedBonus, kept: Dataset, steps: int, seed: int, on_epoch: OnEpoch, like: TD3 | None = None) -> Deterministic:
    """The actor after `steps` gradient steps down the bonus, at the observations of `kept`."""
    probing, (key_init, key_steps) = Probe(like or TD3()), run_keys(seed)
    with closing(Rows(kept.transitions)) as rows:
        state = fresh_state(probing, key_init, Problem(kept.spec, rows.sample(), steps))
        for epoch in learn(probing, state, rows, key_steps, end=steps, epoch_steps=EPOCH_STEPS, given=(fitted.penalty,)):
            state = epoch.state
            on_epoch(epoch.step)
    return state.actor


class Lowest(eqx.Module):
    """The probe of discrete actions: the choice with the lowest bonus."""

    penalty: FrozenBonus
    choices: int = eqx.field(static=True)

    def __call__(self, observation: jax.Array) -> jax.Array:
        """`(B, O) -> (B, A)`, one-hot."""
        bonuses = novelties(self.penalty, observation, self.choices, jax.random.key(0))
        return jax.nn.one_hot(jnp.argmin(bonuses, axis=1), self.choices)


def clone(kept: Dataset, steps: int, seed: int, on_epoch: OnEpoch, agent: BC | None = None) -> Any:
    """Behaviour cloning for as many gradient steps."""
    with closing(Lesson(agent or BC(), kept, None, seed, steps)) as lesson:
        for epoch in lesson.epochs(lesson.fresh(), 0, EPOCH_STEPS):
            on_epoch(epoch.step)
        return lesson.policy(epoch.state, "online", epoch.step, kept.env_id).actor


def led_by(fitted: FittedBonus, dataset: Dataset, steps: int, seed: int, title: str) -> Any:
    """What follows the bonus alone, shown under `title` where it has to learn; None where the bonus has no slopes to follow."""
    if dataset.spec.discrete:
        return Lowest(fitted.penalty, dataset.spec.action_size)
    if GRADIENT not in fitted.bonus.traits.offers:
        return None
    with progress(title, steps) as bar:
        return probe(fitted, dataset, steps, seed, bar.update)


def distances(probed: Any, cloned: Any, held_out: Dataset, seed: int) -> Distances:
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

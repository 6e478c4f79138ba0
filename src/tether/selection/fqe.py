"""Fitted Q evaluation (Le et al. 2019): what a fixed policy is worth, learnt from the log alone.

    y = r + discount (1 - terminated) Qbar(s', pi(s'))

An ensemble, each member with weights of its own and its own bootstrap of the episodes, so that its spread says how much the
answer hangs on which episodes were recorded. The policy is fixed, so its actions are computed once, for all rows: what is
compiled is the same for every policy, and for the log's own next actions.

Made to settle in some thousand steps: targets follow fast (at a mix of 0.005, values take 40,000 steps to cross a horizon of
100), Q starts at what an average row is worth and in units of what rewards add up to, beginnings of episodes are drawn more
often, and the step size falls to nothing at the end. Targets beyond what the recorded rewards can add up to are cut off there:
fitted Q evaluation may diverge, and then must not pass for a policy without bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from tether.data.columns import has_next_action, next_action
from tether.data.dataset import Dataset
from tether.data.selected import select
from tether.errors import TetherError
from tether.networks import Critics, Layers, make_critics, observation_scaler
from tether.optimisation import Optimiser, copy_of, mix
from tether.settings import Amount, Seed, Share, ShareBelowOne, Size
from tether.training.divergence import all_finite
from tether.training.loop import agent_epoch, fresh_state, learn, run_keys
from tether.training.sources import Rows
from tether.types import Key, Metrics, Problem, batch_type

EPOCH_STEPS = 500
PIECE = 4_096  # rows asked at once
BEGINNING = 20  # steps at the start of an episode
BEGINNINGS = 0.2  # the least share of them among the rows that are learnt from

Acts = Callable[[np.ndarray], np.ndarray]  # (B, O) -> (B, A)
OnEpoch = Callable[[int, dict[str, float]], None]

_Rows: Any = batch_type(("next_action", "member_weights"))  # (B, A); (B, members), 0 where a member does not see the row
_ADAM = Optimiser(schedule="cosine")


class FittedQState(NamedTuple):
    critics: Critics  # of (Q - level) / unit
    target_critics: Critics
    optimiser: optax.OptState
    level: jax.Array  # () what an average row is worth
    unit: jax.Array  # () what rewards differ by, added up over the horizon
    low: jax.Array  # () the least and the most that recorded rewards can add up to
    high: jax.Array


@dataclass(frozen=True)
class FittedQ:
    """A learner like any other (`training/loop.py`); rewards are taken as they were recorded."""

    steps: Size = 5_000
    members: Size = 4
    batch_size: Size = 256
    hidden_sizes: tuple[Size, ...] = (64, 64)  # relu, layer norm after each
    learning_rate: Amount = 1e-3  # falls to 0
    target_mix: Share = 0.1
    discount: ShareBelowOne = 0.99
    seed: Seed = 0

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return (self.batch_size,)

    def init(self, key: Key, problem: Problem) -> FittedQState:
        reward, ended = problem.rows.reward, jnp.mean(problem.rows.terminated)
        critics = make_critics(
            key, problem.spec, self.members, Layers(self.hidden_sizes, norm="every", scaler=observation_scaler(problem, True))
        )
        # Of a process that pays the mean reward and ends as often as the data does; its noise is that of independent rewards.
        level = jnp.mean(reward) / (1.0 - self.discount * (1.0 - ended))
        unit = jnp.std(reward) / (1.0 - self.discount**2) ** 0.5
        unit = jnp.where(unit > 1e-6 * jnp.abs(level), unit, jnp.maximum(jnp.abs(level), 1e-6))
        least, most = jnp.min(reward), jnp.max(reward)
        low = jnp.minimum(least, least / (1.0 - self.discount))
        high = jnp.maximum(most, most / (1.0 - self.discount))
        optimiser = _ADAM.start(critics, self.learning_rate, problem.steps)
        return FittedQState(critics, copy_of(critics), optimiser, level, unit, low, high)

    def update(self, state: FittedQState, batch: Any, key: Key) -> tuple[FittedQState, Metrics]:
        after = state.level + state.unit * state.target_critics(batch.next_observation, batch.next_action)
        wanted = batch.reward[None] + self.discount * (1.0 - batch.terminated)[None] * after
        target = jnp.clip(wanted, state.low, state.high)
        aim, weight = (target - state.level) / state.unit, batch.member_weights.T

        def loss_of(critics: Critics) -> jax.Array:
            return jnp.mean(weight * jnp.square(critics(batch.observation, batch.action) - aim))

        loss, gradient = jax.value_and_grad(loss_of)(state.critics)
        critics, optimiser = _ADAM.step(state.critics, gradient, state.optimiser, self.learning_rate)
        targets = mix(state.target_critics, critics, self.target_mix)
        metrics = {"fqe/loss": loss, "fqe/value": jnp.mean(target), "fqe/cut_off": jnp.mean(wanted != target)}
        return state._replace(critics=critics, target_critics=targets, optimiser=optimiser), metrics

    def value(self, state: FittedQState, observation: jax.Array, action: jax.Array) -> jax.Array:
        """Of each member: `(B, O), (B, A) -> (members, B)`, in the log's own rewards."""
        return state.level + state.unit * state.critics(observation, action)


@dataclass(frozen=True)
class Evaluated:
    """The Q-functions of one policy, by each member."""

    fqe: FittedQ
    state: FittedQState
    history: list[dict[str, float]]  # one record an epoch

    def value(self, observation: np.ndarray, action: np.ndarray) -> np.ndarray:
        """`(members, B)`."""
        pieces = [
            np.asarray(_value(self.fqe, self.state, *_padded(observation[start : start + PIECE], action[start : start + PIECE])))
            for start in range(0, len(observation), PIECE)
        ]
        return np.concatenate(pieces, axis=1)[:, : len(observation)].astype(np.float64)


def evaluate_policy(fqe: FittedQ, log: Dataset, acts: Acts | None, on_epoch: OnEpoch | None = None) -> Evaluated:
    """Learn what the policy is worth from `log`, whose rewards are as recorded. None: whoever made the log.

    For that one, rows whose next action is not recorded are left out.
    """
    key_init, key_steps = run_keys(fqe.seed)
    history: list[dict[str, float]] = []
    with closing(Rows(rows_for(fqe, log, acts))) as rows:
        state = fresh_state(fqe, key_init, Problem(log.spec, rows.sample(), fqe.steps))
        for epoch in learn(fqe, state, rows, key_steps, end=fqe.steps, epoch_steps=EPOCH_STEPS, compiled=agent_epoch):
            state = epoch.state
            if not (all_finite(epoch.metrics) and all_finite(state)):
                raise TetherError(
                    f"fitted Q evaluation on {log.name} left all bounds at step {epoch.step:,}; are its rewards sound?"
                )
            history.append({"step": epoch.step, **epoch.metrics})
            if on_epoch is not None:
                on_epoch(epoch.step, epoch.metrics)
    return Evaluated(fqe, copy_of(state), history)


def actions_at(acts: Acts, observation: Any) -> np.ndarray:
    """Of a policy, at any number of observations, wherever they are."""
    pieces = []
    for start in range(0, len(observation), PIECE):
        rows = np.asarray(observation[start : start + PIECE], np.float32)
        pieces.append(np.asarray(acts(_padded(rows)[0]))[: len(rows)])
    return np.concatenate(pieces).astype(np.float32)


def rows_for(fqe: FittedQ, log: Dataset, acts: Acts | None) -> Any:
    """The log with the policy's next actions, or its own, and with how often each member sees a row."""
    weights, rows = bootstrap(log, fqe.members, fqe.seed), log.transitions
    if acts is not None:
        after = actions_at(acts, rows.next_observation)
    else:
        after = next_action(log, fqe.discount)
        known = np.maximum(has_next_action(log, fqe.discount), np.asarray(rows.terminated))
        weights = weights * known[:, None]
    numbers = with_beginnings(log)
    return _Rows(*(select(column, numbers) for column in (*rows, after, weights)))


def with_beginnings(log: Dataset) -> np.ndarray:
    """The numbers of all rows, and those of episodes' first steps again and again until these are a fifth of all.

    The answer is asked there, and where episodes are long hardly a row in a hundred is one.
    """
    age = np.arange(log.size) - np.repeat(log.episode_starts, log.episode_ends - log.episode_starts)
    first = np.flatnonzero(age < BEGINNING)
    more = max(int(np.ceil(BEGINNINGS * (log.size - len(first)) / (1.0 - BEGINNINGS))) - len(first), 0)
    return np.concatenate([np.arange(log.size), np.resize(first, more)])


def bootstrap(log: Dataset, members: int, seed: int) -> np.ndarray:
    """(N, members) how often each member sees the row: whole episodes are drawn, since rows of one are alike.

    With one episode there is nothing to draw from, and members differ by their first weights alone.
    """
    episodes = len(log.episode_ends)
    if episodes == 1:
        return np.ones((log.size, members), np.float32)
    drawn = np.random.default_rng(seed).multinomial(episodes, np.full(episodes, 1.0 / episodes), size=members)
    return np.repeat(drawn.T.astype(np.float32), log.episode_ends - log.episode_starts, axis=0)


def _padded(*columns: np.ndarray) -> list[np.ndarray]:
    """Rows of zeros behind, so that all pieces have one size and compile once."""
    return [np.pad(np.asarray(column, np.float32), ((0, PIECE - len(column)), (0, 0))) for column in columns]


@partial(jax.jit, static_argnames="fqe")
def _value(fqe: FittedQ, state: FittedQState, observation: jax.Array, action: jax.Array) -> jax.Array:
    return fqe.value(state, observation, action)

"""What every bonus of the registry must do. A new bonus is held to this by being in `BONUSES`."""

from __future__ import annotations

from dataclasses import fields, make_dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from problems import (
    ROWS,
    SPEC,
    as_dataset,
    blob_action,
    constant_reward,
    rows_for,
    small,
    two_blobs,
    uniform_actions,
    with_one_setting_changed,
)

from tether.bonuses import ANCHOR, BONUSES, GRADIENT, LOG_PROBABILITY, SAMPLES, VALUE
from tether.data.transforms import split_episodes
from tether.networks import Layers
from tether.optimisation import ADAM
from tether.policies import Deterministic, act
from tether.policies.deterministic import make_deterministic
from tether.training.fit import FittedBonus, fit_bonus
from tether.training.loop import epoch
from tether.types import Batch, Key, Problem

SCORING = [name for name in BONUSES if name != "none"]  # those that tell pairs apart
SMOOTH = [name for name in SCORING if GRADIENT in BONUSES[name].traits.offers]
LOOP_SETTINGS = {"steps", "held_out_share", "seed"}  # read by the loop around the program; see the tests of fits below

every_bonus = pytest.mark.parametrize("name", BONUSES)
every_scoring_bonus = pytest.mark.parametrize("name", SCORING)
every_smooth_bonus = pytest.mark.parametrize("name", SMOOTH)


def blobs(name: str) -> Batch:
    """The two blobs; for exact counts on a grid, since they know only what repeats."""
    rows = two_blobs()
    if name != "count-exact":
        return rows
    return rows._replace(observation=jnp.round(rows.observation), action=jnp.round(2.0 * rows.action) / 2.0)


@cache
def fitted(name: str) -> FittedBonus:
    """The bonus fitted to the two blobs: once for all tests."""
    return fit_bonus(small(BONUSES[name]), as_dataset(blobs(name)))


def assert_same(left: Any, right: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, left, right)


@cache
def program(bonus: Any) -> str:
    """The text of all that the bonus computes: its first state, an epoch of its fit, and scores."""

    def whole(key: Key, rows: Batch) -> Any:
        key_init, key_steps, key_value = jax.random.split(key, 3)
        fitting, numbers = bonus.init(key_init, Problem(SPEC, rows)), jnp.zeros((3, *bonus.batch_shape), jnp.int32)
        fitting, metrics = epoch.__wrapped__(bonus, fitting, rows, numbers, key_steps, jnp.zeros((), jnp.int32), 1, ())
        return metrics, bonus.novelty(bonus.frozen(fitting), rows.observation, rows.action, key_value)

    traced = jax.make_jaxpr(whole)(jax.random.key(0), rows_for(bonus, constant_reward()))
    return f"{traced.jaxpr} {traced.consts}"


@pytest.mark.parametrize(
    ("name", "setting"),
    [(name, field.name) for name, kind in BONUSES.items() for field in fields(kind) if field.name not in LOOP_SETTINGS],
)
def test_every_setting_changes_the_program(name, setting):
    bonus = small(BONUSES[name])
    assert program(bonus) != program(with_one_setting_changed(bonus)[setting])


@every_scoring_bonus
def test_a_forgotten_setting_would_be_seen(name):
    forgetful = small(make_dataclass("Forgetful", [("forgotten", float, 1.0)], bases=(BONUSES[name],), frozen=True))
    assert program(forgetful) == program(with_one_setting_changed(forgetful)["forgotten"])


@every_bonus
def test_a_score_a_row_finite_and_not_negative(name):
    random = np.random.default_rng(0)
    observation, action = random.normal(size=(300, 2)), random.uniform(SPEC.action_low, SPEC.action_high, (300, 2))
    corners = np.array([[-1.0, 0.0], [-1.0, 4.0], [1.0, 0.0], [1.0, 4.0]])
    for observations, actions in [(observation, action), (1e4 * observation, action), (np.zeros((4, 2)), corners)]:
        score = fitted(name).novelty(observations, actions)
        assert score.shape == (len(actions),)
        assert np.isfinite(score).all()
        assert (score >= 0.0).all()


@every_smooth_bonus
def test_the_gradient_in_the_action_is_finite_and_not_zero(name):
    bonus, state = fitted(name).bonus, fitted(name).state
    observation, action = two_blobs().observation, jnp.asarray(uniform_actions(), jnp.float32)
    slope = jax.jit(jax.grad(lambda action: jnp.sum(bonus.novelty(state, observation, action, jax.random.key(0)))))(action)
    assert np.isfinite(slope).all()
    assert (np.abs(slope).max(axis=1) > 1e-6).all()


@every_scoring_bonus
def test_it_is_higher_off_the_data_than_on_it(name):
    rows = blobs(name)
    observation = np.asarray(rows.observation)
    on_data = fitted(name).novelty(observation, np.asarray(rows.action))
    for elsewhere in (blob_action(-observation), uniform_actions()):  # the other blob's action is known, but not here
        off_data = fitted(name).novelty(observation, elsewhere)
        assert np.median(off_data) > 10 * np.median(on_data)
        assert off_data.mean() > (10 if name in SMOOTH else 5) * on_data.mean()  # what shares a bucket shares its score


@every_smooth_bonus
def test_an_actor_that_minimises_only_the_bonus_finds_the_actions_of_the_data(name):
    bonus, state, observation = fitted(name).bonus, fitted(name).state, two_blobs().observation

    @jax.jit
    def probe(key: Key) -> tuple[Deterministic, Deterministic]:
        key_actor, key_steps = jax.random.split(key)
        first = make_deterministic(key_actor, SPEC, Layers((16,), ("tanh",)))

        def step(carry: Any, number: jax.Array) -> tuple[Any, None]:
            actor, optimiser = carry
            key = jax.random.fold_in(key_steps, number)
            slope = jax.grad(lambda actor: jnp.mean(bonus.novelty(state, observation, actor(observation), key)))(actor)
            return ADAM.step(actor, slope, optimiser, 1e-2), None

        (last, _), _ = jax.lax.scan(step, (first, ADAM.start(first, 1e-2)), jnp.arange(500))
        return first, last

    expected, left = blob_action(np.asarray(observation)), np.asarray(observation)[:, 0] < 0
    before, after = (np.asarray(act(actor, observation)) for actor in probe(jax.random.key(0)))
    assert np.abs(before - expected).mean() > 0.4  # where it starts, nothing is found yet
    assert np.abs(after - expected).mean() < 0.1
    close = 0.075 * (np.asarray(SPEC.action_high) - SPEC.action_low)  # 15 % of half the range of each action
    assert (np.abs(after[left].mean(axis=0) - [-0.5, 1.0]) < close).all()
    assert (np.abs(after[~left].mean(axis=0) - [0.5, 3.0]) < close).all()


@every_bonus
def test_the_same_seed_makes_the_same_fit(name):
    assert_same(fit_bonus(small(BONUSES[name]), as_dataset(blobs(name))).state, fitted(name).state)


@every_scoring_bonus
def test_another_seed_makes_another_fit(name):
    unfitted = {"steps": 0} if BONUSES[name]().steps else {}
    first, other = (fit_bonus(small(BONUSES[name], seed=seed, **unfitted), as_dataset(blobs(name))).state for seed in (0, 1))
    pairs = zip(jax.tree.leaves(first), jax.tree.leaves(other), strict=True)
    assert not all(np.array_equal(one, another) for one, another in pairs)


@every_scoring_bonus
def test_held_out_episodes_are_judged_by_and_never_fitted_to(name):
    bonus, dataset = small(BONUSES[name]), as_dataset(blobs(name))
    numbered = as_dataset(dataset.transitions._replace(reward=np.arange(ROWS)))  # to see which rows the split holds out
    _, held_out = split_episodes(numbered, bonus.held_out_share, bonus.seed)
    out = np.isin(np.arange(ROWS), held_out.transitions.reward)
    assert 0 < out.sum() < ROWS / 2

    def with_other_actions(rows: np.ndarray) -> FittedBonus:
        action = np.where(rows[:, None], dataset.transitions.action[::-1], dataset.transitions.action)
        return fit_bonus(bonus, as_dataset(dataset.transitions._replace(action=action)))

    same = with_other_actions(out)
    assert_same(same.state, fitted(name).state)
    assert same.report.held_out_mean > (10 if name in SMOOTH else 5) * fitted(name).report.held_out_mean
    changed = with_other_actions(~out).state
    pairs = zip(jax.tree.leaves(changed), jax.tree.leaves(fitted(name).state), strict=True)
    assert not all(np.array_equal(one, another) for one, another in pairs)


@every_bonus
def test_a_frozen_state_carries_no_optimiser(name):
    moments = (optax.ScaleByAdamState, optax.TraceState, optax.ScaleByRmsState)
    nodes = jax.tree.leaves(fitted(name).state, is_leaf=lambda node: isinstance(node, moments))
    assert not any(isinstance(node, moments) for node in nodes)


@every_bonus
def test_a_fit_says_what_it_did(name):
    report = fitted(name).report
    assert report.steps == fitted(name).bonus.steps
    if name in SCORING:
        assert report.auroc["uniform"] > (0.95 if name in SMOOTH else 0.85)


@every_bonus
def test_it_offers_what_it_says(name):
    bonus, offers = fitted(name).bonus, BONUSES[name].traits.offers
    assert {VALUE} <= offers <= {VALUE, GRADIENT, SAMPLES, LOG_PROBABILITY, ANCHOR}
    assert hasattr(bonus, "sample") == (SAMPLES in offers)
    assert hasattr(bonus, "log_probability") == (LOG_PROBABILITY in offers)
    assert hasattr(bonus, "anchor") == (ANCHOR in offers)
    if ANCHOR in offers:
        observation = two_blobs().observation
        mean, std = bonus.anchor(fitted(name).state, observation)
        assert np.abs(np.asarray(mean) - blob_action(np.asarray(observation))).mean() < 0.2
        assert (np.asarray(std) > 0).all()
    if SAMPLES in offers:
        observation = two_blobs().observation
        drawn = np.asarray(bonus.sample(fitted(name).state, observation, jax.random.key(0)))
        assert np.abs(drawn - blob_action(np.asarray(observation))).mean() < 0.2

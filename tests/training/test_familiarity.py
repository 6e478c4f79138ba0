"""A trained policy knows what it has seen, or says why not."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from problems import SPEC, as_dataset, constant_reward, small, two_blobs

import tether
from tether.data.transforms import split_episodes
from tether.errors import TetherError
from tether.networks import MLP
from tether.policies import Deterministic, Policy
from tether.runtime.experience import blindness
from tether.training.familiarity import experience_of, ranges, with_experience
from tether.training.fit import FitReport, FittedBonus, fit_bonus

# Always in the middle of the bounds.
ACTOR = Policy(
    Deterministic(MLP((jnp.zeros((2, 2)),), (jnp.zeros(2),), None, ("tanh",)), SPEC.action_low, SPEC.action_high), SPEC
)


@pytest.fixture(scope="module")
def known() -> tuple[Policy, tether.Dataset]:
    """A policy with the experience of half of the episodes, and the other half."""
    data, fresh = split_episodes(as_dataset(two_blobs()), 0.5, seed=5)
    bonus = fit_bonus(small(tether.Density, steps=200, held_out_share=0.25), data)
    return replace(ACTOR, experience=experience_of(ACTOR, bonus, data)), fresh


def test_on_fresh_recorded_pairs_it_is_uniform_and_on_shifted_ones_it_falls(known):
    policy, fresh = known
    observation, action = fresh.transitions.observation, fresh.transitions.action
    found = np.sort(policy.familiarity(observation, action))
    number, held_out = len(found), policy.experience.pairs
    # Kolmogorov and Smirnov's distance: a chance of 1e-4 to be above 2.2 times this, of two samples of these sizes.
    unit = np.sqrt((number + held_out) / (number * held_out))
    assert np.abs(found - (np.arange(number) + 0.5) / number).max() < 2.2 * unit
    away = np.clip(action + 0.5 * np.sign(np.mean(action, axis=0) - action), SPEC.action_low, SPEC.action_high)
    assert np.median(policy.familiarity(observation, away)) < 0.1


def test_what_is_known_is_what_was_recorded(known):
    policy, _ = known
    data, _ = split_episodes(as_dataset(two_blobs()), 0.5, seed=5)
    experience = policy.experience
    np.testing.assert_array_equal(experience.low, data.transitions.observation.min(axis=0))
    np.testing.assert_array_equal(experience.high, data.transitions.observation.max(axis=0))
    assert (experience.pairs, experience.episodes) == (64, 1)
    assert experience.observation.shape == (256, 2)


def test_ranges_are_the_same_in_blocks(monkeypatch):
    column = np.random.default_rng(0).normal(size=(1_000, 3))
    monkeypatch.setattr("tether.training.familiarity.BLOCK", 7)
    np.testing.assert_array_equal(ranges(column), np.float32([column.min(axis=0), column.max(axis=0)]))


def test_without_a_bonus_it_says_so():
    data = as_dataset(constant_reward())
    policy = Policy(None, SPEC, {"step": 1})
    assert with_experience(policy, None, data).about == {"step": 1, "no_familiarity": "it was trained without a bonus"}
    none = fit_bonus(tether.NoBonus(), data)
    with pytest.raises(TetherError, match="it was trained without a bonus"):
        experience_of(ACTOR, none, data)


def test_a_bonus_that_saw_every_episode_is_no_measure():
    data = as_dataset(constant_reward())
    learnt = FittedBonus(small(tether.Density, held_out_share=0.0), None, SPEC, FitReport(1_000, 0.0))
    with pytest.raises(TetherError, match=r"fitted to every episode \(bonus\.held_out_share is 0\)"):
        experience_of(ACTOR, learnt, data)


def test_counts_that_saw_every_episode_are_made_anew():
    rows = two_blobs()
    data = as_dataset(rows._replace(observation=np.round(rows.observation), action=np.round(2.0 * rows.action) / 2.0))
    counted = fit_bonus(tether.CountExact(), data)
    experience = experience_of(ACTOR, counted, data)
    assert experience.bonus["held_out_share"] == 0.05
    assert len(experience.state["first"]) < len(counted.state.first)
    assert experience.shares[0] == np.float32(experience.pairs / (experience.pairs + 1))


def test_what_the_bonus_notices_is_measured_and_said(known):
    """A cloned Gaussian looks at the action for the observation: it notices other actions more than other observations."""
    experience = known[0].experience
    assert 0.5 < experience.sight["other actions"] <= 1.0
    blind = replace(experience, sight={"shifted observations": 0.1, "other actions": 0.9})
    assert "density hardly notices observations unlike the data: only 10% of those with a column shifted by 4" in blindness(blind)
    assert blindness(replace(blind, sight={"shifted observations": 0.9})) is None
    assert "only 17 pairs were held out, so that familiarity is never below 0.056" in blindness(replace(blind, pairs=17))

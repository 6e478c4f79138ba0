"""Learning from a dataset: what is counted, what is left alone, and what becomes of a pair that nobody tried."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from two_states import STAY_OR_GO, numbers

from tether.theory import offline, study
from tether.theory.mdps import MDP

# Staying in state 0 pays 1 a step, so 2 in all; going pays nothing, ever. Only staying was tried, four times.
MDP_A = MDP(
    transition=np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]]),
    reward=np.array([[1.0, 0.0], [0.0, 0.0]]),
    discount=np.array(0.5),
)
COUNTS_A = np.array([[[4.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]])
learn = jax.jit(offline.learn)
VISITS_A = np.array([[4.0, 0.0], [0.0, 0.0]])


def test_counts_are_those_of_the_moves():
    # Two MDPs: the first stays, the second goes back and forth. Logs of 1 and of 3 episodes of 3 steps from state 0.
    mdps = MDP(np.stack([STAY_OR_GO] * 2), np.zeros((2, 2, 2)), np.full(2, 0.5))
    behaviour = np.array([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]])
    counts = offline.sample_counts(np.random.default_rng(0), mdps, behaviour, start=0, episodes=(1, 3), length=3)
    stays, goes = np.zeros((2, 2, 2)), np.zeros((2, 2, 2))
    stays[0, 0, 0] = 3.0
    goes[0, 1, 1], goes[1, 1, 0] = 2.0, 1.0
    np.testing.assert_array_equal(counts, [[stays, goes], [3 * stays, 3 * goes]])


def test_moves_have_the_probabilities_of_the_mdp_and_the_behaviour():
    transition = np.array([[[0.0, 0.7, 0.3], [1.0, 0.0, 0.0]]] * 3)[None]
    mdp = MDP(transition, np.zeros((1, 3, 2)), np.array([0.5]))
    counts = offline.sample_counts(np.random.default_rng(0), mdp, np.array([[[0.2, 0.8]] * 3]), 0, (10_000,), 1)[0, 0, 0]
    # 10,000 draws: a standard deviation of at most 0.005
    np.testing.assert_allclose(counts / 10_000, [[0.0, 0.14, 0.06], [0.8, 0.0, 0.0]], atol=0.02)
    assert counts[0, 0] == counts[1, 1] == counts[1, 2] == 0  # what cannot happen does not


def test_the_count_bonus():
    assert offline.count_bonus(jnp.array([0.0, 1.0, 4.0, 100.0]), 7.0).tolist() == [7.0, 1.0, 0.5, 0.1]


def test_the_empirical_model_knows_what_was_seen():
    counts = jnp.array([[[1.0, 3.0], [0.0, 0.0]], [[0.0, 0.0], [2.0, 0.0]]])
    model = offline.empirical_model(MDP(STAY_OR_GO, jnp.array([[1.0, 2.0], [3.0, 4.0]]), jnp.array(0.5)), counts)
    assert model.transition.tolist() == [[[0.25, 0.75], [0.0, 0.0]], [[0.0, 0.0], [1.0, 0.0]]]
    assert model.reward.tolist() == [[1.0, 0.0], [0.0, 4.0]]


def test_three_ways_to_learn_by_hand():
    # Going was never tried; it is thought to be worth 5/2. b = 1/sqrt(4) for staying, 2 for going.
    #   plain         stay = 1 + max(stay, 5/2)/2 = 9/4 < 5/2: goes, and expects 5/2
    #   naive         stay = 1 - 1/2 + (5/2)/2 = 7/4 < 5/2: goes all the more
    #   bootstrapped  stay = 1 + max(stay - 1/2, 5/2 - 2)/2 = 3/2, and 3/2 - 1/2 = 1 > 1/2: stays, and expects 1
    penalty = offline.count_bonus(VISITS_A, 2.0)
    extrapolated = jnp.array([[0.0, 2.5], [0.0, 0.0]])
    learned = learn(offline.empirical_model(MDP_A, COUNTS_A), VISITS_A, extrapolated, penalty)
    action = {method: int(np.argmax(policy[0])) for method, (policy, _) in learned.items()}
    assert action == {"plain": 1, "naive": 1, "bootstrapped": 0}
    expected = {method: float(value[0]) for method, (_, value) in learned.items()}
    assert expected == {"plain": 2.5, "naive": 2.5, "bootstrapped": pytest.approx(1.0)}
    judged = offline.judge(MDP_A, learned, start=0)
    assert {method: float(found["value"]) for method, found in judged.items()} == {
        "plain": 0.0,
        "naive": 0.0,
        "bootstrapped": 2.0,
    }
    assert {method: float(found["overestimate"]) for method, found in judged.items()} == {
        "plain": 2.5,
        "naive": 2.5,
        "bootstrapped": pytest.approx(-1.0),
    }


@settings(max_examples=30, deadline=None)
@given(arrays(np.int64, (2, 2, 2), elements=st.integers(0, 3)), numbers(0.0, 2.0, 2, 2), numbers(0.0, 2.0))
def test_an_unseen_pair_is_taken_only_if_nothing_else_is_known_or_its_bonus_is_small(counts, extrapolated, bonus_weight):
    """With values from 0 to 2 and weight times the bonus of the unseen above 2, bootstrapped never leaves the data."""
    visits = jnp.asarray(counts.sum(axis=-1), float)
    penalty = jnp.where(visits > 0, 0.0, 2.0 + bonus_weight + 1e-6)
    model = offline.empirical_model(MDP(STAY_OR_GO, np.ones((2, 2)), np.array(0.5)), jnp.asarray(counts, float))
    # A successor of which nothing is known would be worth less than any reward can mend.
    some = np.asarray(visits.sum(axis=-1)) > 0
    if not some.all():
        return
    policy, _ = learn(model, visits, extrapolated, penalty)["bootstrapped"]
    assert (np.take_along_axis(np.asarray(visits), np.argmax(policy, axis=-1)[:, None], axis=-1) > 0).all()


@settings(max_examples=30, deadline=None)
@given(arrays(np.int64, (2, 2, 2), elements=st.integers(0, 3)), numbers(0.0, 2.0, 2, 2), numbers(0.0, 1.0, 2, 2))
def test_naive_is_bootstrapped_from_values_that_are_less_the_bonus(counts, extrapolated, penalty):
    visits = jnp.asarray(counts.sum(axis=-1), float)
    model = offline.empirical_model(
        MDP(STAY_OR_GO, np.array([[1.0, 0.0], [0.0, 0.5]]), np.array(0.5)), jnp.asarray(counts, float)
    )
    _, naive = learn(model, visits, extrapolated - penalty, penalty)["naive"]
    _, bootstrapped = learn(model, visits, extrapolated, penalty)["bootstrapped"]
    np.testing.assert_allclose(naive, bootstrapped, atol=1e-12)


def test_the_study_compares_what_it_says():
    sizes = study.StudySizes(mdps=3, states=4, episodes=(1, 40), bonus_weights=(0.3, 1.0), middle_episodes=1)
    found: dict = {}
    assert len(list(study.compare_methods(0, sizes, found))) == sizes.parts == 8
    assert found["transitions"] == [20, 800]
    assert 0.0 < found["share_of_pairs_seen"][0] < found["share_of_pairs_seen"][1] <= 1.0
    for rows in found["by_extrapolation"].values():
        for row in rows:
            for method in offline.METHODS:
                assert np.shape(row[method]["regret"]["mean"]) == (2,)
                assert min(row[method]["regret"]["mean"]) > -1e-9  # nothing beats the optimum
            assert len(set(row["plain"]["regret"]["mean"])) == 1  # no bonus, so no weight
    again: dict = {}
    list(study.compare_methods(0, sizes, again))
    assert again == found

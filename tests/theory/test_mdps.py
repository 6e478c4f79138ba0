"""Random MDPs are what they say, and the gridworld is what is drawn."""

from __future__ import annotations

import numpy as np

from tether.theory import gridworld
from tether.theory.mdps import garnets
from tether.theory.problems import FAMILIES


def test_garnets_have_so_many_successors_and_rewards_in_the_unit_interval():
    mdps = garnets(np.random.default_rng(0), 50, states=6, actions=3, branching=2, discounts=(0.5, 0.6))
    assert mdps.transition.shape == (50, 6, 3, 6)
    np.testing.assert_allclose(mdps.transition.sum(axis=-1), np.ones((50, 6, 3)), rtol=1e-14)
    assert (np.count_nonzero(mdps.transition, axis=-1) == 2).all()
    assert mdps.reward.min() >= 0.0
    assert mdps.reward.max() <= 1.0
    assert 0.5 <= mdps.discount.min() < mdps.discount.max() <= 0.6
    # each state is a successor of two pairs in six, give or take
    np.testing.assert_allclose((mdps.transition > 0).mean(axis=(0, 1, 2)), np.full(6, 1 / 3), atol=0.1)


def test_the_same_seed_gives_the_same_problems():
    for make in FAMILIES.values():
        first, second, other = (make(np.random.default_rng(seed), 2) for seed in (0, 0, 1))
        np.testing.assert_array_equal(first.bonus, second.bonus)
        np.testing.assert_array_equal(first.mdp.transition, second.mdp.transition)
        assert (first.bonus != other.bonus).any()


def test_a_gridworld_moves_as_drawn():
    # S . G      states 0 1 2
    # # X .              3 4
    mdp = gridworld.gridworld(("S.G", "#X."), slip=0.2, discount=0.5)
    assert gridworld.cells(("S.G", "#X.")) == [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2)]
    up, right, down, left = range(4)
    # From the middle cell: 0.8 where it points, and 0.05 in each of the four directions; up is outside, so it stays.
    np.testing.assert_allclose(mdp.transition[1, right], [0.05, 0.05, 0.85, 0.05, 0.0])
    np.testing.assert_allclose(mdp.transition[1, up], [0.05, 0.85, 0.05, 0.05, 0.0])
    np.testing.assert_allclose(mdp.transition[0, down], [0.95, 0.05, 0.0, 0.0, 0.0])  # a wall below, the edge above and left
    np.testing.assert_allclose(mdp.transition[[2, 3]], np.broadcast_to(np.eye(5)[[2, 3], None], (2, 4, 5)))  # never left
    np.testing.assert_allclose(mdp.reward, [[0.0] * 4, [0.0] * 4, [1.0] * 4, [0.0] * 4, [0.0] * 4])
    assert [gridworld.find(sign, ("S.G", "#X.")) for sign in "SGX"] == [0, 2, 3]
    assert left == 3


def test_a_behaviour_follows_its_arrows_but_for_noise():
    policy = gridworld.behaviour(0.2, ("S.G", "#X."), (">v.", "#.^"))
    np.testing.assert_allclose(
        policy, [[0.05, 0.85, 0.05, 0.05], [0.05, 0.05, 0.85, 0.05], [0.25] * 4, [0.25] * 4, [0.85, 0.05, 0.05, 0.05]]
    )


def test_the_gridworld_in_use_is_whole():
    mdp = gridworld.gridworld()
    np.testing.assert_allclose(mdp.transition.sum(axis=-1), np.ones(mdp.reward.shape), rtol=1e-14)
    assert {len(line) for line in (*gridworld.LAYOUT, *gridworld.BEHAVIOUR)} == {7}
    assert len(gridworld.LAYOUT) == len(gridworld.BEHAVIOUR)

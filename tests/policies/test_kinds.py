"""Every kind of policy: it acts within its bounds, describes itself, and comes back from a file as it was."""

from __future__ import annotations

import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from shipped import MADE, OBSERVATIONS

from tether.bonuses import FrozenBonus
from tether.bonuses.cvae import CVAE, CVAENetworks
from tether.errors import TetherError
from tether.networks import MLP, Critics
from tether.policies import POLICIES, BestOfSamples, Greedy, Policy, SquashedGaussian, describe, load_policy, rebuilt
from tether.types import Spec

every_kind = pytest.mark.parametrize("kind", POLICIES)


@every_kind
def test_a_kind_comes_back_from_its_file_bit_for_bit(kind: str, tmp_path):
    made = Policy(*MADE[kind], {"step": 3})
    made.save(tmp_path / "one.safetensors")
    loaded = load_policy(tmp_path / "one.safetensors")
    assert type(loaded.actor) is POLICIES[kind]
    np.testing.assert_array_equal(loaded(OBSERVATIONS), made(OBSERVATIONS))
    loaded.save(tmp_path / "two.safetensors")
    assert (tmp_path / "one.safetensors").read_bytes() == (tmp_path / "two.safetensors").read_bytes()


@every_kind
def test_a_description_is_plain_and_says_all_but_the_numbers(kind: str):
    policy = MADE[kind][0]
    description = json.loads(json.dumps(describe(policy)))
    assert description["kind"] == kind
    assert jax.tree.structure(rebuilt(description)) == jax.tree.structure(policy)


@every_kind
def test_actions_are_within_the_bounds_and_the_same_at_every_call(kind: str):
    policy, spec = MADE[kind]
    action = np.asarray(policy(100.0 * OBSERVATIONS))
    assert action.shape == (50, 2)
    assert (action >= np.asarray(spec.action_low)).all()
    assert (action <= np.asarray(spec.action_high)).all()
    np.testing.assert_array_equal(policy(100.0 * OBSERVATIONS), action)
    np.testing.assert_allclose(policy(100.0 * OBSERVATIONS[7:8]), action[7:8], rtol=1e-5, atol=1e-6)  # whatever else is asked


def test_a_part_that_nobody_knows_is_refused():
    class Own(MLP):
        pass

    with pytest.raises(TetherError, match=r"^a Own cannot be part of a policy that is saved"):
        describe(Greedy(Own((), (), None, ())))
    with pytest.raises(
        TetherError, match=r"^the policy has a part 'greddy', which this Tether does not know; did you mean greedy"
    ):
        rebuilt({"kind": "greddy"})


# A squashed Gaussian


def gaussian(mean: float, log_std: float) -> SquashedGaussian:
    """One observation, one action in [-1, 3]: the same Gaussian everywhere."""
    return SquashedGaussian(MLP((jnp.zeros((1, 2)),), (jnp.array([mean, log_std]),), None, ("none",)), (-1.0,), (3.0,))


def test_it_acts_by_its_mean():
    np.testing.assert_allclose(gaussian(math.atanh(0.5), 1.0)(jnp.zeros((1, 1))), [[2.0]], rtol=1e-6)


def test_its_log_probability_by_hand():
    # tanh^-1(0.5) from mean 0, std 1: the normal density there, over 1 - 0.25 for tanh and over 2 for the bounds.
    raw = math.atanh(0.5)
    expected = -0.5 * raw**2 - 0.5 * math.log(2 * math.pi) - math.log(0.75) - math.log(2.0)
    found = gaussian(0.0, 0.0).log_probability(jnp.zeros((1, 1)), jnp.array([[2.0]]))
    np.testing.assert_allclose(found, [expected], rtol=1e-5)


def test_its_density_adds_up_to_one():
    policy, actions = gaussian(0.3, -0.5), np.linspace(-1.0, 3.0, 20_001)[1:-1]
    log_probability = policy.log_probability(jnp.zeros((len(actions), 1)), jnp.asarray(actions, jnp.float32)[:, None])
    np.testing.assert_allclose(np.sum(np.exp(log_probability)) * (actions[1] - actions[0]), 1.0, rtol=1e-3)


def test_samples_come_with_their_own_log_probabilities():
    policy, observation = gaussian(0.3, -0.5), jnp.zeros((4000, 1))
    action, log_probability = policy.sample_with_log_probability(observation, jax.random.key(0))
    np.testing.assert_allclose(log_probability, policy.log_probability(observation, action), atol=1e-2)
    raw = np.arctanh(np.clip((np.asarray(action) - 1.0) / 2.0, -0.999999, 0.999999))
    np.testing.assert_allclose([raw.mean(), raw.std()], [0.3, math.exp(-0.5)], atol=0.03)


def test_an_action_on_the_bounds_is_unlikely_and_not_impossible():
    found = gaussian(0.0, 0.0).log_probability(jnp.zeros((2, 1)), jnp.array([[-1.0], [3.0]]))
    assert np.isfinite(found).all()


def test_its_log_std_is_kept_within_limits():
    for given, expected in ((-50.0, -20.0), (50.0, 2.0)):
        np.testing.assert_array_equal(gaussian(0.0, given).moments(jnp.zeros((1, 1)))[1], [[expected]])


# The best of samples


def decoder(gain: float) -> FrozenBonus:
    """Of (s, z) with one number each: the action tanh(gain z), within [-1, 1]."""
    network = MLP((jnp.array([[0.0], [gain]]),), (jnp.zeros(1),), None, ("tanh",))
    return FrozenBonus(CVAE(latent_size=1), CVAENetworks(network, network, (-1.0,), (1.0,)), Spec(1, (-1.0,), (1.0,)))


def critic(slope: float) -> Critics:
    return Critics((MLP((jnp.array([[0.0], [slope]]),), (jnp.zeros(1),), None, ("none",)),))


def test_it_takes_the_sample_that_the_critic_likes_best():
    # Latents are clipped at 0.5 either way, and of a hundred some are beyond: the best action is tanh(0.5) or its opposite.
    for slope in (1.0, -1.0):
        policy = BestOfSamples(decoder(1.0), critic(slope))
        np.testing.assert_allclose(policy(jnp.zeros((3, 1))), np.full((3, 1), slope * math.tanh(0.5)), rtol=1e-5)


def test_it_moves_samples_by_a_small_share_of_the_range_and_within_the_bounds():
    push = MLP((jnp.zeros((2, 1)),), (jnp.array([100.0]),), None, ("tanh",))
    policy = BestOfSamples(decoder(0.0), critic(1.0), push, most_perturbed=0.05)
    np.testing.assert_allclose(policy(jnp.zeros((1, 1))), [[0.05]], rtol=1e-6)
    wide = BestOfSamples(decoder(0.0), critic(1.0), push, most_perturbed=5.0)
    np.testing.assert_allclose(wide(jnp.zeros((1, 1))), [[1.0]])

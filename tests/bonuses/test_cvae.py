"""The CVAE with weights set by hand. Actions lie in [-1, 1] x [0, 4], so that a decoder whose tanh is 0 gives (0, 2)."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from problems import SPEC, constant_reward, small

from tether.bonuses.cvae import CVAE, CVAEFitting, CVAENetworks, elbo_loss
from tether.networks import MLP
from tether.optimisation import ADAM
from tether.types import Batch, Problem

OBSERVATION = jnp.array([[7.0], [7.0]])
ACTION = jnp.array([[0.5, 1.0], [-0.5, 4.0]])

elbo_of = jax.jit(elbo_loss, static_argnums=0)
score_of = jax.jit(CVAE.novelty, static_argnums=0)


def networks(log_std: tuple[float, float], decoder_gain: float = 0.0, noise: jax.Array | None = None) -> CVAENetworks:
    """Over (s, a_1, a_2): mean = (a_1 + a_2, 0), log-std as given, whatever the pair. Decoder: tanh(gain * (z_1, z_2))."""
    mean_weights = [[0.0, 0.0], [1.0, 0.0], [1.0, 0.0]]
    encoder = MLP((jnp.array([[*row, 0.0, 0.0] for row in mean_weights]),), (jnp.array([0.0, 0.0, *log_std]),), None, ("none",))
    decoder = MLP((decoder_gain * jnp.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]),), (jnp.zeros(2),), None, ("tanh",))
    return CVAENetworks(encoder, decoder, SPEC.action_low, SPEC.action_high, noise=noise)


@pytest.mark.parametrize(("elbo", "share"), [("sum", 1.0), ("mean", 0.5)])  # both dimensions are two: the mean is half the sum
def test_elbo_by_hand(elbo, share):
    loss, (_, metrics) = elbo_of(
        CVAE(elbo=elbo, kl_weight=3.0), networks((0.0, math.log(2.0))), OBSERVATION, ACTION, jax.random.key(0)
    )
    # The decoder says (0, 2): squared errors 0.25 + 1 and 0.25 + 4, on average 2.75.
    # KL of a latent: (mean^2 + std^2 - 1) / 2 - log std. First: 1.5^2 / 2 and 3.5^2 / 2. Second: 3 / 2 - ln 2 in both rows.
    reconstruction = share * 2.75
    kl = share * ((1.125 + 6.125) / 2 + 1.5 - math.log(2.0))
    assert float(metrics["bonus/reconstruction"]) == pytest.approx(reconstruction)
    assert float(metrics["bonus/kl"]) == pytest.approx(kl)
    assert float(metrics["bonus/loss"]) == float(loss) == pytest.approx(reconstruction + 3.0 * kl)


@pytest.mark.parametrize(("reduction", "expected"), [("sum", [1.25, 4.25]), ("mean", [0.625, 2.125])])
def test_score_by_hand(reduction, expected):
    score = score_of(CVAE(reduction=reduction), networks((0.0, 0.0)), OBSERVATION, ACTION, jax.random.key(0))
    np.testing.assert_allclose(score, expected)


@pytest.mark.parametrize(
    ("settings", "unit"),
    # Two actions, two latents. As in the loss: mean error + 0.5 mean KL, times 2 where the error is a sum; or sum + 0.5 sum.
    [
        ({"elbo": "mean", "reduction": "sum"}, 2.0),
        ({"elbo": "mean", "reduction": "mean"}, 1.0),
        ({"elbo": "sum", "reduction": "sum"}, 2.0),
        ({"elbo": "sum", "reduction": "mean"}, 1.0),
    ],
)
def test_the_bound_adds_the_kl_weighed_as_in_the_loss(settings, unit):
    state = networks((0.5, -0.5))
    error = score_of(CVAE(**settings), state, OBSERVATION, ACTION, jax.random.key(0))
    bound = score_of(CVAE(measure="bound", **settings), state, OBSERVATION, ACTION, jax.random.key(0))
    mean, log_std = (np.asarray(column) for column in state.encode(OBSERVATION, ACTION))
    kl = 0.5 * (mean**2 + np.exp(2 * log_std) - 1.0) - log_std
    np.testing.assert_allclose(bound - error, 0.5 * unit * kl.mean(axis=1), rtol=1e-4)


def test_the_bound_of_the_data_is_the_loss_of_the_fit():
    """What is charged for a pair is what the fit minimises on it: its mean is the loss, times the actions for a sum."""
    state = networks((0.0, 0.0), decoder_gain=0.5)
    loss, _ = elbo_loss(CVAE(), state, OBSERVATION, ACTION, jax.random.key(3))
    charged = score_of(CVAE(measure="bound"), state, OBSERVATION, ACTION, jax.random.key(3))
    np.testing.assert_allclose(np.mean(charged), 2 * float(loss), rtol=1e-5)


def test_many_draws_charge_for_the_error_alone_where_the_decoder_hears_nothing():
    """The decoder says (0, 2) whatever it is told, so p(a) is its error's: what the encoder tells is not the action's fault."""
    action, state = jnp.array([[0.5, 0.0], [-0.5, 1.0]]), networks((0.0, 0.0))  # the encoder's mean is 0.5 in both rows
    settings = {"elbo": "sum", "kl_weight": 0.5}
    bound = score_of(CVAE(measure="bound", **settings), state, OBSERVATION, action, jax.random.key(0))
    # The KL is 0.5^2 / 2 nats, and a nat weighs 0.5.
    np.testing.assert_allclose(bound, [4.25 + 0.0625, 1.25 + 0.0625], rtol=1e-5)
    many = score_of(CVAE(measure="bound", draws=20_000, **settings), state, OBSERVATION, action, jax.random.key(0))
    np.testing.assert_allclose(many, [4.25, 1.25], atol=0.01)  # a sixth of what the bound adds


def test_two_draws_by_hand():
    state, key = networks((0.3, -0.2), decoder_gain=0.4), jax.random.key(5)
    noise = np.asarray(jax.random.normal(jax.random.clone(key), (2, 2, 2)))
    mean, std = np.array([[1.5, 0.0], [3.5, 0.0]]), np.exp([0.3, -0.2])
    latent = mean + std * noise
    error = np.sum((np.asarray(ACTION) - np.array([0.0, 2.0]) - np.array([1.0, 2.0]) * np.tanh(0.4 * latent)) ** 2, axis=-1)
    found = score_of(CVAE(draws=2), state, OBSERVATION, ACTION, jax.random.clone(key))
    np.testing.assert_allclose(found, error.mean(axis=0), rtol=1e-4)
    # With sums and a weight of 0.5, a nat weighs 0.5: the error counts twice in the exponent.
    ratio = np.exp(-2.0 * error) * np.exp(-np.sum(0.5 * (latent**2 - noise**2) - np.log(std), axis=-1))
    found = score_of(CVAE(measure="bound", draws=2, elbo="sum"), state, OBSERVATION, ACTION, key)
    np.testing.assert_allclose(found, np.maximum(-0.5 * np.log(ratio.mean(axis=0)), 0.0), rtol=1e-4)


def test_without_chance_nothing_is_drawn():
    state = networks((0.3, -0.2), decoder_gain=0.4)
    scores = [
        score_of(CVAE(measure="bound", draws=draws).without_chance(), state, OBSERVATION, ACTION, jax.random.key(seed))
        for draws, seed in ((1, 0), (7, 1))
    ]
    np.testing.assert_array_equal(*scores)


NOISE = jnp.array([0.01, 0.04])  # squared half ranges, which are 1 and 2: variances of 0.01 and 0.16


def test_a_calibrated_error_is_in_nats_of_the_decoders_noise():
    # The decoder says (0, 2): squared errors 0.25 and 1, 0.25 and 4, over twice the variances.
    state = networks((0.0, 0.0), noise=NOISE)
    found = score_of(CVAE(elbo="calibrated"), state, OBSERVATION, ACTION, jax.random.key(0))
    np.testing.assert_allclose(found, [0.25 / 0.02 + 1.0 / 0.32, 0.25 / 0.02 + 4.0 / 0.32], rtol=1e-5)


def test_a_calibrated_bound_is_the_loss_of_the_fit():
    bonus, state = CVAE(elbo="calibrated", measure="bound", kl_weight=1.0), networks((0.0, 0.0), decoder_gain=0.5, noise=NOISE)
    loss, _ = elbo_loss(bonus, state, OBSERVATION, ACTION, jax.random.key(3))
    charged = score_of(bonus, state, OBSERVATION, ACTION, jax.random.key(3))
    np.testing.assert_allclose(np.mean(charged), float(loss), rtol=1e-5)


def test_the_noise_follows_a_batch_slowly():
    decoded = ACTION + jnp.array([[0.5, 2.0]])  # half a half range off, and a whole one
    found = networks((0.0, 0.0), noise=NOISE).heard(ACTION, decoded).noise
    np.testing.assert_allclose(found, [0.01 + 1e-3 * (0.25 - 0.01), 0.04 + 1e-3 * (1.0 - 0.04)], rtol=1e-5)


def test_the_fit_moves_the_noise_and_no_gradient_does():
    bonus, given = CVAE(elbo="calibrated"), networks((0.0, 0.0), noise=NOISE)
    gradient = jax.grad(lambda found: elbo_loss(bonus, found, OBSERVATION, ACTION, jax.random.key(1))[0])(given)
    np.testing.assert_array_equal(gradient.noise, 0.0)
    batch = Batch(OBSERVATION, ACTION, jnp.zeros(2), OBSERVATION, jnp.zeros(2))
    update = jax.jit(CVAE.update, static_argnums=0)
    after, metrics = update(bonus, CVAEFitting(given, ADAM.start(given, 1e-3)), batch, jax.random.key(1))
    # The decoder says (0, 2): errors of 0.25 and 2.5 on average, in squared half ranges 0.25 and 0.625.
    np.testing.assert_allclose(after.networks.noise, NOISE + 1e-3 * (jnp.array([0.25, 0.625]) - NOISE), rtol=1e-3)
    assert float(metrics["bonus/noise"]) == pytest.approx(float(jnp.mean(jnp.sqrt(after.networks.noise))))


def test_latents_are_twice_the_actions_where_none_are_asked_for():
    fitting = jax.eval_shape(lambda key: CVAE(latent_size=0).init(key, Problem(SPEC, constant_reward())), jax.random.key(0))
    assert fitting.networks.encoder.weights[-1].shape == (750, 2 * 2 * SPEC.action_size)
    assert fitting.networks.decoder.weights[0].shape[0] == SPEC.observation_size + 2 * SPEC.action_size


def test_log_std_is_clamped():
    _, log_std = networks((-50.0, 50.0)).encode(OBSERVATION, ACTION)
    np.testing.assert_array_equal(log_std, [[-4.0, 15.0]] * 2)


def test_the_mean_latent_is_the_encoders_mean():
    score = score_of(CVAE(latent="mean"), networks((0.0, 0.0), decoder_gain=1.0), OBSERVATION, ACTION, jax.random.key(0))
    # First row: z = (1.5, 0) decodes to (tanh 1.5, 2).
    assert float(score[0]) == pytest.approx((0.5 - math.tanh(1.5)) ** 2 + (1.0 - 2.0) ** 2)


def test_the_sampled_latent_has_the_encoders_spread_and_is_new_in_every_row():
    std, gain, rows = 0.1, 1e-2, 10_000
    observation, action = jnp.full((rows, 1), 7.0), jnp.tile(jnp.array([[0.0, 0.0]]), (rows, 1))
    given = networks((math.log(std), math.log(std)), decoder_gain=gain)
    score = np.asarray(score_of(CVAE(), given, observation, action, jax.random.key(0)))
    # With z = std * e the decoder says (g z_1, 2 + 2 g z_2): the score is 4 + 8 g z_2 but for terms of g^2.
    np.testing.assert_allclose(score.mean(), 4.0, atol=1e-3)
    np.testing.assert_allclose(score.std(), 8 * gain * std, rtol=0.03)
    assert len(np.unique(score)) > rows / 2  # of float32 numbers as close as these, some coincide
    other = score_of(CVAE(), given, observation, action, jax.random.key(1))
    assert not np.array_equal(score, other)


def test_the_gradient_in_the_action_flows_through_encoder_and_decoder():
    given, bonus = networks((0.0, 0.0), decoder_gain=1.0), CVAE(latent="mean")
    slope_of = jax.jit(jax.grad(lambda action: jnp.sum(bonus.novelty(given, OBSERVATION[:1], action, jax.random.key(0)))))
    slope = slope_of(jnp.array([[0.5, 0.0]]))
    # b = (a_1 - tanh(a_1 + a_2))^2 + (a_2 - 2)^2 at (0.5, 0), where u = tanh 0.5 and u' = 1 - u^2.
    u = math.tanh(0.5)
    along_first = 2 * (0.5 - u) * (1 - (1 - u**2))
    along_second = 2 * (0.5 - u) * -(1 - u**2) + 2 * (0 - 2)
    np.testing.assert_allclose(slope, [[along_first, along_second]], rtol=1e-5)


def test_networks_have_the_papers_shape():
    fitting = jax.eval_shape(lambda key: CVAE().init(key, Problem(SPEC, constant_reward())), jax.random.key(0))
    encoder, decoder = fitting.networks.encoder, fitting.networks.decoder
    assert [weight.shape for weight in encoder.weights] == [(4, 750), (750, 750), (750, 24)]  # mean and log-std of 12 latents
    assert [weight.shape for weight in decoder.weights] == [(14, 750), (750, 750), (750, 2)]
    assert encoder.activations == ("relu", "relu", "none")
    assert decoder.activations == ("relu", "relu", "tanh")


def test_fitting_has_adams_moments_and_frozen_has_not():
    bonus = small(CVAE)
    fitting = jax.eval_shape(lambda key: bonus.init(key, Problem(SPEC, constant_reward())), jax.random.key(0))

    def size(tree: object) -> int:
        return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree))

    assert isinstance(fitting.optimiser[0], optax.ScaleByAdamState)
    assert size(fitting) == 3 * size(bonus.frozen(fitting)) + 1  # weights, two moments of each, a count

"""The paper's bonus: how badly a conditional variational autoencoder, fitted to the data, reconstructs the action.

    b(s, a) = |a - decoder(s, z)|^2,   z ~ N(mean, std) = encoder(s, a)

Settled where the paper is silent (SPEC section 3):
- the decoder ends in a tanh scaled to the action bounds, and log-std is clamped to [-4, 15], as in BCQ, whose sizes these are;
- `elbo = "mean"` averages the squared error over action dimensions and the KL over latents, as BCQ does; `"sum"` is the bound as
  written, which weighs the KL more;
- the bonus is the squared 2-norm, a sum over action dimensions; `reduction = "mean"` divides by their number (other betas then);
- z is sampled for the bonus; `latent = "mean"` takes the encoder's mean.
Beyond the paper:
- `measure = "bound"` adds the encoder's KL, weighed as in the loss: the negative bound itself. The error alone is blind along the
  latent: where the encoder tells the decoder which action it was shown, many are reconstructed. With the KL, telling costs.
- several `draws` of the latent give the mean error, or the importance-weighted bound (Burda et al. 2016): tighter, and with many
  it charges for what the model holds unlikely alone, not for what the encoder misses.
- `elbo = "calibrated"` weighs the error by the decoder's own noise, the mean squared error of each action so far: with a
  `kl_weight` of 1 the bound is one on a log-likelihood (sigma-VAE, Rybkin et al. 2021), and the bonus is in nats. With a fixed
  weight a rough copy is good enough, also of actions between recorded ones (docs/bonuses/cvae.md).
- discrete actions, as one-hot rows, are decoded by a softmax; all else is the same, so the reconstruction error is at most 2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from tether.bonuses.base import GRADIENT, SAMPLES, VALUE, BonusTraits
from tether.networks import Layers, Network, half_range, make_network, observation_scaler, scale_to_bounds
from tether.optimisation import ADAM, mix
from tether.settings import Amount, Seed, ShareBelowOne, Size, Steps
from tether.types import Batch, Key, Metrics, Problem

# The decoder's noise begins small and follows slowly. Were it as large as the actions' own spread before the latents say a thing,
# saying one would not pay, and nothing would ever be encoded.
FIRST_NOISE = 1e-2  # of the variance, in squared half ranges
NOISE_MIX = 1e-3  # share of a batch
LEAST_NOISE = 1e-4


class CVAENetworks(eqx.Module):
    encoder: Network  # (s, a) -> latent mean and log-std
    decoder: Network  # (s, z) -> an action in [-1, 1], before scaling; for discrete actions, logits
    low: tuple[float, ...] = eqx.field(static=True)
    high: tuple[float, ...] = eqx.field(static=True)
    discrete: bool = eqx.field(static=True, default=False)
    noise: jax.Array | None = None  # (A,) the decoder's variance in squared half ranges, where the bound is calibrated

    def encode(self, observation: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Mean and log-std of the latent, `(B, L)` each."""
        mean, log_std = jnp.split(self.encoder(jnp.concatenate([observation, action], axis=-1)), 2, axis=-1)
        return mean, jnp.clip(log_std, -4.0, 15.0)

    def decode(self, observation: jax.Array, latent: jax.Array) -> jax.Array:
        decoded = self.decoder(jnp.concatenate([observation, latent], axis=-1))
        return jax.nn.softmax(decoded) if self.discrete else scale_to_bounds(decoded, self.low, self.high)

    def squared_error(self, action: jax.Array, decoded: jax.Array) -> jax.Array:
        """`(B, A)`: plain, or in nats where the decoder knows its noise."""
        squared = jnp.square(action - decoded)
        return squared if self.noise is None else squared / (2.0 * jax.lax.stop_gradient(self._variance()))[None, :]

    def heard(self, action: jax.Array, decoded: jax.Array) -> CVAENetworks:
        """With the noise of a batch mixed into the decoder's."""
        found = jnp.mean(jnp.square((action - decoded) / half_range(self.low, self.high)), axis=0)
        return eqx.tree_at(lambda networks: networks.noise, self, mix(self.noise, found, NOISE_MIX))

    def _variance(self) -> jax.Array:
        assert self.noise is not None
        return jnp.maximum(self.noise, LEAST_NOISE) * jnp.square(half_range(self.low, self.high)[0])


class CVAEFitting(NamedTuple):
    networks: CVAENetworks
    optimiser: optax.OptState


@dataclass(frozen=True)
class CVAE:
    """Every knob of the bonus; the paper's values."""

    traits: ClassVar[BonusTraits] = BonusTraits(frozenset({VALUE, GRADIENT, SAMPLES}))

    steps: Steps = 50_000  # the paper's; a run says when the fit still improves at its end
    batch_size: Size = 100
    hidden_sizes: tuple[Size, ...] = (750, 750)
    latent_size: Steps = 12  # 0: twice the number of actions, as BCQ's authors and the first author's early code have it
    kl_weight: Amount = 0.5  # the paper's eta
    learning_rate: Amount = 1e-4
    elbo: Literal["mean", "sum", "calibrated"] = "mean"  # over dimensions, of error and KL; or sums with the decoder's own noise
    measure: Literal["reconstruction", "bound"] = "reconstruction"  # the bonus: the squared error, or with the KL the whole bound
    draws: Size = 1  # of the latent when scoring; of several, the mean error or the importance-weighted bound
    reduction: Literal["sum", "mean"] = "sum"  # the bonus as sum or mean over action dimensions
    latent: Literal["sample", "mean"] = "sample"  # when scoring: sample or mean
    normalise_observations: bool = False  # by the data's moments, inside encoder and decoder
    held_out_share: ShareBelowOne = 0.05  # of the episodes, kept out of the fit to judge it by
    seed: Seed = 0  # of the fit; apart from the run's seed, so that all seeds of an agent share one fit

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return (self.batch_size,)

    def init(self, key: Key, problem: Problem) -> CVAEFitting:
        spec = problem.spec
        key_encoder, key_decoder = jax.random.split(key)
        latents = self.latent_size or 2 * spec.action_size
        layers = Layers(self.hidden_sizes, scaler=observation_scaler(problem, self.normalise_observations))
        encoder = make_network(key_encoder, spec, spec.action_size, layers, 2 * latents)
        decoder = make_network(key_decoder, spec, latents, layers, spec.action_size, "none" if spec.discrete else "tanh")
        noise = jnp.full(spec.action_size, FIRST_NOISE) if self.elbo == "calibrated" else None
        networks = CVAENetworks(encoder, decoder, spec.action_low, spec.action_high, spec.discrete, noise)
        return CVAEFitting(networks, ADAM.start(networks, self.learning_rate))

    def update(self, fitting: CVAEFitting, batch: Batch, key: Key) -> tuple[CVAEFitting, Metrics]:
        gradient, (decoded, metrics) = jax.grad(elbo_loss, argnums=1, has_aux=True)(
            self, fitting.networks, batch.observation, batch.action, key
        )
        networks, optimiser = ADAM.step(fitting.networks, gradient, fitting.optimiser, self.learning_rate)
        if self.elbo == "calibrated":
            networks = networks.heard(batch.action, decoded)
            metrics["bonus/noise"] = jnp.mean(jnp.sqrt(networks.noise))
        return CVAEFitting(networks, optimiser), metrics

    def frozen(self, fitting: CVAEFitting) -> CVAENetworks:
        return fitting.networks

    def novelty(self, state: CVAENetworks, observation: jax.Array, action: jax.Array, key: Key) -> jax.Array:
        mean, log_std = state.encode(observation, action)
        if self.draws > 1 and self.latent == "sample":
            return self._of_several(state, observation, action, mean, log_std, key)
        latent = mean if self.latent == "mean" else mean + jnp.exp(log_std) * jax.random.normal(key, mean.shape)
        value = self._error(state, observation, action, latent)
        if self.measure == "reconstruction":
            return value
        return value + self._nat(action, mean) * jnp.sum(divergence(mean, log_std), axis=-1)

    def _error(self, state: CVAENetworks, observation: jax.Array, action: jax.Array, latent: jax.Array) -> jax.Array:
        squared = state.squared_error(action, state.decode(observation, latent))
        return (jnp.sum if self.reduction == "sum" else jnp.mean)(squared, axis=-1)

    def _nat(self, action: jax.Array, latent: jax.Array) -> float:
        """What a nat of KL weighs against the error: as in the loss, where both are means or both are sums."""
        actions, latents = action.shape[1], latent.shape[1]
        unit = (actions if self.reduction == "sum" else 1.0) * (1.0 if self.elbo == "mean" else latents / actions)
        return self.kl_weight * unit / latents

    def _of_several(
        self, state: CVAENetworks, observation: jax.Array, action: jax.Array, mean: jax.Array, log_std: jax.Array, key: Key
    ) -> jax.Array:
        """The mean error; or `-log mean_k exp(-error_k) p(z_k) / q(z_k)` in nats, in the error's unit, not below 0."""
        noise = jax.random.normal(key, (self.draws, *mean.shape))
        latent = mean[None] + jnp.exp(log_std)[None] * noise
        error = jax.vmap(lambda latent: self._error(state, observation, action, latent))(latent)
        if self.measure == "reconstruction":
            return jnp.mean(error, axis=0)
        told = jnp.sum(0.5 * (jnp.square(latent) - jnp.square(noise)) - log_std[None], axis=-1)  # log q - log p
        nat = max(self._nat(action, mean), 1e-12)
        return nat * jnp.maximum(jnp.log(float(self.draws)) - jax.nn.logsumexp(-(error / nat + told), axis=0), 0.0)

    def without_chance(self) -> CVAE:
        """By the latent's mean: the middle of what would be drawn, and the decoder was fitted around it."""
        return replace(self, latent="mean")

    def sample(self, state: CVAENetworks, observation: jax.Array, key: Key) -> jax.Array:
        """Actions that the data might have here, `(B, A)`: decoded from latents of the prior, clipped as BCQ does."""
        latents = self.latent_size or 2 * len(state.low)
        return state.decode(observation, jnp.clip(jax.random.normal(key, (observation.shape[0], latents)), -0.5, 0.5))


def divergence(mean: jax.Array, log_std: jax.Array) -> jax.Array:
    """KL(N(mean, std) || N(0, 1)) of each latent, `(B, L)`."""
    return 0.5 * (jnp.square(mean) + jnp.exp(2.0 * log_std) - 1.0) - log_std


def elbo_loss(
    bonus: CVAE, networks: CVAENetworks, observation: jax.Array, action: jax.Array, key: Key
) -> tuple[jax.Array, tuple[jax.Array, Metrics]]:
    """Reconstruction + kl_weight * KL(N(mean, std) || N(0, 1)), averaged over the batch; and the decoded actions, metrics."""
    mean, log_std = networks.encode(observation, action)
    latent = mean + jnp.exp(log_std) * jax.random.normal(key, mean.shape)
    decoded = networks.decode(observation, latent)
    over_dimensions = jnp.mean if bonus.elbo == "mean" else jnp.sum
    reconstruction = jnp.mean(over_dimensions(networks.squared_error(action, decoded), axis=-1))
    kl = jnp.mean(over_dimensions(divergence(mean, log_std), axis=-1))
    loss = reconstruction + bonus.kl_weight * kl
    return loss, (decoded, {"bonus/loss": loss, "bonus/reconstruction": reconstruction, "bonus/kl": kl})

"""The same weights and the same batch through our losses and through d3rlpy's: the same numbers, the same gradients.

d3rlpy 2.8 asks for a Gymnasium older than ours, so no extra of ours can name it. In an environment of its own:
`pip install torch d3rlpy pytest`, then our requirements but for Gymnasium, then `PYTHONPATH=src pytest -m slow` and this file.
What one side draws at random is handed to the other. Where a definition differs, the agent's page says how.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tether.agents import actor_critic, bear, iql, td3_bc
from tether.agents.bcq import BCQ
from tether.agents.cql import CQL
from tether.agents.weighted_cloning import Clone, advantage_weight, weighted_cloning_loss
from tether.bonuses import FrozenBonus
from tether.bonuses.cvae import CVAE, CVAENetworks, elbo_loss
from tether.networks import MLP, Critics
from tether.policies.deterministic import Deterministic
from tether.policies.gaussian import SquashedGaussian
from tether.types import Batch, Problem, Spec

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

OBSERVATIONS, ACTIONS, ROWS, SIZES = 5, 3, 32, (16, 16)
SPEC = Spec(OBSERVATIONS, (-1.0,) * ACTIONS, (1.0,) * ACTIONS)
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch", reason="d3rlpy is not installed; see the top of this file")


@pytest.fixture(scope="module")
def d3rlpy(torch: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("d3rlpy", reason="d3rlpy is not installed; see the top of this file")


def columns() -> Batch:
    random = np.random.default_rng(0)
    return Batch(
        random.normal(size=(ROWS, OBSERVATIONS)).astype(np.float32),
        random.uniform(-0.9, 0.9, (ROWS, ACTIONS)).astype(np.float32),
        random.normal(size=ROWS).astype(np.float32),
        random.normal(size=(ROWS, OBSERVATIONS)).astype(np.float32),
        (random.uniform(size=ROWS) < 0.3).astype(np.float32),
    )


BATCH = Batch(*map(jnp.asarray, columns()))
BATCHES = jax.tree.map(lambda column: column[None], BATCH)


def theirs(torch: Any) -> Any:
    from d3rlpy.torch_utility import TorchMiniBatch

    observation, action, reward, following, terminated = (torch.from_numpy(column) for column in columns())
    ones = torch.ones(ROWS, 1)
    names = {"observations": observation, "actions": action, "rewards": reward[:, None], "next_observations": following}
    names |= {"terminals": terminated[:, None], "intervals": ones, "returns_to_go": ones, "next_actions": action}
    wanted = TorchMiniBatch.__dataclass_fields__
    return TorchMiniBatch(**{name: names.get(name, "cpu" if name == "device" else ones) for name in wanted})


def made(d3rlpy: Any, name: str, **settings: Any) -> Any:
    """d3rlpy's implementation of an algorithm, with networks of our size. Targets are not the networks that they follow."""
    d3rlpy.seed(0)
    sizes = d3rlpy.models.VectorEncoderFactory(list(SIZES))
    encoders = {f"{part}_encoder_factory": sizes for part in ("actor", "critic", "value", "imitator")}
    kind = getattr(d3rlpy.algos, f"{name}Config")
    known = {key: value for key, value in encoders.items() if key in kind.__dataclass_fields__}
    algorithm = kind(**known, **settings).create(device="cpu:0")
    algorithm.create_impl((OBSERVATIONS,), ACTIONS)
    modules = algorithm.impl._modules
    for part in ("targ_q_funcs", "targ_policy"):
        for parameter in getattr(modules, part).parameters() if hasattr(modules, part) else ():
            parameter.data += 0.1 * parameter.data.clone().normal_()
    batch = theirs(pytest.importorskip("torch"))
    for critic in (*modules.q_funcs, *modules.targ_q_funcs):  # of one mean each: neither of two is the smaller one everywhere
        *_, last = critic.parameters()
        last.data -= critic(batch.observations, batch.actions).q_value.mean().item()
    return algorithm.impl


def copied(module: Any, last: str = "none", heads: int = 1) -> MLP:
    """A network of theirs as ours: relu between layers. Several last layers side by side are one."""
    linear = [part for part in module.modules() if type(part).__name__ == "Linear"]
    body, tail = linear[: len(linear) - heads], linear[len(linear) - heads :]
    weights = [part.weight.detach().numpy().T for part in body] + [np.concatenate([t.weight.detach().numpy().T for t in tail], 1)]
    biases = [part.bias.detach().numpy() for part in body] + [np.concatenate([t.bias.detach().numpy() for t in tail])]
    return MLP(tuple(map(jnp.asarray, weights)), tuple(map(jnp.asarray, biases)), None, ("relu",) * len(body) + (last,))


def critics_of(functions: Any) -> Critics:
    return Critics(tuple(copied(one) for one in functions))


def assert_gradient(found: MLP, module: Any, heads: int = 1) -> None:
    """Of all weights and biases; what is a ten-thousandth of the largest of them counts as zero."""
    linear = [part for part in module.modules() if type(part).__name__ == "Linear"]
    body, tail = linear[: len(linear) - heads], linear[len(linear) - heads :]
    weights = [part.weight.grad.numpy().T for part in body] + [np.concatenate([t.weight.grad.numpy().T for t in tail], 1)]
    biases = [part.bias.grad.numpy() for part in body] + [np.concatenate([t.bias.grad.numpy() for t in tail])]
    largest = max(np.abs(other).max() for other in weights)
    for ours, other in zip((*found.weights, *found.biases), (*weights, *biases), strict=True):
        assert np.abs(other).max() > 0
        np.testing.assert_allclose(ours, other, rtol=1e-4, atol=1e-4 * largest)


def assert_gradients(found: Critics, functions: Any) -> None:
    for ours, other in zip(found.each, functions, strict=True):
        assert_gradient(ours, other)


def deterministic(module: Any) -> Deterministic:
    return Deterministic(copied(module, "tanh"), SPEC.action_low, SPEC.action_high)


def squashed(module: Any) -> SquashedGaussian:
    return SquashedGaussian(copied(module, heads=2), SPEC.action_low, SPEC.action_high)


def none(observation: jax.Array, action: jax.Array, key: Any) -> jax.Array:
    return jnp.zeros(action.shape[0])


class Kept:
    """In the place of an optimiser: keeps the gradients that it is given, and moves nothing."""

    def __init__(self) -> None:
        self.gradients: list[Any] = []

    def start(self, parameters: Any, learning_rate: float, steps: int = 1) -> tuple[()]:
        return ()

    def step(self, parameters: Any, gradient: Any, state: Any, learning_rate: float) -> tuple[Any, Any]:
        self.gradients.append(gradient)
        return parameters, state


def updated(agent: Any, state: Any, penalty: Any, monkeypatch: Any) -> tuple[list[Any], dict[str, float], list[np.ndarray]]:
    """Of a whole update of ours: each gradient in its order, the metrics, and all that was drawn."""
    drawn: list[np.ndarray] = []

    def watched(draw: Any) -> Any:
        def watching(*given: Any) -> jax.Array:
            found = draw(*given)
            jax.debug.callback(lambda numbers: drawn.append(np.array(numbers)), found)  # under a vmap, for each of its rows
            return found

        return watching

    keeping = replace(agent, optimiser=Kept())
    with monkeypatch.context() as patch:
        for name in ("normal", "uniform"):
            patch.setattr(jax.random, name, watched(getattr(jax.random, name)))
        _, metrics = keeping.update(state, BATCHES, jax.random.key(3), penalty)
        jax.effects_barrier()
    return keeping.optimiser.gradients, {name: float(value) for name, value in metrics.items()}, drawn


def hand_out(torch: Any, monkeypatch: Any, noise: Sequence[np.ndarray]) -> None:
    """To d3rlpy, in this order, wherever it would draw from a normal distribution."""
    coming = iter([torch.from_numpy(np.ascontiguousarray(numbers)) for numbers in noise])

    def standard(*shape: Any, device: Any = None) -> Any:
        numbers = next(coming)
        assert tuple(numbers.shape) == tuple(shape[0] if isinstance(shape[0], tuple) else shape)
        return numbers

    def normal(self: Any, shape: Any = ()) -> Any:
        return self.loc + self.scale * standard(tuple(shape) + tuple(self.loc.shape))

    monkeypatch.setattr(torch, "randn", standard)
    monkeypatch.setattr(torch.distributions.Normal, "rsample", normal)


def slopes_of(monkeypatch: Any, optimiser: Any, parameter: Any) -> list[float]:
    """What this optimiser of d3rlpy's steps along, in place of its steps."""
    found: list[float] = []
    monkeypatch.setattr(optimiser, "step", lambda *given: found.append(next(parameter.parameters()).grad.item()))
    return found


def generator_of(modules: Any, monkeypatch: Any) -> FrozenBonus:
    """d3rlpy's as our CVAE. Its decoder squashes where it is told not to, and the other way round; here it does as it is told."""
    kind = type(modules.vae_decoder)
    decode = kind.forward
    monkeypatch.setattr(kind, "forward", lambda self, x, latent, with_squash: decode(self, x, latent, not with_squash))
    encoder, decoder = copied(modules.vae_encoder, heads=2), copied(modules.vae_decoder, "tanh")
    networks = CVAENetworks(encoder, decoder, SPEC.action_low, SPEC.action_high)
    return FrozenBonus(CVAE(hidden_sizes=SIZES, latent_size=0, kl_weight=0.5), networks, SPEC)


def test_td3_bc(torch, d3rlpy):
    impl = made(d3rlpy, "TD3PlusBC", target_smoothing_sigma=1e-9, gamma=0.9)
    agent = td3_bc.TD3BC(hidden_sizes=SIZES, target_noise=0.0, discount=0.9, normalise_observations=False)
    modules, batch = impl._modules, theirs(torch)
    actor, critics = deterministic(modules.policy), critics_of(modules.q_funcs)

    state = agent.init(jax.random.key(0), Problem(SPEC, BATCH))
    state = state._replace(target_actor=deterministic(modules.targ_policy), target_critics=critics_of(modules.targ_q_funcs))
    no_cost = lambda *given: (jnp.zeros(ROWS), {})  # noqa: E731
    target, _ = actor_critic.critic_targets(agent, state, BATCHES, jax.random.key(1), no_cost)
    loss = impl.compute_critic_loss(batch, impl.compute_target(batch)).critic_loss
    loss.backward()
    (ours, _), gradient = jax.value_and_grad(actor_critic.critic_loss, has_aux=True)(critics, BATCH, target[0])
    np.testing.assert_allclose(ours, loss.item(), **CLOSE)
    assert_gradients(gradient, modules.q_funcs)

    loss = impl.compute_actor_loss(batch, modules.policy(batch.observations)).actor_loss
    loss.backward()
    (ours, _), gradient = jax.value_and_grad(
        lambda actor: td3_bc.actor_loss(agent, none, actor, critics, BATCH, jax.random.key(2)), has_aux=True
    )(actor)
    np.testing.assert_allclose(ours, loss.item(), **CLOSE)
    assert_gradient(gradient.network, modules.policy)


def test_iql(torch, d3rlpy):
    impl = made(d3rlpy, "IQL", gamma=0.9)
    modules, batch = impl._modules, theirs(torch)
    value, critics = copied(modules.value_func), critics_of(modules.q_funcs)
    recorded = jnp.min(critics_of(modules.targ_q_funcs)(BATCH.observation, BATCH.action), axis=0)

    def value_loss(value: MLP) -> jax.Array:
        return jnp.mean(iql.expectile_loss(recorded - value(BATCH.observation)[:, 0], 0.7))

    loss = impl.compute_value_loss(batch)
    loss.backward()
    ours, gradient = jax.value_and_grad(value_loss)(value)
    np.testing.assert_allclose(ours, loss.item(), **CLOSE)
    assert_gradient(gradient, modules.value_func)

    target = actor_critic.bellman_target(BATCH.reward, BATCH.terminated, value(BATCH.next_observation)[:, 0], 0.9)
    (ours, _), gradient = jax.value_and_grad(actor_critic.critic_loss, has_aux=True)(critics, BATCH, target)
    loss = impl.compute_critic_loss(batch, impl.compute_target(batch)).q_loss
    loss.backward()
    np.testing.assert_allclose(ours, loss.item(), **CLOSE)
    assert_gradients(gradient, modules.q_funcs)

    action = modules.policy(batch.observations)
    loss = impl.compute_actor_loss(batch, action).actor_loss
    loss.backward()
    weight = advantage_weight(recorded - value(BATCH.observation)[:, 0], 3.0, iql.MOST_WEIGHT)
    clone = Clone(deterministic(modules.policy), jnp.asarray(action.logstd.detach().numpy()[0]))
    (ours, _), gradient = jax.value_and_grad(weighted_cloning_loss, has_aux=True)(clone, BATCH, weight, jax.random.key(0), none)
    np.testing.assert_allclose(ours, loss.item(), **CLOSE)
    assert_gradient(gradient.mean.network, modules.policy)


@pytest.mark.parametrize(("gap_target", "multiplier"), [(0.0, 1.0), (2.0, 3.0)])
def test_cql(torch, d3rlpy, monkeypatch, gap_target, multiplier):
    learnt = {"alpha_learning_rate": 1e-4 if gap_target else 0.0, "initial_alpha": multiplier, "alpha_threshold": gap_target}
    # With max_q_backup the target takes drawn next actions, the best of them; here all are one.
    impl = made(d3rlpy, "CQL", n_action_samples=4, conservative_weight=5.0, gamma=0.9, max_q_backup=True, **learnt)
    agent = CQL(sampled_actions=4, conservative_weight=5.0, gap_target=gap_target, hidden_sizes=SIZES, discount=0.9)
    modules, batch = impl._modules, theirs(torch)
    state = agent.init(jax.random.key(0), Problem(SPEC, BATCH))
    networks = {"actor": squashed(modules.policy), "critics": critics_of(modules.q_funcs)}
    networks["target_critics"] = critics_of(modules.targ_q_funcs)
    state = state._replace(soft=state.soft._replace(**networks), log_multiplier=jnp.log(multiplier))

    gradients, metrics, (uniform, *normal) = updated(agent, state, none, monkeypatch)
    here, there, following, action = normal[:4], normal[4:8], normal[8], normal[9]
    hand_out(torch, monkeypatch, [np.stack([following] * 4), np.stack(here), np.stack(there), action])
    flat = torch.from_numpy(2.0 * uniform.transpose(1, 0, 2).reshape(-1, ACTIONS) - 1.0)
    monkeypatch.setattr(torch.Tensor, "uniform_", lambda self, low, high: flat)
    temperature = slopes_of(monkeypatch, modules.temp_optim, modules.log_temp)
    multipliers = slopes_of(monkeypatch, modules.alpha_optim, modules.log_alpha) if gap_target else []

    loss = impl.compute_critic_grad(batch).critic_loss
    ours = metrics["critic/loss"] + 2 * multiplier * 5.0 * (metrics["critic/gap"] - gap_target)  # told as a mean of two critics
    np.testing.assert_allclose(ours, loss.item(), **CLOSE)
    assert_gradients(gradients[0], modules.q_funcs)
    loss = impl.compute_actor_grad(batch).actor_loss
    np.testing.assert_allclose(metrics["actor/loss"], loss.item(), **CLOSE)
    assert_gradient(gradients[1].network, modules.policy, heads=2)
    # Theirs of the temperature is in alpha and not in its logarithm: times alpha, which is 1 at the start.
    np.testing.assert_allclose(gradients[2:], [*temperature, *multipliers], rtol=1e-4)
    assert len(gradients) == (4 if gap_target else 3)


def test_bcq(torch, d3rlpy, monkeypatch):
    impl = made(d3rlpy, "BCQ", n_action_samples=6, lam=0.75, action_flexibility=0.05, gamma=0.9)
    agent = BCQ(samples=6, least_share=0.75, most_perturbed=0.05, hidden_sizes=SIZES, discount=0.9)
    modules, batch = impl._modules, theirs(torch)
    state = agent.init(jax.random.key(0), Problem(SPEC, BATCH))
    state = state._replace(
        perturbation=copied(modules.policy, "tanh"),
        target_perturbation=copied(modules.targ_policy, "tanh"),
        critics=critics_of(modules.q_funcs),
        target_critics=critics_of(modules.targ_q_funcs),
    )
    gradients, metrics, drawn = updated(agent, state, generator_of(modules, monkeypatch), monkeypatch)
    hand_out(torch, monkeypatch, drawn[:2])  # latents, of the next observations and of these

    loss = impl.compute_critic_grad(batch).critic_loss
    np.testing.assert_allclose(metrics["critic/loss"], loss.item(), **CLOSE)
    assert_gradients(gradients[0], modules.q_funcs)
    loss = impl.compute_actor_grad(batch).actor_loss
    np.testing.assert_allclose(metrics["actor/loss"], loss.item(), **CLOSE)
    assert_gradient(gradients[1], modules.policy)


def test_the_generator_of_bcq_and_bear(torch, d3rlpy, monkeypatch):
    impl = made(d3rlpy, "BCQ", beta=0.5)
    modules, batch = impl._modules, theirs(torch)
    generator = generator_of(modules, monkeypatch)
    (ours, _), gradient = jax.value_and_grad(elbo_loss, argnums=1, has_aux=True)(
        generator.bonus, generator.state, BATCH.observation, BATCH.action, jax.random.key(0)
    )
    hand_out(torch, monkeypatch, [np.asarray(jax.random.normal(jax.random.key(0), (ROWS, 2 * ACTIONS)))])
    loss = impl.compute_imitator_grad(batch)["loss"]
    np.testing.assert_allclose(ours, loss.item(), **CLOSE)
    assert_gradient(gradient.encoder, modules.vae_encoder, heads=2)
    assert_gradient(gradient.decoder, modules.vae_decoder)


@pytest.mark.parametrize(("kernel", "width"), [("laplacian", 20.0), ("gaussian", 10.0)])
def test_bear(torch, d3rlpy, monkeypatch, kernel, width):
    without_entropy = {"initial_temperature": 1e-30, "temp_learning_rate": 0.0}
    compared = {"n_mmd_action_samples": 5, "mmd_kernel": kernel, "mmd_sigma": width, "alpha_threshold": 0.05}
    impl = made(d3rlpy, "BEAR", n_target_samples=10, lam=0.75, initial_alpha=3.0, gamma=0.9, **compared, **without_entropy)
    compared = {"compared_actions": 5, "kernel": kernel, "kernel_width": width, "threshold": 0.05}
    agent = bear.BEAR(samples=10, least_share=0.75, warm_up_steps=0, hidden_sizes=SIZES, discount=0.9, **compared)
    modules, batch = impl._modules, theirs(torch)
    state = agent.init(jax.random.key(0), Problem(SPEC, BATCH))
    state = state._replace(
        actor=squashed(modules.policy),
        target_actor=squashed(modules.policy),  # they have none
        critics=critics_of(modules.q_funcs),
        target_critics=critics_of(modules.targ_q_funcs),
        log_multiplier=jnp.log(3.0),
    )
    generator = generator_of(modules, monkeypatch)
    gradients, metrics, (following, latents, compared_with, *_) = updated(agent, state, generator, monkeypatch)
    alone, *_ = updated(replace(agent, warm_up_steps=1), state, generator, monkeypatch)
    following = following.reshape(ROWS, 10, ACTIONS).transpose(1, 0, 2)
    hand_out(torch, monkeypatch, [following, compared_with[0], latents, compared_with, latents, compared_with])
    # Its own step of the multiplier would leave a slope in the actor's gradient; held still, its slope is the actor loss's own.
    monkeypatch.setattr(impl, "update_alpha", lambda loss: None)

    loss = impl.compute_critic_grad(batch).critic_loss
    np.testing.assert_allclose(metrics["critic/loss"], loss.item(), **CLOSE)
    assert_gradients(gradients[0], modules.q_funcs)
    loss = impl.compute_actor_grad(batch).actor_loss
    np.testing.assert_allclose(metrics["actor/loss"], loss.item(), **CLOSE)
    assert_gradient(gradients[1].network, modules.policy, heads=2)
    np.testing.assert_allclose(gradients[2], -next(modules.log_alpha.parameters()).grad.item(), rtol=1e-4)

    impl.compute_warmup_actor_grad(batch)  # without Q
    assert_gradient(alone[1].network, modules.policy, heads=2)

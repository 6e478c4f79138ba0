"""The same weights and the same batch through our losses and through d3rlpy's: the same numbers, the same gradients.

d3rlpy 2.8 asks for a Gymnasium older than ours, so no extra of ours can name it. In an environment of its own:
`pip install torch d3rlpy pytest`, then our requirements but for Gymnasium, then `PYTHONPATH=src pytest -m slow` and this file.
Noise is drawn by d3rlpy and handed to us. Where a definition differs, the agent's page says how.
"""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tether.agents import actor_critic, bcq, bear, cql, iql, td3_bc
from tether.agents.weighted_cloning import Clone, advantage_weight, weighted_cloning_loss
from tether.networks import MLP
from tether.policies.best_of_samples import perturbed
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


def theirs(torch: Any) -> Any:
    from d3rlpy.torch_utility import TorchMiniBatch

    observation, action, reward, following, terminated = (torch.from_numpy(column) for column in columns())
    ones = torch.ones(ROWS, 1)
    names = {"observations": observation, "actions": action, "rewards": reward[:, None], "next_observations": following}
    names |= {"terminals": terminated[:, None], "intervals": ones, "returns_to_go": ones, "next_actions": action}
    wanted = TorchMiniBatch.__dataclass_fields__
    return TorchMiniBatch(**{name: names.get(name, "cpu" if name == "device" else ones) for name in wanted})


def made(d3rlpy: Any, name: str, **settings: Any) -> Any:
    """d3rlpy's implementation of an algorithm, with networks of our size."""
    sizes = d3rlpy.models.VectorEncoderFactory(list(SIZES))
    encoders = {f"{part}_encoder_factory": sizes for part in ("actor", "critic", "value", "imitator")}
    kind = getattr(d3rlpy.algos, f"{name}Config")
    known = {key: value for key, value in encoders.items() if key in kind.__dataclass_fields__}
    algorithm = kind(**known, **settings).create(device="cpu:0")
    algorithm.create_impl((OBSERVATIONS,), ACTIONS)
    return algorithm.impl


def copied(module: Any, last: str = "none", heads: int = 1) -> MLP:
    """A network of theirs as ours: relu between layers. Several last layers side by side are one."""
    linear = [part for part in module.modules() if type(part).__name__ == "Linear"]
    body, tail = linear[: len(linear) - heads], linear[len(linear) - heads :]
    weights = [part.weight.detach().numpy().T for part in body] + [np.concatenate([t.weight.detach().numpy().T for t in tail], 1)]
    biases = [part.bias.detach().numpy() for part in body] + [np.concatenate([t.bias.detach().numpy() for t in tail])]
    return MLP(tuple(map(jnp.asarray, weights)), tuple(map(jnp.asarray, biases)), None, ("relu",) * len(body) + (last,))


def critics_of(functions: Any) -> Any:
    from tether.networks import Critics

    return Critics(tuple(copied(one) for one in functions))


def assert_gradient(found: MLP, module: Any, heads: int = 1) -> None:
    linear = [part for part in module.modules() if type(part).__name__ == "Linear"]
    body, tail = linear[: len(linear) - heads], linear[len(linear) - heads :]
    weights = [part.weight.grad.numpy().T for part in body] + [np.concatenate([t.weight.grad.numpy().T for t in tail], 1)]
    for ours, other in zip(found.weights, weights, strict=True):
        assert np.abs(other).max() > 0
        np.testing.assert_allclose(ours, other, **CLOSE)


def deterministic(module: Any) -> Deterministic:
    return Deterministic(copied(module, "tanh"), SPEC.action_low, SPEC.action_high)


def squashed(module: Any) -> SquashedGaussian:
    return SquashedGaussian(copied(module, heads=2), SPEC.action_low, SPEC.action_high)


def none(observation: jax.Array, action: jax.Array, key: Any) -> jax.Array:
    return jnp.zeros(action.shape[0])


def test_td3_bc(torch, d3rlpy):
    impl = made(d3rlpy, "TD3PlusBC", target_smoothing_sigma=1e-9, gamma=0.9)
    agent = td3_bc.TD3BC(hidden_sizes=SIZES, target_noise=0.0, discount=0.9, normalise_observations=False)
    modules, batch = impl._modules, theirs(torch)
    actor, critics = deterministic(modules.policy), critics_of(modules.q_funcs)

    state = agent.init(jax.random.key(0), Problem(SPEC, BATCH))
    state = state._replace(target_actor=deterministic(modules.targ_policy), target_critics=critics_of(modules.targ_q_funcs))
    batches = jax.tree.map(lambda column: column[None], BATCH)
    no_cost = lambda *given: (jnp.zeros(ROWS), {})  # noqa: E731
    target, _ = actor_critic.critic_targets(agent, state, batches, jax.random.key(1), no_cost)
    loss = impl.compute_critic_loss(batch, impl.compute_target(batch)).critic_loss
    loss.backward()
    (ours, _), gradient = jax.value_and_grad(actor_critic.critic_loss, has_aux=True)(critics, BATCH, target[0])
    np.testing.assert_allclose(ours, loss.item(), **CLOSE)
    for number in range(2):
        assert_gradient(gradient.each[number], modules.q_funcs[number])

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
    assert_gradient(gradient.each[1], modules.q_funcs[1])

    action = modules.policy(batch.observations)
    loss = impl.compute_actor_loss(batch, action).actor_loss
    loss.backward()
    weight = advantage_weight(recorded - value(BATCH.observation)[:, 0], 3.0, iql.MOST_WEIGHT)
    clone = Clone(deterministic(modules.policy), jnp.asarray(action.logstd.detach().numpy()[0]))
    (ours, _), gradient = jax.value_and_grad(weighted_cloning_loss, has_aux=True)(clone, BATCH, weight, jax.random.key(0), none)
    np.testing.assert_allclose(ours, loss.item(), **CLOSE)
    assert_gradient(gradient.mean.network, modules.policy)


def test_cql(torch, d3rlpy, monkeypatch):
    impl = made(d3rlpy, "CQL", n_action_samples=4, conservative_weight=5.0, alpha_threshold=0.0, gamma=0.9)
    modules, batch = impl._modules, theirs(torch)
    critics, actor = critics_of(modules.q_funcs), squashed(modules.policy)
    pushed: list[Any] = []
    forward = type(impl._q_func_forwarder).compute_expected_q

    def watched(self: Any, x: Any, action: Any, reduction: str = "mean") -> Any:
        if action.shape[0] == 4 * ROWS:
            pushed.append(action.detach().numpy().reshape(ROWS, 4, ACTIONS).transpose(1, 0, 2))
        return forward(self, x, action, reduction)

    monkeypatch.setattr(type(impl._q_func_forwarder), "compute_expected_q", watched)
    loss = impl._compute_conservative_loss(batch.observations, batch.actions, batch.next_observations, batch.returns_to_go).sum()
    loss.backward()
    here, there, uniform = map(jnp.asarray, pushed)
    density = [
        jax.vmap(actor.log_probability, (None, 0))(x, a) for x, a in [(BATCH.observation, here), (BATCH.next_observation, there)]
    ]
    proposals = cql.Proposals(
        jnp.concatenate([here, there, uniform]), jnp.concatenate([*density, jnp.full((4, ROWS), -ACTIONS * jnp.log(2.0))])
    )

    def gap(critics: Any) -> jax.Array:
        values = critics(BATCH.observation, BATCH.action)
        return 5.0 * jnp.sum(jnp.mean(cql.conservative_gap(critics, BATCH.observation, proposals, values), axis=1))

    ours, gradient = jax.value_and_grad(gap)(critics)
    np.testing.assert_allclose(ours, loss.item(), rtol=1e-4)
    assert_gradient(gradient.each[0], modules.q_funcs[0])


def test_bcq(torch, d3rlpy, monkeypatch):
    impl = made(d3rlpy, "BCQ", n_action_samples=6, lam=0.75, action_flexibility=0.05, gamma=0.9)
    modules, batch = impl._modules, theirs(torch)
    likely: list[Any] = []
    decode = type(modules.vae_decoder).forward

    def watched(self: Any, x: Any, latent: Any, *rest: Any) -> Any:
        found = decode(self, x, latent, *rest)
        likely.append(found.detach().numpy())
        return found

    monkeypatch.setattr(type(modules.vae_decoder), "forward", watched)
    loss = impl.compute_actor_grad(batch).actor_loss
    critics, move = critics_of(modules.q_funcs), copied(modules.policy, "tanh")

    def actor_loss(move: MLP) -> jax.Array:
        action = perturbed(move, SPEC, BATCH.observation, jnp.asarray(likely[0]), 0.05)
        return -jnp.mean(critics.first(BATCH.observation, action))

    ours, gradient = jax.value_and_grad(actor_loss)(move)
    np.testing.assert_allclose(ours, loss.item(), **CLOSE)
    assert_gradient(gradient, modules.policy)

    target = impl.compute_target(batch)[:, 0].numpy()
    repeated = jnp.repeat(BATCH.next_observation, 6, axis=0)
    action = perturbed(copied(modules.targ_policy, "tanh"), SPEC, repeated, jnp.asarray(likely[1]), 0.05)
    found = bcq.best_of_mixed(critics_of(modules.targ_q_funcs)(repeated, action), 0.75, 6)
    np.testing.assert_allclose(found, target, **CLOSE)


@pytest.mark.parametrize(("kernel", "width"), [("laplacian", 20.0), ("gaussian", 10.0)])
def test_bear(torch, d3rlpy, monkeypatch, kernel, width):
    impl = made(d3rlpy, "BEAR", n_mmd_action_samples=5, mmd_kernel=kernel, mmd_sigma=width, alpha_threshold=0.05)
    from d3rlpy.algos.qlearning.torch import bear_impl

    modules, batch = impl._modules, theirs(torch)
    generated, noise = torch.randn(ROWS, 5, ACTIONS), torch.randn(5, ROWS, ACTIONS)
    monkeypatch.setattr(bear_impl, "forward_vae_sample_n", lambda **given: generated)
    monkeypatch.setattr(torch.distributions.Normal, "rsample", lambda self, shape: self.loc + self.scale * noise)
    loss = impl._compute_mmd_loss(batch.observations)
    loss.backward()

    def distance(actor: SquashedGaussian) -> jax.Array:
        mean, log_std = actor.moments(BATCH.observation)
        raw = mean[None] + jnp.exp(log_std)[None] * jnp.asarray(noise.numpy())
        return jnp.mean(bear.mmd(raw, jnp.asarray(generated.numpy().transpose(1, 0, 2)), kernel, width)) - 0.05

    ours, gradient = jax.value_and_grad(distance)(squashed(modules.policy))  # their multiplier starts at 1, as ours does
    np.testing.assert_allclose(ours, loss.item(), **CLOSE)
    assert_gradient(gradient.network, modules.policy, heads=2)

"""NumPy runs what JAX runs: every kind of policy and every bonus of the registries, to 1e-5."""

from __future__ import annotations

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from shipped import CHOICES, IMAGES, MADE, OBSERVATIONS, SPECS, experience, frozen, rows, shipped

from tether.bonuses import BONUSES, NO_BONUS, FrozenBonus, without_chance
from tether.errors import TetherError
from tether.networks import Layers, make_critics, make_network
from tether.policies import POLICIES, BestOfSamples, Greedy, Policy, load_policy
from tether.registry import BONUSES as NAMES
from tether.runtime import OutsideRange
from tether.runtime import load_policy as load_without_jax
from tether.runtime.actors import READERS as ACTORS
from tether.runtime.bonuses import READERS, read_bonus
from tether.runtime.layers import Tensors
from tether.runtime.noise import standard_normal
from tether.settings import to_named
from tether.storage import flatten_tree

VARIANTS = [(name, {}) for name in NAMES]
VARIANTS += [
    ("density", {"components": 3}),
    ("cvae", {"measure": "bound", "elbo": "sum"}),
    ("cvae", {"measure": "bound", "elbo": "calibrated"}),
    ("cvae", {"measure": "bound", "reduction": "mean", "normalise_observations": True}),
]


@jax.jit
def novelty(bonus: FrozenBonus, observation: jax.Array, action: jax.Array, key: jax.Array) -> jax.Array:
    return bonus(observation, action, key)


def in_numpy(bonus: FrozenBonus, observation: np.ndarray, action: np.ndarray) -> np.ndarray:
    settings, state = to_named(bonus.bonus, BONUSES), Tensors(flatten_tree(bonus.state))
    return np.asarray(read_bonus(settings, bonus.spec, state)(np, observation, action, None))


# Every bonus where actions are continuous; the rest, which differs in few lines, takes long to compile.
CASES = [("continuous", *variant) for variant in VARIANTS]
CASES += [("discrete", name, {}) for name in ("cvae", "count", "density")] + [("images", "classifier", {})]
SLOW = [(kind, *variant) for kind in ("discrete", "images") for variant in VARIANTS if (kind, *variant) not in CASES]


@pytest.mark.parametrize(
    ("kind", "name", "settings"),
    [*CASES, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)],
    ids=lambda value: value if isinstance(value, str) else len(value),
)
def test_every_bonus_is_the_same_without_jax(kind: str, name: str, settings: dict[str, object]):
    if kind == "images" and name == "rnd-film":
        pytest.skip("rnd-film has no convolution: to it an image is a row of numbers, as in the discrete case")
    made = frozen(name, SPECS[kind], **settings)
    certain = FrozenBonus(without_chance(made.bonus), made.state, made.spec)
    data, other = rows(made.spec), rows(made.spec, seed=1)
    observation, action = (np.concatenate([one, two]) for one, two in zip(data[:2], other[:2], strict=True))
    expected = np.asarray(novelty(certain, observation, action, jax.random.key(0)))
    np.testing.assert_allclose(in_numpy(certain, observation, action), expected, rtol=1e-5, atol=1e-6)
    if name != NO_BONUS:
        assert np.ptp(expected) > 0
    # Whatever is drawn or asked besides, a pair has one value.
    again = np.asarray(novelty(certain, observation[::-1], action[::-1], jax.random.key(7)))
    np.testing.assert_allclose(again[::-1], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", POLICIES)
def test_every_kind_of_policy_is_the_same_without_jax(kind: str, tmp_path):
    made = shipped(kind)
    made.save(tmp_path / "policy.safetensors")
    loaded, plain = load_policy(tmp_path / "policy.safetensors"), load_without_jax(tmp_path / "policy.safetensors")
    with pytest.warns(OutsideRange, match="outside the recorded range"):
        action, familiarity = loaded.act(3 * OBSERVATIONS, with_familiarity=True)
    with pytest.warns(OutsideRange, match="outside the recorded range"):
        of_plain = plain.act(3 * OBSERVATIONS, with_familiarity=True)
    np.testing.assert_allclose(of_plain[0], action, atol=1e-5)
    np.testing.assert_allclose(of_plain[1], familiarity, atol=1e-5)
    np.testing.assert_array_equal(made(OBSERVATIONS), loaded(OBSERVATIONS))
    np.testing.assert_allclose(plain(OBSERVATIONS[0]), made(OBSERVATIONS[0]), atol=1e-5)
    assert repr(plain).splitlines()[1:] == repr(loaded).splitlines()[1:]


def test_the_best_of_a_policys_own_samples(tmp_path):
    """BEAR's: the generator is a squashed Gaussian, and nothing moves what it draws."""
    spec = MADE["squashed-gaussian"][1]
    critics = make_critics(jax.random.key(2), spec, 2, Layers((8,)))
    made = Policy(BestOfSamples(MADE["squashed-gaussian"][0], critics, samples=7), spec)
    made.save(tmp_path / "policy.safetensors")
    np.testing.assert_allclose(load_without_jax(tmp_path / "policy.safetensors")(OBSERVATIONS), made(OBSERVATIONS), atol=1e-5)


def test_none_is_forgotten():
    assert set(READERS) == set(NAMES)
    assert set(ACTORS) == set(POLICIES) == set(MADE)


def test_a_greedy_policy_on_images_draws_the_same_for_each_row(tmp_path):
    """Its penalty samples a latent: the draw is JAX's of one key, and does not hang on what else is asked."""
    network = make_network(jax.random.key(0), IMAGES, 0, Layers((8,)), 3)
    made = Policy(Greedy(network, frozen("cvae", IMAGES), jnp.float32(3.0)), IMAGES)
    made.save(tmp_path / "policy.safetensors")
    plain, observation = load_without_jax(tmp_path / "policy.safetensors"), 20.0 * rows(IMAGES, 200).observation
    actions = made(observation)
    assert len(set(actions.tolist())) > 1
    np.testing.assert_array_equal(plain(observation), actions)
    np.testing.assert_array_equal(made(observation[50:51]), actions[50:51])
    unpenalised = Policy(Greedy(network), IMAGES)(observation)
    assert (unpenalised != actions).any()


def test_the_draw_is_that_of_jax():
    expected = jax.random.normal(jax.random.key(0), (300, 12))
    np.testing.assert_allclose(standard_normal(300, 12), expected, atol=1e-6)


def test_what_cannot_be_run_is_named(tmp_path):
    with pytest.raises(TetherError, match=r"^tether\.runtime cannot run the bonus 'ensemble'; it runs cvae, rnd, "):
        read_bonus({"name": "ensemble"}, CHOICES, Tensors({}))
    from tether.runtime.actors import read_actor

    with pytest.raises(TetherError, match=r"^tether\.runtime cannot run a policy of kind 'greddy'; did you mean greedy"):
        read_actor({"kind": "greddy"}, Tensors({}))


def test_it_imports_no_jax_and_no_other_slow_thing(tmp_path):
    policy = shipped("deterministic")
    policy.save(tmp_path / "policy.safetensors")
    script = f"""
import sys
from tether.runtime import load_policy
policy = load_policy({str(tmp_path / "policy.safetensors")!r})
policy.act([0.0, 0.0, 0.0], with_familiarity=True)
print("loaded:", [name for name in ("jax", "equinox", "h5py", "scipy", "matplotlib", "rich", "gymnasium") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout == "loaded: []\n"


def test_an_experience_of_each_bonus_travels(tmp_path):
    spec = MADE["deterministic"][1]
    for name in ("density", "count"):
        made = Policy(MADE["deterministic"][0], spec, {}, experience(frozen(name, spec)))
        made.save(tmp_path / "one.safetensors")
        load_policy(tmp_path / "one.safetensors").save(tmp_path / "two.safetensors")
        assert (tmp_path / "one.safetensors").read_bytes() == (tmp_path / "two.safetensors").read_bytes()
        plain, data = load_without_jax(tmp_path / "two.safetensors"), rows(spec, 400)
        found = plain.familiarity(data.observation, data.action)
        np.testing.assert_allclose(found, made.familiarity(data.observation, data.action), atol=1e-5)


def test_several_draws_of_a_latent_are_refused():
    """They would be one draw here, and another bonus than was trained with."""
    with pytest.raises(TetherError, match=r"several bonus\.draws; one trained with bonus\.draws=1 it can"):
        read_bonus({"name": "cvae", "draws": 5}, CHOICES, Tensors({}))

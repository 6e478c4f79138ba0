"""onnxruntime gives what JAX gives: every kind of policy and every bonus of the registries, on 10,000 observations, to 1e-5."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import pytest
from shipped import CHOICES, IMAGES, MADE, experience, frozen, rows, shipped

from tether.bonuses import BONUSES, NO_BONUS
from tether.export.model import CHECKED, TOLERANCE, build, check_model, export_checked, open_session, write_model
from tether.networks import Layers, make_critics, make_network
from tether.policies import POLICIES, BestOfSamples, Greedy, Policy
from tether.runtime import load_policy

QUICK = {"cvae", "rnd-film", "count-exact"}  # all that the others share with these is tested by them
onnx = pytest.importorskip("onnx")


def exported(policy: Policy, folder: Path) -> tuple[Path, int]:
    """The model, checked."""
    path = folder / "policy.onnx"
    checked, opset = export_checked(policy, path)
    assert checked.observations == CHECKED == 10_000
    assert max(checked.action, checked.familiarity) <= TOLERANCE == 1e-5
    assert checked.ties < 200
    return path, opset


@pytest.mark.parametrize("kind", POLICIES)
def test_every_kind_of_policy(kind: str, tmp_path):
    policy = shipped(kind)
    path, opset = exported(policy, tmp_path)
    assert opset == 18
    session = open_session(path)
    assert [output.name for output in session.get_outputs()] == ["action", "familiarity"]
    for number in (1, 7):  # any number of rows
        action, familiarity = session.run(None, {"observation": rows(policy.spec, 14).observation[:number]})
        assert (len(action), familiarity.shape) == (number, (number,))
        np.testing.assert_allclose(action, policy(rows(policy.spec, 14).observation[:number]), atol=1e-5)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in BONUSES if name != NO_BONUS],
)
def test_every_bonus(name: str, tmp_path):
    spec = MADE["deterministic"][1]
    policy = Policy(MADE["deterministic"][0], spec, {}, experience(frozen(name, spec)))
    assert exported(policy, tmp_path)[1] == (26 if name == "count-exact" else 18)


def test_images_and_choices_with_a_penalty(tmp_path):
    network = make_network(jax.random.key(0), IMAGES, 0, Layers((8,)), 3)
    actor = Greedy(network, frozen("cvae", IMAGES), jax.numpy.float32(3.0))
    policy = Policy(actor, IMAGES, {}, experience(frozen("density", IMAGES)))
    policy.save(tmp_path / "policy.safetensors")
    write_model(load_policy(tmp_path / "policy.safetensors"), tmp_path / "policy.onnx")
    session = open_session(tmp_path / "policy.onnx")
    observation = 20.0 * rows(IMAGES, 100).observation
    action, familiarity = session.run(None, {"observation": observation})
    assert action.dtype == np.int64
    assert len(set(action.tolist())) > 1
    np.testing.assert_array_equal(action, policy(observation))
    np.testing.assert_allclose(familiarity, policy.familiarity(observation, action), atol=1e-5)


def test_what_overflows_is_unfamiliar_there_too(tmp_path):
    policy = shipped("deterministic")
    policy.save(tmp_path / "policy.safetensors")
    write_model(load_policy(tmp_path / "policy.safetensors"), tmp_path / "policy.onnx")
    huge = np.array([[0.1, 0.2, 0.3], [0.1, 3.4e38, 0.2]], np.float32)
    assert np.isnan(policy.novelty(huge, policy.rows_to_actions(huge))[1])
    familiarity = open_session(tmp_path / "policy.onnx").run(["familiarity"], {"observation": huge})[0]
    assert familiarity[1] == np.float32(1 / 401) < familiarity[0]


def test_a_model_that_differs_is_not_kept(tmp_path):
    from tether.errors import TetherError
    from tether.export.model import sample_observations

    one, other = shipped("deterministic"), shipped("squashed-gaussian")
    other.save(tmp_path / "other.safetensors")
    plain = load_policy(tmp_path / "other.safetensors")
    write_model(plain, tmp_path / "other.onnx")
    with pytest.raises(TetherError, match=r"^the ONNX model differs from JAX by .* more than 1e-05; it was not kept"):
        check_model(tmp_path / "other.onnx", one, plain, sample_observations(one, 50))


def test_a_missing_opset_is_named(tmp_path):
    from tether.errors import TetherError

    shipped("deterministic").save(tmp_path / "one.safetensors")
    plain = load_policy(tmp_path / "one.safetensors")
    with pytest.raises(TetherError, match=r"--opset is 17; at least 18 is needed"):
        build(plain, 17)
    with pytest.raises(TetherError, match=r"--opset is 99; the onnx package that is installed knows those up to \d+$"):
        build(plain, 99)
    assert build(plain, 20)[0].opset_import[0].version == 20
    Policy(MADE["greedy"][0], CHOICES, {}, experience(frozen("count-exact", CHOICES))).save(tmp_path / "two.safetensors")
    with pytest.raises(TetherError, match=r"at least 26 is needed: count-exact needs BitCast"):
        build(load_policy(tmp_path / "two.safetensors"), 18)


def test_the_model_says_what_it_is(tmp_path):
    path, _ = exported(shipped("deterministic"), tmp_path)
    found = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
    assert found["tether"] == "policy"
    assert '"pairs": 400' in found["familiarity"]
    (tmp_path / "cut.onnx").write_bytes(path.read_bytes()[:-50])
    from tether.errors import TetherError

    with pytest.raises(TetherError, match=r"onnxruntime cannot run .*cut\.onnx"):
        open_session(tmp_path / "cut.onnx")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings"), [("density", {"components": 3}), ("cvae", {"measure": "bound", "elbo": "calibrated"})]
)
def test_settings_that_change_what_a_bonus_computes(name: str, settings: dict[str, object], tmp_path):
    actor, spec = MADE["deterministic"]
    exported(Policy(actor, spec, {}, experience(frozen(name, spec, **settings))), tmp_path)


@pytest.mark.slow
def test_the_best_of_a_policys_own_samples(tmp_path):
    gaussian, spec = MADE["squashed-gaussian"]
    actor = BestOfSamples(gaussian, make_critics(jax.random.key(2), spec, 2, Layers((8,))), samples=7)
    exported(Policy(actor, spec, {}, experience(frozen("rnd", spec))), tmp_path)

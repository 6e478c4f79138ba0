"""A policy file carries everything that acting needs, and nothing else passes for one."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import tether
import tether.runtime
from tether import storage
from tether.errors import TetherError
from tether.networks import Layers
from tether.policies import Policy, load_policy
from tether.policies.deterministic import make_deterministic
from tether.types import Spec

SPEC = Spec(3, (-1.0, 0.0), (1.0, 4.0))
OBSERVATIONS = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)


def policy(layer_norm: bool = False, hidden_sizes: tuple[int, ...] = (8, 6)) -> Policy:
    actor = make_deterministic(jax.random.key(1), SPEC, Layers(hidden_sizes, ("tanh", "elu"), "first" if layer_norm else "none"))
    return Policy(actor, SPEC, {"dataset": "hopper", "step": 7})


@pytest.mark.parametrize("layer_norm", [False, True])
def test_a_policy_acts_the_same_bit_for_bit_after_loading(tmp_path, layer_norm: bool):
    made = policy(layer_norm)
    made.save(tmp_path / "one.safetensors")
    loaded = load_policy(tmp_path / "one.safetensors")
    assert loaded(OBSERVATIONS).tobytes() == made(OBSERVATIONS).tobytes()
    assert (loaded.spec, loaded.about) == (SPEC, {"dataset": "hopper", "step": 7})
    loaded.save(tmp_path / "two.safetensors")
    assert (tmp_path / "one.safetensors").read_bytes() == (tmp_path / "two.safetensors").read_bytes()


def test_a_saturated_policy_acts_at_the_bounds_it_was_saved_with(tmp_path):
    made = policy()
    pushed = jax.tree.map(lambda leaf: 0.0 * leaf, made.actor)
    biases = (*pushed.network.biases[:-1], np.array([100.0, -100.0], np.float32))
    network = type(pushed.network)(pushed.network.weights, biases, None, pushed.network.activations)
    Policy(type(pushed)(network, SPEC.action_low, SPEC.action_high), SPEC).save(tmp_path / "pushed.safetensors")
    np.testing.assert_array_equal(load_policy(tmp_path / "pushed.safetensors")(OBSERVATIONS[0]), [1.0, 0.0])


def test_one_observation_gives_one_action_and_a_batch_a_batch():
    made = policy()
    batch = made(OBSERVATIONS)
    assert batch.shape == (5, 2)
    assert made(OBSERVATIONS[2]).shape == (2,)
    np.testing.assert_allclose(made(OBSERVATIONS[2]), batch[2], rtol=1e-6)
    assert made(np.zeros((0, 3))).shape == (0, 2)


def test_lists_and_doubles_are_observations_too():
    made = policy()
    np.testing.assert_array_equal(made([0.5, 0.0, -0.5]), made(np.array([0.5, 0.0, -0.5], np.float32)))  # type: ignore[arg-type]
    assert made(np.zeros(3, np.float64)).dtype == np.float32


@pytest.mark.parametrize("shape", [(), (2,), (4,), (5, 2), (1, 5, 3), (3, 1)])
def test_observations_of_another_shape_are_refused(shape: tuple[int, ...]):
    with pytest.raises(TetherError) as raised:
        policy()(np.zeros(shape))
    assert str(raised.value) == f"the policy takes observations of shape (3,) or (B, 3); got {shape}"


# Files


def test_the_policy_of_a_run_is_found_by_its_folder(finished_run):
    loaded = tether.load_policy(finished_run)
    tensors, _ = storage.read_tensors(finished_run / "checkpoint.safetensors")
    for layer, weights in enumerate(loaded.actor.network.weights):
        assert np.asarray(weights).tobytes() == tensors[f"agent/target_actor/network/weights/{layer}"].tobytes()
    assert (loaded.spec.action_low, loaded.spec.action_high) == ((-1.0,), (1.0,))
    assert loaded.about["env_id"] == "InvertedDoublePendulum-v5"
    assert (loaded.about["step"], loaded.about["policy"], loaded.about["dataset"]) == (3000, "target", "pendulum")


def test_a_checkpoint_is_not_a_policy(finished_run):
    with pytest.raises(TetherError, match=r"checkpoint\.safetensors is not a policy \(it may be a checkpoint\)"):
        load_policy(finished_run / "checkpoint.safetensors")


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(TetherError, match=r"^there is no policy file .*absent\.safetensors$"):
        load_policy(tmp_path / "absent.safetensors")
    with pytest.raises(TetherError, match=r"^there is no policy file .*policy\.safetensors$"):
        load_policy(tmp_path)


def test_a_file_cut_short_is_refused(tmp_path):
    policy().save(tmp_path / "whole.safetensors")
    (tmp_path / "cut.safetensors").write_bytes((tmp_path / "whole.safetensors").read_bytes()[:-1])
    with pytest.raises(TetherError, match=r"cut\.safetensors is cut short, damaged or not a safetensors file"):
        load_policy(tmp_path / "cut.safetensors")


def test_a_file_of_another_program_is_refused(tmp_path):
    save_file({"weights": np.zeros(3)}, tmp_path / "torch.safetensors")
    with pytest.raises(TetherError, match=r"torch\.safetensors is a safetensors file, but not one that Tether wrote"):
        load_policy(tmp_path / "torch.safetensors")


def test_a_policy_that_lacks_a_weight_is_refused(tmp_path):
    path = tmp_path / "policy.safetensors"
    policy().save(path)
    _, metadata = storage.read_tensors(path)
    tensors = load_file(path)
    del tensors["network/biases/1"]
    storage.write_tensors(path, tensors, metadata)
    with pytest.raises(TetherError, match=r"lack network/biases/1"):
        load_policy(path)


# Written by Tether before policy files had a version and could say how familiar an observation is

VERSION_2 = Path(__file__).parent / "version_2"


@pytest.mark.parametrize("load", [load_policy, tether.runtime.load_policy], ids=["jax", "numpy"])
@pytest.mark.parametrize("kind", ["deterministic", "greedy", "squashed-gaussian", "best-of-samples"])
def test_files_of_version_2_act_as_they_did(kind: str, load):
    expected = json.loads((VERSION_2 / "actions.json").read_text())
    read = load(VERSION_2 / f"{kind}.safetensors")
    np.testing.assert_allclose(read(np.float32(expected["observations"])), expected[kind], rtol=1e-5, atol=1e-6)
    assert (read.about, read.experience) == ({"dataset": "made up", "step": 3}, None)

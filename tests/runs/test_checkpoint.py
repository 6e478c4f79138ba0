"""What a checkpoint brings back, and what it is refused for."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from pendulum import small_config, snapshot, state_of

from tether import storage
from tether.agents.awr import AWR
from tether.bonuses import NoBonus
from tether.data import load_dataset
from tether.data.columns import with_columns
from tether.errors import TetherError
from tether.runs import checkpoint
from tether.runs.checkpoint import RunState
from tether.types import Problem


@pytest.fixture
def folder(interrupted_run: Path, tmp_path: Path) -> Path:
    """A copy of a run that stands at step 100."""
    return Path(shutil.copytree(interrupted_run, tmp_path / "run"))


@pytest.fixture(scope="module")
def config(pendulum_file: Path):
    return small_config(pendulum_file)


@pytest.fixture(scope="module")
def dataset(pendulum_file: Path):
    return load_dataset(pendulum_file)


@pytest.fixture(scope="module")
def template(config, dataset) -> RunState:
    def fresh(key: jax.Array) -> RunState:
        key_agent, key_bonus = jax.random.split(key)
        problem = Problem(dataset.spec, dataset.transitions)
        bonus = config.bonus.frozen(config.bonus.init(key_bonus, problem))
        return RunState(config.agent.init(key_agent, problem), bonus, jnp.zeros((), jnp.int32))

    return jax.eval_shape(fresh, jax.random.key(0))


def test_what_is_loaded_is_what_was_saved(folder: Path, tmp_path: Path, template, config, dataset):
    loaded = checkpoint.load(folder, template, config, dataset.sha256)
    assert loaded is not None
    state, progress = loaded
    assert int(state.step) == 100
    assert (progress.config, progress.dataset_sha256, progress.spec) == (config, dataset.sha256, dataset.spec)
    assert progress.env_id == "InvertedDoublePendulum-v5"
    assert progress.seconds > 0
    checkpoint.save(tmp_path / "again", state, progress)
    assert (tmp_path / "again" / checkpoint.NAME).read_bytes() == (folder / checkpoint.NAME).read_bytes()


def test_a_folder_without_a_checkpoint_starts_from_nothing(tmp_path: Path, template, config, dataset):
    assert checkpoint.load(tmp_path, template, config, dataset.sha256) is None


def test_a_checkpoint_of_another_config_is_refused(folder: Path, template, config, dataset):
    before = snapshot(folder)
    with pytest.raises(TetherError) as raised:
        checkpoint.load(folder, template, replace(config, seed=1), dataset.sha256)
    path = folder / checkpoint.NAME
    assert str(raised.value) == (
        f"{path} is of another config (seed: 1 here, 0 there); choose another --run-dir or the same settings"
    )
    assert snapshot(folder) == before


def test_a_checkpoint_of_another_dataset_is_refused(folder: Path, template, config, dataset):
    before = snapshot(folder)
    with pytest.raises(TetherError) as raised:
        checkpoint.load(folder, template, config, "0" * 64)
    assert str(raised.value) == (
        f"{folder / checkpoint.NAME} was trained on another dataset (sha256 {dataset.sha256[:12]}…); choose another --run-dir"
    )
    assert snapshot(folder) == before


def test_a_checkpoint_cut_short_is_refused(folder: Path, template, config, dataset):
    path = folder / checkpoint.NAME
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(TetherError, match=r"checkpoint\.safetensors is cut short, damaged or not a safetensors file"):
        checkpoint.load(folder, template, config, dataset.sha256)


def test_another_file_in_its_place_is_refused(finished_run: Path, tmp_path: Path, template, config, dataset):
    shutil.copy(finished_run / "policy.safetensors", tmp_path / checkpoint.NAME)
    with pytest.raises(TetherError, match=r"checkpoint\.safetensors is not the checkpoint of a run$"):
        checkpoint.load(tmp_path, template, config, dataset.sha256)
    with pytest.raises(TetherError, match=r"checkpoint\.safetensors is not the checkpoint of a run$"):
        checkpoint.read_agent(tmp_path)


def test_a_state_of_another_shape_is_refused(folder: Path, template, config, dataset):
    tensors, metadata = storage.read_tensors(folder / checkpoint.NAME)
    del tensors["step"]
    storage.write_tensors(folder / checkpoint.NAME, tensors, metadata)
    with pytest.raises(TetherError, match="the stored arrays lack step"):
        checkpoint.load(folder, template, config, dataset.sha256)


def test_the_agent_alone_is_read_without_the_dataset(folder: Path, template, dataset):
    agent, bonus, step, progress = checkpoint.read_agent(folder)
    assert step == 100
    assert progress.spec == dataset.spec
    stored, _ = state_of(folder)
    read = {name: tensor.tobytes() for name, tensor in storage.flatten_tree({"agent": agent, "bonus": bonus.state}).items()}
    assert read == {name: content for name, content in stored.items() if name != "step"}
    assert jax.tree.structure(agent) == jax.tree.structure(template.agent)


def test_a_folder_without_a_checkpoint_has_no_agent(tmp_path: Path):
    with pytest.raises(TetherError, match=r"has no checkpoint\.safetensors: it is no run folder, or the run has not come to"):
        checkpoint.read_agent(tmp_path)


def test_an_agent_with_a_number_for_every_row_is_read_without_the_dataset(tmp_path: Path, config, dataset):
    agent = AWR(hidden_sizes=(4, 4))
    rows = with_columns(dataset, agent.traits.columns, agent.discount)
    shapes = jax.eval_shape(lambda key: agent.init(key, Problem(dataset.spec, rows)), jax.random.key(0))
    state = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    asked = replace(config, agent=agent, bonus=NoBonus(), evaluation=replace(config.evaluation, policy=""))
    progress = checkpoint.Progress(asked, dataset.sha256, dataset.spec, None)
    checkpoint.save(tmp_path, RunState(state, (), jnp.int32(5)), progress)
    found, *_ = checkpoint.read_agent(tmp_path)
    assert found.returns.shape == (dataset.size,)

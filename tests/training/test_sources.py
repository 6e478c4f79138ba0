"""Rows from disk: the same ones, in the same batches, to the same weights as rows on the device."""

from __future__ import annotations

import threading
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pendulum import small_config

from tether.bonuses import BONUSES
from tether.data import load_dataset
from tether.errors import TetherError
from tether.training import sources as rows_module
from tether.training.fit import fit_bonus, fit_name
from tether.training.loop import draw_rows
from tether.training.run import run
from tether.training.sources import Replay, Rows, empty_rows, gather
from tether.types import Batch, Spec


def numbered(size: int) -> Batch:
    """Row i holds i in every place."""
    number = np.arange(size, dtype=np.float32)
    return Batch(np.stack([number, number], axis=1), number[:, None], number, number[:, None] + [[0.0, 0.0]], number)


def test_rows_are_gathered_in_the_shape_of_their_numbers(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rows_module, "BLOCK", 2)
    wanted = np.array([[3, 1, 3], [0, 4, 2]])
    found = empty_rows(numbered(5), wanted.shape)
    gather(numbered(5), wanted, found)
    np.testing.assert_array_equal(found.reward, wanted)
    np.testing.assert_array_equal(found.observation, np.stack([wanted, wanted], axis=-1))


def test_the_numbers_of_a_step_come_from_its_own_number_alone():
    key = jax.random.key(7)
    drawn = draw_rows(key, jnp.asarray(10, jnp.int32), 3, 2, (2, 5), 1000)
    for index, step in enumerate((10, 12, 14)):
        key_rows, _ = jax.random.split(jax.random.fold_in(key, step))
        np.testing.assert_array_equal(drawn[index], jax.random.randint(key_rows, (2, 5), 0, 1000))
    assert len(np.unique(drawn)) > 20


def test_streamed_rows_are_those_of_the_epoch_whatever_comes_next():
    key = jax.random.key(0)
    rows = Rows(numbered(100), streamed=True)

    def expected(step: int, key: jax.Array = key) -> np.ndarray:
        return np.asarray(draw_rows(key, jnp.asarray(step, jnp.int32), 4, 2, (2, 3), 100))

    for step in (0, 8, 16, 0, 40):  # in order, then back, then ahead
        none, batches = rows.draw((2, 3), key, step, 2, 4)
        assert none is None
        np.testing.assert_array_equal(batches.reward, expected(step))
    other = jax.random.key(1)  # another learner on the same rows must not get what was gathered for the first
    np.testing.assert_array_equal(rows.draw((2, 3), other, 48, 2, 4)[1].reward, expected(48, other))
    rows.close()


def test_rows_on_the_device_are_named_by_the_same_numbers():
    key = jax.random.key(0)
    on_device, numbers = Rows(numbered(100)).draw((2, 3), key, 8, 2, 4)
    _, batches = (streamed := Rows(numbered(100), streamed=True)).draw((2, 3), key, 8, 2, 4)
    streamed.close()
    np.testing.assert_array_equal(on_device.reward[numbers], batches.reward)


def test_the_next_epoch_is_gathered_while_this_one_is_worked_on(monkeypatch: pytest.MonkeyPatch):
    gathering, threads = threading.Event(), []

    def watched(transitions, rows, into):
        threads.append(threading.current_thread().name)
        if len(threads) == 2:
            gathering.set()
        gather(transitions, rows, into)

    monkeypatch.setattr(rows_module, "gather", watched)
    rows = Rows(numbered(10), streamed=True)
    rows.draw((2,), jax.random.key(0), 0, 1, 3)
    assert gathering.wait(5.0)  # without a second draw
    rows.close()
    assert all(name.startswith("tether-rows") for name in threads)


def test_a_replay_is_drawn_from_as_far_as_it_is_filled():
    replay = Replay(100, Spec(2, (-1.0,), (1.0,)))
    for start in (0, 5):
        replay.append(Batch(*(column[start : start + 5] for column in numbered(10))))
        rows, numbers = replay.draw((200,), jax.random.key(0), start, 1, 1)
        found = np.asarray(rows.reward[numbers])
        assert set(np.unique(found)) == set(range(start + 5))
    assert replay.size == 10


@pytest.mark.parametrize(("share", "of_log"), [(0.5, 4), (0.25, 2), (0.0, 0), (1.0, 8)])
def test_a_share_of_every_batch_is_of_the_log_and_the_rest_of_what_came(share: float, of_log: int):
    """Ten rows of a log, room for six and four that have come: numbers 0 to 9, and 10 to 13."""
    spec = Spec(2, (-1.0,), (1.0,))
    replay = Replay(6, spec, log=numbered(10), log_share=share)
    replay.append(jax.tree.map(lambda column: column + 100, numbered(4)))
    rows, numbers = replay.draw((2, 8), jax.random.key(0), 0, 2, 25)
    assert numbers.shape == (25, 2, 8)
    numbers = np.asarray(numbers)
    first, rest = numbers[..., :of_log], numbers[..., of_log:]
    assert set(np.unique(first)) == (set(range(10)) if of_log else set())
    assert set(np.unique(rest)) == (set(range(10, 14)) if of_log < 8 else set())
    np.testing.assert_array_equal(rows.reward[10:14], numbered(4).reward + 100)
    np.testing.assert_array_equal(rows.reward[14:], 0.0)


def test_a_device_too_small_has_its_rows_streamed(monkeypatch: pytest.MonkeyPatch):
    class Small:
        def memory_stats(self):
            return {"bytes_limit": 1000}

    assert not Rows(numbered(100)).streamed
    monkeypatch.setattr(jax, "devices", lambda: [Small()])
    assert Rows(numbered(100)).streamed  # 100 rows of 7 numbers
    assert not Rows(numbered(10)).streamed


@pytest.fixture(scope="module")
def on_disk(pendulum_file: Path):
    return load_dataset(pendulum_file, on_disk=True)


@pytest.mark.slow
def test_a_whole_run_from_disk_ends_as_one_from_memory(
    pendulum_file: Path, finished_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The same policy file, byte for byte. With a cache of its own, so that the bonus too is fitted from disk."""
    monkeypatch.setenv("TETHER_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "run"
    run(small_config(pendulum_file), folder, show=False, say=lambda text: None, on_disk=True)
    assert (folder / "policy.safetensors").read_bytes() == (finished_run / "policy.safetensors").read_bytes()


@pytest.mark.slow
def test_a_run_begun_in_memory_goes_on_from_disk(pendulum_file: Path, interrupted_run: Path, finished_run: Path, tmp_path: Path):
    import shutil

    folder = tmp_path / "run"
    shutil.copytree(interrupted_run, folder)
    run(small_config(pendulum_file), folder, show=False, say=lambda text: None, on_disk=True)
    assert (folder / "policy.safetensors").read_bytes() == (finished_run / "policy.safetensors").read_bytes()


def test_the_command_leaves_rows_on_disk_when_told(pendulum_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    """Twice the same run, once by --data-on-disk: the same policy, and the columns in the cache."""
    from tether.cli import main

    monkeypatch.setenv("TETHER_CACHE", str(tmp_path / "cache"))
    arguments = ["train", "--dataset", str(pendulum_file), "--agent", "bc", "--bonus", "none", "--steps", "100"]
    arguments += ["--set", "agent.hidden_sizes=8,8", "evaluation.env_id=none"]
    assert main([*arguments, "--run-dir", str(tmp_path / "memory")]) == 0
    assert not (tmp_path / "cache" / "columns").exists()
    assert main([*arguments, "--run-dir", str(tmp_path / "disk"), "--data-on-disk"]) == 0
    assert "writing columns to disk" in capsys.readouterr().err
    assert len(list((tmp_path / "cache" / "columns").glob("pendulum-*/observation.npy"))) == 1
    one, other = ((tmp_path / name / "policy.safetensors").read_bytes() for name in ("memory", "disk"))
    assert one == other


def test_more_rows_than_a_sample_begin_a_fit_of_another_name(pendulum_file: Path, on_disk, monkeypatch: pytest.MonkeyPatch):
    in_memory, bonus = load_dataset(pendulum_file), BONUSES["classifier"](steps=2, hidden_sizes=(8, 8), batch_size=4)
    assert fit_name(bonus, on_disk) == fit_name(bonus, in_memory)
    monkeypatch.setattr(rows_module, "SAMPLE", 100)
    assert fit_name(bonus, on_disk) != fit_name(bonus, in_memory)
    assert len(Rows(on_disk.transitions).sample(100).reward) == 100
    for name in ("count", "count-exact"):
        with pytest.raises(TetherError, match="a bonus that counts needs every row in memory"):
            fit_bonus(BONUSES[name](), on_disk)

"""What a training leaves on disk is what it goes on from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import jax
import numpy as np
import pytest

from tether.collection.history import History, first_difference
from tether.collection.online import OnlineSettings, initial_state
from tether.collection.recording import Recording
from tether.errors import TetherError
from tether.types import Batch, Spec

SPEC = Spec(observation_size=4, action_low=(-3.0,), action_high=(3.0,))  # of the pendulum, so that tests share what is compiled


def block(number: float, rows: int = 100) -> Recording:
    """Rows whose every entry is `number`, cut at the end."""
    four, one = np.full((rows, 4), number, dtype=np.float32), np.full((rows, 1), number, dtype=np.float32)
    truncated = np.zeros(rows, dtype=bool)
    truncated[-1] = True
    return Recording(Batch(four, one, one[:, 0], four, np.zeros(rows, dtype=np.float32)), truncated)


def filled(folder: Path, settings: OnlineSettings) -> History:
    """Two blocks, of returns 10 and 30, the second with another agent than the first."""
    history = History(folder, settings, SPEC)
    history.append(initial_state(settings, SPEC), block(1.0), np.array([5.0, 15.0]))
    history.append(initial_state(replace(settings, seed=8), SPEC), block(2.0), np.array([30.0, 30.0]))
    return history


def same(one: object, other: object) -> bool:
    return all((np.asarray(a) == np.asarray(b)).all() for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))


def test_a_new_history_is_empty_and_starts_from_the_initial_agent(tmp_path: Path, tiny_online: OnlineSettings):
    history = History(tmp_path / "work", tiny_online, SPEC)
    assert history.step == 0
    assert history.evaluations == []
    assert same(history.state, initial_state(tiny_online, SPEC))


def test_opened_again_it_is_where_it_was(tmp_path: Path, tiny_online: OnlineSettings):
    filled(tmp_path, tiny_online)
    history = History(tmp_path, tiny_online, SPEC)
    assert history.step == 200
    assert [(evaluation.step, evaluation.mean) for evaluation in history.evaluations] == [(100, 10.0), (200, 30.0)]
    assert same(history.state, initial_state(replace(tiny_online, seed=8), SPEC))


def test_each_step_keeps_its_own_policy(tmp_path: Path, tiny_online: OnlineSettings):
    history = filled(tmp_path, tiny_online)
    assert same(history.policy(100), initial_state(tiny_online, SPEC).actor)
    assert same(history.policy(200), initial_state(replace(tiny_online, seed=8), SPEC).actor)
    assert not same(history.policy(100), history.policy(200))


def test_the_replay_is_that_of_the_first_steps(tmp_path: Path, tiny_online: OnlineSettings):
    history = filled(tmp_path, tiny_online)
    np.testing.assert_array_equal(history.replay(100).transitions.reward, np.full(100, 1.0))
    whole = history.replay(200)
    np.testing.assert_array_equal(whole.transitions.reward, [1.0] * 100 + [2.0] * 100)
    np.testing.assert_array_equal(np.flatnonzero(whole.truncated), [99, 199])


def test_a_block_whose_agent_was_not_written_is_as_if_it_never_was(tmp_path: Path, tiny_online: OnlineSettings):
    history = History(tmp_path, tiny_online, SPEC)
    history.append(history.state, block(1.0), np.array([5.0]))
    agent = (tmp_path / "agent.safetensors").read_bytes()
    history.append(history.state, block(2.0), np.array([7.0]))
    (tmp_path / "agent.safetensors").write_bytes(agent)  # as a kill between the two writes leaves it
    assert History(tmp_path, tiny_online, SPEC).step == 100


def test_a_folder_of_another_training_is_refused(tmp_path: Path, tiny_online: OnlineSettings):
    filled(tmp_path, tiny_online)
    with pytest.raises(TetherError, match=r"holds a training made with seed 3 \(here 4\); give another folder by --work"):
        History(tmp_path, replace(tiny_online, seed=4), SPEC)


def test_a_damaged_file_is_named(tmp_path: Path, tiny_online: OnlineSettings):
    filled(tmp_path, tiny_online)
    path = tmp_path / "replay-000000200.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(TetherError, match=r"replay-000000200\.safetensors is cut short"):
        History(tmp_path, tiny_online, SPEC).replay(200)


def test_first_difference_looks_inside():
    @dataclass(frozen=True)
    class Inner:
        c: int = 2
        newer: float = 0.5

    @dataclass(frozen=True)
    class Outer:
        a: int = 1
        b: Inner = Inner()

    assert first_difference({"a": 1, "b": {"c": 2, "newer": 0.5}}, Outer()) is None
    assert first_difference({"a": 1, "b": {"c": 2}}, Outer()) is None  # from before there was `newer`
    assert first_difference({"a": 1, "b": {"c": 2}}, Outer(b=Inner(newer=1.0))) == "with newer None (here 1.0)"
    assert first_difference({"a": 1, "b": {"c": 3}}, Outer()) == "with c 3 (here 2)"
    assert first_difference({"a": 1, "b": {"c": 2}, "old": 2}, Outer()) == "with old 2 (here None)"
    assert first_difference([], Outer()) == "by other means"

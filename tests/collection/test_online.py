"""One block of online training: what it reads, what it leaves, and that it can be repeated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import gymnasium
import jax
import numpy as np
import pytest

from tether import TD3
from tether.collection.online import OnlineSettings, initial_state, run_block, spec_of
from tether.environments.making import make_environment
from tether.errors import TetherError
from tether.training.loop import draw_rows, epoch
from tether.training.sources import Replay
from tether.types import Spec


@pytest.fixture
def pendulum() -> Iterator[gymnasium.Env]:
    environment = make_environment("InvertedPendulum-v5")
    yield environment
    environment.close()


ROWS = 1_000  # of every replay here, so that learning is compiled once for all tests


def leaves(tree: object) -> list[np.ndarray]:
    return [np.array(leaf) for leaf in jax.tree.leaves(tree)]


def test_spec_is_that_of_the_environment(pendulum: gymnasium.Env):
    assert spec_of(pendulum, "InvertedPendulum-v5") == Spec(4, (-3.0,), (3.0,))


def test_unbounded_actions_are_refused(pendulum: gymnasium.Env):
    pendulum.action_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,))
    with pytest.raises(TetherError, match="environment Free-v0 has unbounded actions, from \\[-inf\\] to \\[inf\\]"):
        spec_of(pendulum, "Free-v0")


def test_learning_reads_only_the_filled_part_of_the_replay(tiny_online: OnlineSettings, pendulum: gymnasium.Env):
    spec = spec_of(pendulum, "InvertedPendulum-v5")
    settings, replay = replace(tiny_online, warmup=0), Replay(ROWS, spec)
    replay._rows = jax.tree.map(lambda column: column.at[200:].set(np.nan), replay._rows)
    state, _ = run_block(settings, pendulum, initial_state(settings, spec), replay, lambda step: None)
    state, _ = run_block(settings, pendulum, state, replay, lambda step: None)
    assert all(np.isfinite(leaf).all() for leaf in leaves(state))
    replay.size = 300  # row 200 and those after were never filled
    with pytest.raises(TetherError, match=r"online training in InvertedPendulum-v5 diverged: .* is not finite at step 400"):
        run_block(settings, pendulum, state, replay, lambda step: None)


def replay_at(step: int, spec: Spec) -> Replay:
    """Of as many rows of nothing."""
    replay = Replay(ROWS, spec)
    replay.size = step
    return replay


def test_a_block_fills_the_replay_with_what_it_records(tiny_online: OnlineSettings, pendulum: gymnasium.Env):
    spec = spec_of(pendulum, "InvertedPendulum-v5")
    replay = replay_at(100, spec)
    _, recording = run_block(tiny_online, pendulum, initial_state(tiny_online, spec), replay, lambda step: None)
    assert replay.size == 200
    for column, recorded in zip(replay._rows, recording.transitions, strict=True):
        np.testing.assert_array_equal(column[100:200], recorded)
        assert not np.asarray(column[:100]).any()
        assert not np.asarray(column[200:]).any()
    assert recording.truncated[-1] or recording.transitions.terminated[-1]


def test_warmup_acts_uniformly_and_learns_nothing(tiny_online: OnlineSettings, pendulum: gymnasium.Env):
    spec = spec_of(pendulum, "InvertedPendulum-v5")
    shown: list[int] = []
    state, recording = run_block(tiny_online, pendulum, initial_state(tiny_online, spec), replay_at(0, spec), shown.append)
    for new, old in zip(leaves(state), leaves(initial_state(tiny_online, spec)), strict=True):
        np.testing.assert_array_equal(new, old)
    assert abs(np.mean(np.abs(recording.transitions.action)) - 1.5) < 0.3  # uniform in [-3, 3] has a mean size of 1.5
    assert shown == [50, 100]


def test_a_block_depends_only_on_what_it_starts_from(tiny_online: OnlineSettings, pendulum: gymnasium.Env):
    """As a training that goes on in a new process does: other environment, other generators, same block."""
    spec = spec_of(pendulum, "InvertedPendulum-v5")
    ends = []
    for _ in range(2):
        pendulum.reset(seed=len(ends))
        ends.append(run_block(tiny_online, pendulum, initial_state(tiny_online, spec), replay_at(100, spec), lambda step: None))
    for first, second in zip(leaves(ends[0]), leaves(ends[1]), strict=True):
        np.testing.assert_array_equal(first, second)


def test_seeds_differ_in_weights_and_actions(tiny_online: OnlineSettings, pendulum: gymnasium.Env):
    spec = spec_of(pendulum, "InvertedPendulum-v5")
    recordings, weights = [], []
    for seed in (0, 1):
        settings = replace(tiny_online, seed=seed)
        state, recording = run_block(settings, pendulum, initial_state(settings, spec), replay_at(0, spec), lambda step: None)
        weights.append(np.asarray(state.actor.network.weights[0]))
        recordings.append(recording.transitions.action)
    assert (weights[0] != weights[1]).all()
    assert (recordings[0] != recordings[1]).all()


def test_learning_compiles_once(tiny_online: OnlineSettings, pendulum: gymnasium.Env):
    spec = spec_of(pendulum, "InvertedPendulum-v5")
    settings = replace(tiny_online, warmup=0)
    replay = replay_at(0, spec)
    state, _ = run_block(settings, pendulum, initial_state(settings, spec), replay, lambda step: None)
    compiled = epoch._cache_size(), draw_rows._cache_size()
    assert min(compiled) > 0
    for _ in range(2):  # of a replay that has grown
        state, _ = run_block(settings, pendulum, state, replay, lambda step: None)
    assert (epoch._cache_size(), draw_rows._cache_size()) == compiled


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"evaluate_every": 120}, "--evaluate-every is 120; it must be a multiple of 50"),
        ({"evaluate_every": 0}, "--evaluate-every is 0; it must be a multiple of 50"),
        ({"episodes": 0}, "--episodes is 0; it must be at least 1"),
        ({"seed": -1}, "--seed is -1; it must not be negative"),
        ({"exploration_noise": float("nan")}, "--exploration-noise is nan; it must not be negative"),
        ({"agent": TD3(actor_period=3)}, "agent.actor_period is 3; it must divide 50"),
    ],
)
def test_settings_that_no_training_could_use(tiny_online: OnlineSettings, change: dict, message: str):
    with pytest.raises(TetherError, match=message):
        replace(tiny_online, **change)

"""Several seeds as one program: each learns what it would alone, and has a folder as if it were."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from pendulum import TIMINGS, interrupting, quietly, small_config, snapshot, state_of
from problems import as_dataset, bandit, constant_reward, small

from tether import TD3, storage
from tether.agents import AGENTS
from tether.errors import TetherError
from tether.runs import checkpoint
from tether.training import group
from tether.training.divergence import Diverged
from tether.training.group import Member, _take, run_together
from tether.training.lesson import Lesson
from tether.training.loop import Epoch
from tether.training.together import epoch_of, one_of


def far_apart(left: Any, right: Any) -> float:
    """The largest difference between two numbers of the same place."""
    differences = jax.tree.map(lambda one, other: float(np.max(np.abs(one - other), initial=0.0)), left, right)
    return max(jax.tree.leaves(differences))


def test_every_seed_of_a_program_is_as_alone_and_solves_what_has_a_known_answer():
    """Every step pays 1 for ever, and the discount is 0.8: Q = 1 / (1 - 0.8) = 5 everywhere."""
    agent, rows, seeds = small(TD3), constant_reward(), (3, 0)
    lesson = Lesson(agent, as_dataset(rows), None, seed=99, steps=2_000)
    epochs = lesson.epochs_together([lesson.fresh(seed) for seed in seeds], seeds, 0, 500)
    first = next(epochs)
    alone = Lesson(agent, as_dataset(rows), None, seed=3, steps=2_000)
    expected = next(alone.epochs(alone.fresh(), 0, 500))
    assert far_apart(one_of(first.state, 0), expected.state) < 1e-3  # of weights of about 1; rounding differs
    assert epoch_of(first, 0).metrics == pytest.approx(expected.metrics, rel=1e-3, abs=1e-4)
    assert far_apart(one_of(first.state, 1), expected.state) > 0.1
    *_, last = epochs
    for place in (0, 1):
        value = agent.value(one_of(last.state, place), rows.observation, rows.action)
        np.testing.assert_allclose(np.mean(value), 5.0, rtol=0.02)
    assert last.metrics["critic/q"][0] != last.metrics["critic/q"][1]


@pytest.mark.slow
def test_eight_seeds_of_a_program_come_out_as_eight_others_alone():
    """Two samples of one distribution: halfway to the known answer, where seeds still differ.

    Equal means differ by more than 3.5 standard errors once in 280 times (Student's t, 14 degrees of freedom), and equal spreads
    by more than a factor 4 once in 600 (F of 16, 7 and 7 degrees). Seeds that shared rows, noise or weights would be too alike.
    """
    agent, rows, seeds = small(TD3), constant_reward(), range(8)
    lesson = Lesson(agent, as_dataset(rows), None, seed=99, steps=200)
    *_, last = lesson.epochs_together([lesson.fresh(seed) for seed in seeds], tuple(seeds), 0, 200)
    together = [epoch_of(last, place).metrics for place in seeds]
    alone = []
    for seed in range(8, 16):
        lesson = Lesson(agent, as_dataset(rows), None, seed, steps=200)
        *_, last = lesson.epochs(lesson.fresh(), 0, 200)
        alone.append({name: float(value) for name, value in last.metrics.items()})
    for name in ("critic/q", "critic/loss", "actor/q"):
        one, other = (np.array([metrics[name] for metrics in sample]) for sample in (together, alone))
        error = np.sqrt((one.var(ddof=1) + other.var(ddof=1)) / 8)
        assert abs(one.mean() - other.mean()) < 3.5 * error, name
        assert 1 / 4 < one.std(ddof=1) / other.std(ddof=1) < 4, name


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, agent in AGENTS.items() if "continuous" in agent.traits.actions])
def test_a_seed_of_a_program_stays_with_its_run_alone(name: str):
    """Also of awr, which looks at all rows between two epochs."""
    agent = small(AGENTS[name])
    states = [(lesson := Lesson(agent, as_dataset(bandit()), None, seed, steps=500)).fresh() for seed in (0, 3)]
    *_, together = lesson.epochs_together(states, (0, 3), 0, 250)
    *_, alone = lesson.epochs(lesson.fresh(), 0, 250)
    assert far_apart(one_of(together.state, 1), alone.state) < 1e-2
    assert epoch_of(together, 1).metrics == pytest.approx(alone.metrics, rel=1e-2, abs=1e-3)


class Heard(dict[int, Exception | None]):
    """How each run ended."""

    def __call__(self, number: int, error: Exception | None) -> None:
        self[number] = error


def test_a_group_is_interrupted_a_run_of_it_diverges_and_the_others_are_what_they_would_be_alone(
    pendulum_file: Path, tmp_path: Path
):
    seeds, folders = (0, 3, 4), [tmp_path / f"s{seed}" for seed in (0, 3, 4)]
    changes = {"training__steps": 300, "training__evaluate_every": 300}
    configs = [small_config(pendulum_file, "bc", "none", seed, **changes) for seed in seeds]
    train = partial(run_together, configs, folders, show=False)
    say, said = interrupting("rewards ")
    with pytest.raises(KeyboardInterrupt):
        train(tell=(heard := Heard()), say=say)
    assert said[-1] == "interrupted at step 100; the same command goes on from there"
    assert heard == {}  # none has ended
    assert [checkpoint.step_in(folder) for folder in folders] == [100] * 3

    # The weights of one are spoilt, so it diverges in the next epoch. Its folder is free then, and the others go on.
    spoil(folders[2] / "checkpoint.safetensors")

    def tell(number: int, error: Exception | None) -> None:
        heard[number] = error
        if number == 2:
            assert not (folders[0] / "result.json").exists()
            with storage.exclusive(folders[2]):
                pass

    train(tell=tell, say=lambda text: None)
    assert list(heard) == [2, 0, 1]
    assert (heard[0], heard[1]) == (None, None)
    assert isinstance(heard[2], Diverged)
    assert "is nan at step 200 (run s4); last good checkpoint: step 100" in str(heard[2])
    assert not (folders[2] / "result.json").exists()

    # Each has what a run alone has, and a word about the others.
    alone = tmp_path / "alone"
    expected = quietly(configs[1], alone)
    result = json.loads((folders[1] / "result.json").read_text())
    assert result.pop("together") == [{"from_step": 0, "seeds": [0, 3, 4]}]
    assert result["resumed_from_step"] == 100
    assert set(result) == set(expected)
    assert {path.name for path in folders[1].iterdir()} == {path.name for path in alone.iterdir()}
    assert (folders[1] / "config.json").read_bytes() == (alone / "config.json").read_bytes()
    mine, theirs = (storage.read_jsonl(folder / "metrics.jsonl") for folder in (folders[1], alone))
    assert [set(line) for line in mine] == [set(line) for line in theirs]
    for line, other in zip(mine, theirs, strict=True):
        if "evaluation" not in line:
            assert line == pytest.approx(other, rel=1e-3, abs=1e-5)

    # Once more: the finished are left as they are, and the one that is left is a run like any other.
    before = snapshot(folders[0])
    train(tell=(heard := Heard()), say=lambda text: None)
    assert {number: type(error) for number, error in heard.items()} == {0: type(None), 1: type(None), 2: Diverged}
    assert snapshot(folders[0]) == before

    # A run that stands elsewhere is no part of the program.
    shutil.rmtree(folders[1])
    with pytest.raises(TetherError, match=r"must stand at one step; here s3 at step 0, s4 at step 100$"):
        train(tell=Heard(), say=lambda text: None)


def test_ctrl_c_in_the_middle_of_an_epochs_end_saves_all_at_one_step(
    pendulum_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    changes = {"training__steps": 300, "training__evaluate_every": 300, "training__checkpoint_every": 300}
    configs = [small_config(pendulum_file, "bc", "none", seed, **changes) for seed in (0, 3, 4)]
    folders = [tmp_path / f"s{seed}" for seed in (0, 3, 4)]
    taken: list[Path] = []

    def take(epoch: Epoch, members: Sequence[Member], member: Member) -> None:
        _take(epoch, members, member)
        taken.append(member.folder)
        if len(taken) == 1:  # the first has been told already that it need not be saved at step 100
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(group, "_take", take)
    with pytest.raises(KeyboardInterrupt):
        run_together(configs, folders, Heard(), show=False, say=lambda text: None)
    assert [checkpoint.step_in(folder) for folder in folders] == [200] * 3


def spoil(path: Path) -> None:
    tensors, metadata = storage.read_tensors(path)
    spoilt = {name: np.full_like(tensor, np.nan) for name, tensor in tensors.items() if name.startswith("agent/actor/")}
    assert spoilt
    storage.write_tensors(path, tensors | spoilt, metadata)


@pytest.mark.slow
def test_an_interrupted_group_ends_as_an_unbroken_one_bit_for_bit_and_near_a_run_alone(
    pendulum_file: Path, finished_run: Path, tmp_path: Path
):
    configs = [small_config(pendulum_file, seed=seed) for seed in (0, 3)]
    unbroken, broken = ([tmp_path / name / f"s{seed}" for seed in (0, 3)] for name in ("unbroken", "broken"))
    run_together(configs, unbroken, Heard(), show=False, say=lambda text: None)
    with pytest.raises(KeyboardInterrupt):
        run_together(configs, broken, Heard(), show=False, say=interrupting("bonus:")[0])
    run_together(configs, broken, Heard(), show=False, say=lambda text: None)
    for folder, other in zip(broken, unbroken, strict=True):
        assert state_of(folder) == state_of(other)
        result, expected = (json.loads((place / "result.json").read_text()) for place in (folder, other))
        assert result["resumed_from_step"] == 100
        assert {name: result[name] for name in set(result) - TIMINGS} == {
            name: expected[name] for name in set(expected) - TIMINGS
        }
    mine, theirs = (storage.read_jsonl(folder / "metrics.jsonl") for folder in (unbroken[0], finished_run))
    assert [(line.get("step"), set(line)) for line in mine] == [(line.get("step"), set(line)) for line in theirs]
    for line, other in zip(mine, theirs, strict=True):
        if "critic/q" in line and line["step"] <= 500:
            assert line == pytest.approx(other, rel=1e-3, abs=1e-4)


def test_runs_that_differ_in_more_than_the_seed_are_refused(tmp_path: Path):
    first, same_seed = small_config(Path("a.hdf5"), seed=0), small_config(Path("a.hdf5"), seed=0)
    other = small_config(Path("a.hdf5"), seed=1, bonus__seed=1)
    for configs, reason in (
        ((first, same_seed), "two of the runs have the same seed"),
        ((first, other), "the runs differ in more"),
    ):
        with pytest.raises(TetherError, match=reason):
            run_together(configs, [tmp_path / "a", tmp_path / "b"], Heard())

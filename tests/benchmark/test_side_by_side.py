"""Processes that measure at the same time, on cores of their own."""

from __future__ import annotations

import pytest

from tether.agents import AGENTS
from tether.benchmark.side_by_side import Seeds, Sharing, every_agent, measuring
from tether.cores import available_cores, thread_limits
from tether.errors import TetherError


def test_the_gain_is_the_median_of_the_rounds_ratios():
    # 120 / 100, 180 / 100 and 130 / 100: a round in which the machine was busy moves it little.
    assert Sharing("td3", "cvae", 2, [100.0, 100.0, 100.0], [120.0, 180.0, 130.0]).gain == pytest.approx(1.3)


def test_the_gain_of_seeds_is_of_all_of_them_over_one_run():
    assert Seeds("td3", "cvae", 4, [100.0, 50.0, 100.0], [150.0, 40.0, 110.0]).gain == pytest.approx(1.1)


@pytest.mark.slow
def test_a_process_measures_several_seeds_in_one_program():
    agent = {"name": "bc", "hidden_sizes": [8, 8], "batch_size": 8}
    job = {"agent": agent, "bonus": {"name": "none"}, "seconds": 0.05, "together": 3}
    with measuring(job, [available_cores()[:1]]) as measure:
        ((answer,),) = (measure(),)
    assert answer["steps_per_cpu_second"] > 10


@pytest.mark.parametrize(
    ("agent", "bonus"),
    [("tethered", {"name": "density", "lean_to_best": 6.0}), pytest.param("bc", {"name": "cvae"}, marks=pytest.mark.slow)],
)
def test_a_process_measures_an_agent_and_a_fit(agent, bonus):
    """The default agent in the default suite: `tether sweep PLAN --dry-run` begins with this, and its fit needs a column."""
    small = {"hidden_sizes": [16, 16], "batch_size": 32}
    job = {"agent": {"name": agent, **small}, "bonus": {**bonus, **small}, "seconds": 0.05, "fit": True}
    with measuring(job, [available_cores()[:1]]) as measure:
        for answers in (measure(), measure()):
            assert len(answers) == 1
            for answer in answers:
                names = {"steps_per_second", "steps_per_cpu_second", "fit_steps_per_second", "fit_steps_per_cpu_second"}
                assert set(answer) == names
                assert min(answer.values()) > 10


def test_a_process_that_cannot_measure_is_an_error(capfd: pytest.CaptureFixture[str]):
    job = {"agent": {"name": "bc"}, "bonus": {"name": "nothing"}, "seconds": 0.05}
    with (
        pytest.raises(TetherError, match=r"^a process that measures speed ended with code 1$"),
        measuring(job, [available_cores()[:1]]),
    ):
        pass
    assert "no bonus 'nothing'" in capfd.readouterr().err


def test_one_thread_takes_no_pool_and_keeps_the_flags_that_are_set(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XLA_FLAGS", "--mine=1")
    assert thread_limits(1)["XLA_FLAGS"] == "--mine=1 --xla_cpu_multi_thread_eigen=false"
    assert "XLA_FLAGS" not in thread_limits(2)
    assert thread_limits(2)["OMP_NUM_THREADS"] == "2"


def test_every_agent_is_measured_side_by_side_with_its_usual_bonus():
    methods = every_agent()
    assert {agent for agent, _ in methods} == AGENTS.keys()
    assert {("td3", "cvae"), ("td3", "none"), ("tethered", "density"), ("sac", "rnd-film"), ("bc", "none")} <= set(methods)

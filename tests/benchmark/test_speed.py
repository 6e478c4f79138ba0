"""The measurements measure what they say. No number here depends on how fast the machine is."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tether.agents import AGENTS
from tether.agents.dqn import DQN
from tether.agents.td3 import TD3
from tether.agents.tethered import Tethered
from tether.benchmark import speed
from tether.bonuses import BONUSES, NoBonus
from tether.bonuses.cvae import CVAE


@pytest.fixture(autouse=True)
def small_product(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(speed, "PRODUCT_SIZE", 64)


def test_a_measurement_is_consistent_in_itself():
    calls: list[float] = []
    measured = speed._measure("sums", lambda: calls.append(sum(range(10_000))), 4, 2e6, repetitions=3, rows=50)
    assert len(calls) == 4  # the first one would hold the compilation
    assert (measured.name, measured.rows, measured.gflop_per_step) == ("sums", 50, 0.002)
    assert len(measured.all_steps_per_second) == 3
    assert measured.steps_per_second == max(measured.all_steps_per_second) > 0
    assert measured.gflop_per_second == pytest.approx(0.002 * measured.steps_per_second)
    assert measured.share_of_limit == pytest.approx(measured.gflop_per_second / measured.limit_gflop_per_second)
    assert measured.compile_seconds >= 0
    assert measured.steps_per_busy_second == max(measured.all_steps_per_busy_second) > 0
    by_time = 0.002 * measured.steps_per_busy_second / measured.limit_gflop_per_busy_second
    assert measured.share_of_limit_busy == pytest.approx(by_time)


def test_processor_time_does_not_pass_while_a_process_waits():
    wall, busy = speed._timed(lambda: time.sleep(0.2))
    assert wall >= 0.2 > 4 * busy


def test_rows_are_those_of_the_paper_and_all_different():
    rows = speed.random_transitions(20)
    assert rows.observation.shape == rows.next_observation.shape == (20, 17)
    assert rows.action.shape == (20, 6)
    assert np.abs(rows.action).max() <= 1.0
    assert 0.0 <= rows.reward.min() < rows.reward.max() <= 1.0
    assert len(np.unique(np.asarray(rows.observation), axis=0)) == 20


def test_every_agent_is_measured_and_td3_as_the_default_preset_has_it():
    first, *others = speed.agents_to_measure()
    assert [label.split(",")[0] for label, _, _ in others] == list(AGENTS)
    label, agent, bonus = first
    assert (label, agent.normalise_q, bonus.components) == ("td3, density, preset tether", True, 5)
    assert ("td3, cvae", TD3(), CVAE()) in others


def test_speed_is_that_of_steps_in_which_the_actor_learns():
    assert speed.awake(Tethered()) == Tethered(warm_up_steps=0) != Tethered()
    assert speed.awake(TD3()) == TD3()


def test_every_bonus_is_measured_and_the_default_agents_as_that_has_it():
    (label, bonus), *others = reversed(speed.bonuses_to_measure().items())
    assert (label, bonus.components, bonus.lean_to_best, bonus.steps) == ("density of tethered", 1, 6.0, 60_000)
    assert {name for name, _ in others} == BONUSES.keys() - {"none"}
    assert dict(others)["density"].components == 1
    # Eight of the registry, of which the two that count have no fit, and the default agent's.
    assert speed.number_of_bonus_measurements() == 8 + 6 + 2


def test_who_chooses_is_measured_on_choices():
    rows = speed.random_transitions(50, speed.CHOICES)
    assert set(np.unique(rows.action)) == {0.0, 1.0}
    np.testing.assert_array_equal(rows.action.sum(axis=1), np.ones(50))
    assert np.all(rows.action.sum(axis=0) > 0)  # each of the six is chosen
    small = DQN(hidden_sizes=(8,), batch_size=4)
    measured = speed.measure_agent("dqn", small, NoBonus(), rows, steps=2, repetitions=1, spec=speed.CHOICES)
    # Four rows through 17 x 8 and 8 x 6: three times for targets (two networks) and the loss, then what its gradient takes:
    # both weights, and the way back through the second layer. Watching the greedy action takes the network once more, on 4 rows.
    forward, back = 2 * 4 * (17 * 8 + 8 * 6), 2 * 4 * (17 * 8 + 8 * 6 + 8 * 6)
    assert measured.gflop_per_step * 1e9 == pytest.approx(4 * forward + back)


def test_the_surroundings_are_named():
    assert {"device", "platform", "devices", "versions"} == speed.surroundings().keys()
    assert speed.peak_memory_bytes() > 2**20
    assert speed.product_limit(1) > 0

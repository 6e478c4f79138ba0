"""When a run stops by itself."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tether import BC, CQL, DQN, TD3, TD3BC, Tethered
from tether.training.divergence import Diverged, ImpossibleValues, all_finite, check_finite
from tether.training.loop import Epoch
from tether.types import Batch


def check(
    metrics: dict[str, Any],
    weights: Any = (),
    value_limit: float = 10.0,
    last_good: int | None = 400,
    agent: Any = TD3,
    has_bonus: bool = True,
) -> None:
    check_finite(Epoch(500, weights, metrics), agent(), value_limit, "hopper-s3", last_good, has_bonus)


def test_numbers_within_bounds_pass():
    check({"critic/loss": 1e30, "critic/q": 10.0, "actor/q": -10.0})
    check({"actor/loss": 1.0})  # an agent without a critic


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_metric_that_is_not_a_number_stops_the_run(value: float):
    with pytest.raises(Diverged) as raised:
        check({"critic/loss": value})
    assert str(raised.value) == f"critic/loss is {value} at step 500 (run hopper-s3); last good checkpoint: step 400"


@pytest.mark.parametrize("name", ["critic/q", "critic/target", "actor/q"])
@pytest.mark.parametrize("value", [1234.5, -1234.5])
def test_a_value_past_the_limit_stops_the_run(name: str, value: float):
    with pytest.raises(Diverged) as raised:
        check({name: value}, last_good=None)
    sign = "-" if value < 0 else ""
    assert str(raised.value) == (
        f"{name} is {sign}1.23e+03 at step 500 (run hopper-s3), past training.value_limit 10: the critic is exploding; "
        "there is no checkpoint yet. A larger agent.bonus_weight_critic holds it; training.value_limit=inf lets it run on"
    )


def test_no_limit_lets_any_number_pass_and_nothing_else():
    check({"critic/q": 1e38}, value_limit=math.inf)
    with pytest.raises(Diverged, match="critic/q is inf"):
        check({"critic/q": math.inf}, value_limit=math.inf)


def test_a_weight_that_is_not_a_number_stops_the_run_before_a_metric_shows_it():
    with pytest.raises(Diverged) as raised:
        check({"critic/loss": 1.0}, weights={"actor": np.array([1.0, np.inf])})
    assert str(raised.value) == (
        "a weight of the agent is NaN or infinite at step 500 (run hopper-s3); last good checkpoint: step 400"
    )


def test_finite_is_said_of_whole_trees():
    assert all_finite({"a": [np.zeros(2), 1.0], "count": np.array(3, np.int32), "none": None})
    assert not all_finite({"a": [np.zeros(2), np.array([0.0, np.nan])]})


@pytest.mark.parametrize(("agent", "advice"), [(DQN, " A larger agent.bonus_weight holds it;"), (BC, "")])
def test_advice_names_a_setting_that_the_agent_has(agent: type, advice: str):
    with pytest.raises(Diverged) as raised:
        check({"critic/q": 1e3}, agent=agent)
    assert str(raised.value).endswith(f"last good checkpoint: step 400.{advice} training.value_limit=inf lets it run on")


def test_no_larger_weight_of_a_bonus_is_advised_where_there_is_none():
    """A weight of zero scores holds nothing; those of other terms do, whatever the bonus is."""
    for agent, advice in ((TD3, ""), (DQN, ""), (CQL, " A larger agent.conservative_weight holds it;")):
        with pytest.raises(Diverged) as raised:
            check({"critic/q": 1e3}, agent=agent, has_bonus=False)
        assert str(raised.value).endswith(f"last good checkpoint: step 400.{advice} training.value_limit=inf lets it run on")


def test_of_several_seeds_those_that_diverged_are_named():
    with pytest.raises(Diverged, match=r"^critic/loss is nan at step 500 \(run hopper-s3, seed 1, 3 of 4\); last good"):
        check({"critic/loss": np.array([1.0, np.nan, 2.0, np.nan])})
    with pytest.raises(Diverged, match=r"^critic/q is -50 at step 500 \(run hopper-s3, seed 2 of 3\), past"):
        check({"critic/q": np.array([1.0, 2.0, -50.0])})
    with pytest.raises(Diverged, match=r"^a weight of the agent is NaN or infinite at step 500 \(run hopper-s3, seed 0 of 2\);"):
        check({"critic/loss": np.zeros(2)}, weights={"actor": np.array([[np.inf, 0.0], [0.0, 0.0]])})


def rows(*rewards: float) -> Batch:
    nothing = np.zeros((len(rewards), 1))
    return Batch(nothing, nothing, np.array(rewards), nothing, np.zeros(len(rewards)))


@pytest.mark.parametrize(
    ("recorded", "most", "limit"),
    [
        (rows(0.0, 1.0), 10.0, 10.21),  # 1 / (1 - 0.9), 2 % of that, and a thousandth of the 10 from 0 to there
        (rows(-2.0, 0.0), 0.0, 0.02),  # a thousandth of the 20 from -20 to 0
        (rows(-3.0, -1.0), 0.0, 0.03),  # -10 is the most, but values begin at 0
        (rows(-1.0, 1.0), 10.0, 10.22),
        (rows(1.0, 1.0), 10.0, 10.21),
    ],
)
def test_a_value_that_no_policy_can_earn_is_told_of_once(recorded: Batch, most: float, limit: float):
    said = ImpossibleValues(recorded, TD3(discount=0.9))
    for step, fine in ((500, limit + 9.0), (1_000, limit + 8.0), (1_500, limit - 0.02), (2_000, limit - 0.01)):
        assert said(Epoch(step, (), {"critic/q": fine})) is None  # begins high and falls; rises, and not as high
    told = said(Epoch(2_500, (), {"critic/q": limit + 0.01}))
    assert told is not None
    assert told.startswith(f"critic/q is {limit + 0.01:.3g} at step 2,500, but the rewards of the data")
    assert f"at most {most:.3g}:" in told
    assert said(Epoch(3_000, (), {"critic/q": 1e9})) is None


def test_one_of_several_seeds_is_enough():
    said = ImpossibleValues(rows(0.0, 1.0), DQN(discount=0.9))
    assert said(Epoch(500, (), {"critic/q": np.array([30.0, 2.0])})) is None
    told = said(Epoch(1_000, (), {"critic/q": np.array([29.0, 11.0])}))  # the first is beyond and falls
    assert told is not None
    assert told.startswith("critic/q is 11 at")


def test_who_has_no_values_is_told_nothing():
    assert ImpossibleValues(rows(0.0, 1.0), BC())(Epoch(500, (), {"actor/loss": 1e9})) is None


def test_who_raises_values_by_itself_is_told_nothing():
    said = ImpossibleValues(rows(0.0, 1.0), CQL(discount=0.9))
    assert [said(Epoch(step, (), {"critic/q": value})) for step, value in ((500, 1.0), (1_000, 99.0))] == [None, None]


@pytest.mark.parametrize(
    ("agent", "advised"), [(Tethered(), False), (Tethered(bound_values=False), True), (TD3(), False), (TD3BC(), True)]
)
def test_bounded_values_are_advised_where_they_are_to_be_had(agent: Any, advised: bool):
    said = ImpossibleValues(rows(0.0, 1.0), agent)
    said(Epoch(500, (), {"critic/q": 1.0}))
    told = said(Epoch(1_000, (), {"critic/q": 1e4}))
    assert told is not None
    assert ("What may help: agent.bound_values=true, a larger weight" in told) == advised


@pytest.mark.parametrize(
    ("recorded", "least", "limit"),
    [
        (rows(-1.0, 0.0), -10.0, -10.21),  # -1 / (1 - 0.9), 2 % of that, and a thousandth of the 10 from there to 0
        (rows(0.0, 2.0), 0.0, -0.02),  # a thousandth of the 20 from 0 to 20
        (rows(1.0, 3.0), 0.0, -0.03),  # 10 is the least, but values begin at 0
    ],
)
def test_a_value_lower_than_any_policy_earns_is_told_of_once(recorded: Batch, least: float, limit: float):
    said = ImpossibleValues(recorded, TD3BC(discount=0.9))
    for step, fine in ((500, limit - 9.0), (1_000, limit - 8.0), (1_500, limit + 0.02), (2_000, limit + 0.01)):
        assert said(Epoch(step, (), {"critic/q": fine})) is None  # begins low and rises; falls, and not as low
    told = said(Epoch(2_500, (), {"critic/q": limit - 0.01}))
    assert told is not None
    assert told.startswith(f"critic/q is {limit - 0.01:.3g} at step 2,500, but the rewards of the data")
    assert f"at least {least:.3g}:" in told
    assert said(Epoch(3_000, (), {"critic/q": -1e9})) is None


def test_rewards_that_bonuses_were_taken_off_have_no_least():
    said = ImpossibleValues(rows(0.0, 1.0), TD3BC(discount=0.9), reward_penalty=5.0)
    assert [said(Epoch(step, (), {"critic/q": -step})) for step in (1, 2, 3)] == [None] * 3
    assert said(Epoch(4, (), {"critic/q": 11.0})) is not None  # a penalty only lowers


@pytest.mark.parametrize(
    ("agent", "told"),
    [
        (TD3BC(), True),
        (TD3BC(bonus_weight_critic=1.0), False),  # a bonus is taken off
        (TD3(bonus_weight_critic=0.0), True),
        (TD3(), False),
        (CQL(), False),
        (DQN(), False),
    ],
)
def test_a_low_value_is_told_of_where_nothing_is_taken_off(agent: Any, told: bool):
    said = ImpossibleValues(rows(0.0, 1.0), agent)
    said(Epoch(500, (), {"critic/q": 1.0}))
    assert (said(Epoch(1_000, (), {"critic/q": -50.0})) is not None) == told


@pytest.mark.parametrize(
    ("agent", "advice"), [(TD3BC(), "=true, or"), (TD3(bonus_weight_critic=0.0), "=true with an agent that has it")]
)
def test_a_low_value_names_the_agents_that_can_bound_it(agent: Any, advice: str):
    said = ImpossibleValues(rows(0.0, 1.0), agent)
    said(Epoch(500, (), {"critic/q": 1.0}))
    told = said(Epoch(1_000, (), {"critic/q": -50.0}))
    assert told is not None
    assert f"What may help: agent.bound_values{advice}" in told

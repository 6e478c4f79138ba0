"""Tiny logs with known answers that every agent for continuous actions must solve, each by its own way of keeping to the data.

Not all of them stitch: see NOT_STITCHING. All logs have as many rows, and actions in [-1, 1], so that an agent is compiled once
for all of them. At the end are the same problems as choices, for the two agents that choose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache
from typing import Any

import numpy as np
import pytest

import tether
from tether.agents import AGENTS
from tether.bonuses import BONUSES
from tether.training import lesson, loop

ROWS = 510
TINY = {
    "batch_size": 64,
    "hidden_sizes": (32, 32),
    "learning_rate": 3e-3,
    "learning_rate_actor": 3e-3,
    "learning_rate_critic": 3e-3,
    "learning_rate_value": 3e-3,
    "discount": 0.8,
    "target_mix": 0.05,
    "warm_up_steps": 250,
    "refresh_every": 500,
    "acting_samples": 20,
    "sampled_actions": 2,
    "actor_period": 1,
    "conservative_weight": 1.0,  # the authors' is for rewards of about 1 a step over 1,000 steps
    "temperature": 0.01,  # at the start; it tunes itself
}
FIT = {"batch_size": 64, "hidden_sizes": (32, 32), "learning_rate": 3e-3, "steps": 1_000, "latent_size": 2, "held_out_share": 0.0}
# How strongly to hold on is the user's to choose; these are for rewards of the size they have here.
HOLDING = {
    "td3-bc": {"alpha": 1.0},
    "rebrac": {"cloning_weight_actor": 0.5, "cloning_weight_critic": 0.5},
    "spot": {"bonus_weight_actor": 3.0},
    "sac": {"bonus_weight_actor": 5.0},
    "dqn": {"bonus_weight": 0.3},
}
# SAC's usual bonus is a random network's, whose errors at four places are chance: here they would decide which way to go.
BONUS = {name: agent.traits.usual_bonus for name, agent in AGENTS.items()} | {"sac": "cvae"}
LONGER = {"bear": 2_000, "iql": 2_000}  # steps; the others need 1,000
# Who cannot stitch: of the first two, what they clone is what was recorded, however it is weighed; the last starts as the best
# episodes went, and its reach does not lead from there to another way.
NOT_STITCHING = ("bc", "awr", "tethered")
ANCHOR = {"lean_to_best": 6.0, "least_std": 0.1}  # as its preset has it
CONTINUOUS = [name for name, agent in AGENTS.items() if "continuous" in agent.traits.actions]


def some(kind: type, settings: dict[str, Any]) -> Any:
    return kind(**{field.name: settings[field.name] for field in fields(kind) if field.name in settings})


def tempting() -> tether.Dataset:
    """One step. Only actions near 0 were tried, and the more the better: a critic extrapolates to 1, which nobody has seen."""
    random = np.random.default_rng(0)
    action = 0.1 * random.normal(size=(ROWS, 1))
    return one_step("tempting", random.normal(size=(ROWS, 1)), action, 1.0 + action[:, 0])


def indifferent() -> tether.Dataset:
    """The same with a reward that says nothing, for ever: whatever a critic sees in unseen actions is noise."""
    random = np.random.default_rng(1)
    columns = {"observations": random.normal(size=(ROWS, 1)), "next_observations": random.normal(size=(ROWS, 1))}
    action = 0.1 * random.normal(size=(ROWS, 1))
    return tether.dataset(
        **columns, actions=action, rewards=np.ones(ROWS), terminated=np.zeros(ROWS), episode_ends=[ROWS], name="indifferent"
    )


def narrow_expert() -> tether.Dataset:
    """One step. A tenth is by an expert, who does 0.6 and gets 10; others do anything, and get the less the farther they are."""
    random = np.random.default_rng(2)
    expert = np.arange(ROWS) % 10 == 0
    action = np.where(expert, 0.6 + 0.02 * random.normal(size=ROWS), random.uniform(-1.0, 1.0, ROWS))[:, None]
    return one_step("narrow-expert", random.normal(size=(ROWS, 1)), action, 10.0 * np.exp(-np.square((action[:, 0] - 0.6) / 0.3)))


def stitching() -> tether.Dataset:
    """A junction at 0 with a way to 2, from where one goes down to nothing or up to 10. Nobody has gone from 0 to the 10.

    walk     0 -right-> 1 -right-> 2 -down-> ends, 0 in all
    give up  0 -left-> ends, 2
    detour   3 -left-> 2 (costs 10) -up-> ends, 10: 0 in all

    Returns as recorded say: left at 0. The best is right: 0.8^2 * 10 = 6.4, by the first half of one and the second of another.
    """
    walk = [(0, 0.5, 0.0, 1), (1, 0.5, 0.0, 2), (2, -0.5, 0.0, None)]
    give_up, detour = [(0, -0.5, 2.0, None)], [(3, -0.5, -10.0, 2), (2, 0.5, 10.0, None)]
    steps = (walk + give_up + detour) * (ROWS // 6)
    place, action, reward, following = (np.array(column, float) for column in zip(*steps, strict=True))
    noise = 0.05 * np.random.default_rng(3).normal(size=ROWS)
    return tether.dataset(
        observations=place[:, None],
        next_observations=np.nan_to_num(following, nan=9.0)[:, None],
        actions=(action + noise)[:, None],
        rewards=reward,
        terminated=np.isnan(following),
        name="stitching",
    )


def one_step(name: str, observation: np.ndarray, action: np.ndarray, reward: np.ndarray) -> tether.Dataset:
    return tether.dataset(observations=observation, actions=action, rewards=reward, terminated=np.ones(ROWS), name=name)


@cache
def fitted(problem: Callable[[], tether.Dataset], bonus: str, anchors: bool) -> Any:
    settings = FIT | ANCHOR if anchors else FIT
    return None if bonus == "none" else tether.fit(some(BONUSES[bonus], settings), problem(), cache=False)


def learned(name: str, problem: Callable[[], tether.Dataset], place: float = 0.0, **settings: float) -> float:
    """What the agent does at that place."""
    agent = some(AGENTS[name], TINY | HOLDING.get(name, {}) | settings)
    steps = LONGER.get(name, 1_000)
    policy = tether.train(agent, problem(), fitted(problem, BONUS[name], name == "tethered"), steps=steps, epoch_steps=500)
    return float(policy(np.array([[place]], np.float32))[0, 0])


@pytest.fixture(autouse=True, scope="module")
def optimised() -> Iterator[None]:
    """Of all tests these train the longest: with code better than conftest.py asks for, BEAR and BCQ take half the time."""
    options = {**(loop.AGENT_LOOP or {}), "xla_backend_optimization_level": 1}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lesson, "agent_epoch", loop._jit(loop._epoch, compiler_options=options))
        yield


@pytest.mark.filterwarnings("ignore:every reward of indifferent is 1")
@pytest.mark.parametrize("name", CONTINUOUS)
def test_every_agent_solves_them(name: str) -> None:
    """One test for all four: an agent is compiled once, and in one process."""
    # An unseen action does not tempt: recorded ones are within 0.3.
    assert abs(learned(name, tempting)) < 0.5
    # Where all pay the same it stays with what it has seen.
    assert abs(learned(name, indifferent)) < 0.2
    # A narrow expert is found among noise; cloning all would be the mean, 0.06.
    settings = {"best_share": 0.1} if name == "bc" else {}
    assert learned(name, narrow_expert, **settings) == pytest.approx(0.6, abs=0.25)
    # Two poor episodes are stitched into the best one, by all that can.
    action = learned(name, stitching)
    assert action < 0.1 if name in NOT_STITCHING else 0.2 < action < 0.7


def test_an_unseen_action_does_tempt_where_nothing_holds():
    free = tether.train(some(tether.TD3, TINY), tempting(), steps=1_000, epoch_steps=500)
    assert free(np.zeros((1, 1), np.float32))[0, 0] > 0.9


# The same as choices of three.


def chosen(name: str, place: np.ndarray, choice: np.ndarray, reward: np.ndarray, **columns: Any) -> tether.Dataset:
    """One step, unless the columns say otherwise."""
    observation = np.asarray(place, float).reshape(ROWS, 1)
    columns = {"terminated": np.ones(ROWS)} | columns
    return tether.dataset(observations=observation, actions=choice, rewards=reward, choices=3, name=name, **columns)


def tempting_choice() -> tether.Dataset:
    """One step. 0 costs 7 and 1 costs 10. Nobody has tried 2: a Q that learns of the others alone leaves it near 0."""
    random = np.random.default_rng(4)
    choice = random.integers(2, size=ROWS)
    return chosen("tempting-choice", random.normal(size=ROWS), choice, -7.0 - 3.0 * choice)


def indifferent_choice() -> tether.Dataset:
    """0 and 1 pay the same, for ever. Nobody has tried 2."""
    random = np.random.default_rng(5)
    following = {"next_observations": random.normal(size=(ROWS, 1)), "terminated": np.zeros(ROWS), "episode_ends": [ROWS]}
    return chosen("indifferent-choice", random.normal(size=ROWS), random.integers(2, size=ROWS), np.ones(ROWS), **following)


def rare_expert() -> tether.Dataset:
    """One step. A tenth is by an expert, who takes 2 and gets 10; the others take 0, or seldom 1, and get nothing."""
    random = np.random.default_rng(6)
    expert = np.arange(ROWS) % 10 == 0
    choice = np.where(expert, 2, (random.uniform(size=ROWS) < 0.3).astype(int))
    return chosen("rare-expert", random.normal(size=ROWS), choice, 10.0 * expert)


def stitching_choice() -> tether.Dataset:
    """That of `stitching`: 0 is left or down, 1 is right or up. Nobody has tried 2."""
    log = stitching().transitions
    following = {"next_observations": log.next_observation, "terminated": log.terminated}
    return chosen("stitching-choice", log.observation, (log.action[:, 0] > 0).astype(int), log.reward, **following)


def choice_of(name: str, log: tether.Dataset, bonus: Any = None, **settings: float) -> int:
    """What the agent chooses at 0."""
    agent = some(AGENTS[name], TINY | HOLDING.get(name, {}) | settings)
    return int(tether.train(agent, log, bonus, steps=1_000, epoch_steps=500)(np.zeros((1, 1), np.float32))[0])


@pytest.mark.filterwarnings("ignore:every reward of indifferent")
def test_dqn_solves_them_as_choices_where_a_bonus_holds_it():
    """Its density: 0.3 for each nat, and rewards are of size 1."""
    logs = [tempting_choice(), indifferent_choice(), rare_expert(), stitching_choice()]
    tempted, indifferent, expert, stitched = (
        choice_of("dqn", log, tether.fit(some(BONUSES["density"], FIT), log, cache=False)) for log in logs
    )
    assert (tempted, expert, stitched) == (0, 2, 1)
    assert indifferent in (0, 1)
    assert choice_of("dqn", logs[0]) == 2  # without a bonus: what nobody has tried


@pytest.mark.filterwarnings("ignore:every reward of indifferent")
def test_bc_clones_choices():
    assert {choice_of("bc", log) for log in (tempting_choice(), indifferent_choice())} <= {0, 1}
    # The best tenth is the expert's. The best three tenths give up at 0: it cannot stitch.
    assert choice_of("bc", rare_expert(), best_share=0.1) == 2
    assert choice_of("bc", stitching_choice(), best_share=0.3) == 0

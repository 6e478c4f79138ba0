"""What every bonus and every agent of choices must do together: tell choices apart, look at images, and travel in one file."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import CHOICES, ROWS, UPDATES, as_dataset, initial_state, small, transitions

from tether import BC, DQN, TD3
from tether.agents import AGENTS, check_actions
from tether.bonuses import BONUSES, FrozenBonus, frozen_template
from tether.data.dataset import Dataset
from tether.errors import TetherError
from tether.policies import Policy, load_policy
from tether.training.fit import FittedBonus, fit_bonus
from tether.training.lesson import Lesson
from tether.types import Batch, Problem, Spec, discrete_spec, row_shapes

SLOW = {"cvae", "rnd-film", "forward"}  # to compile; all that they share with the others is tested by those


def each(names: Iterable[str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in names])


every_bonus, every_scoring_bonus = each(BONUSES), each([name for name in BONUSES if name != "none"])
IMAGES = discrete_spec(4 * 5 * 2, actions=3, observation_shape=(4, 5, 2))


def two_corners() -> Dataset:
    """Two states that repeat, (-1, 0) and (1, 0), and in each always one choice: 0 on the left, 1 on the right."""
    side = np.where(np.arange(ROWS) % 4 == 0, -1.0, 1.0)
    action = np.eye(2)[(side > 0).astype(int)]
    rows = transitions(action, 0.0, terminated=0.0, observation=np.stack([side, np.zeros(ROWS)], axis=1))
    return as_dataset(rows, spec=CHOICES)


CORNERS = np.array([[-1.0, 0.0], [1.0, 0.0]], np.float32)


def bonus_of(name: str) -> Any:
    return small(BONUSES[name], **({"steps": 300} if BONUSES[name]().steps else {}))


@cache
def fitted(name: str) -> FittedBonus:
    return fit_bonus(bonus_of(name), two_corners())


@cache
def unfitted(name: str) -> FrozenBonus:
    bonus = bonus_of(name)
    rows = Batch(*map(jnp.asarray, two_corners().transitions))
    make = jax.jit(
        lambda key, rows: bonus.frozen(bonus.init(key, Problem(CHOICES, rows)))
    )  # one program instead of one for each operation
    return FrozenBonus(bonus, make(jax.random.key(0), rows), CHOICES)


@every_scoring_bonus
def test_the_choice_that_was_never_made_scores_higher(name):
    made, other = (fitted(name).novelty(CORNERS, np.eye(2)[choices]) for choices in ([0, 1], [1, 0]))
    assert (other > 3 * made).all(), (made, other)


@every_scoring_bonus
def test_a_fit_is_judged_against_choices(name):
    auroc = fitted(name).report.auroc
    assert set(auroc) == {"shuffled", "uniform", "other"}
    assert auroc["other"] == 1.0
    # Half of all uniform choices are the recorded one, which ties with it: 0.5 * 1 + 0.5 * 0.5.
    assert auroc["uniform"] == pytest.approx(0.75, abs=0.1)


@pytest.mark.parametrize("name", BONUSES)
def test_every_bonus_takes_images(name):
    bonus = small(BONUSES[name])
    rows = Batch(*(jax.ShapeDtypeStruct((8, *shape), jnp.float32) for shape in row_shapes(IMAGES)))

    def fit_and_score(key, rows):
        key_init, key_step, key_score = jax.random.split(key, 3)
        fitting, _ = bonus.update(bonus.init(key_init, Problem(IMAGES, rows)), rows, key_step)
        return bonus.novelty(bonus.frozen(fitting), rows.observation, rows.action, key_score)

    assert jax.eval_shape(fit_and_score, jax.random.key(0), rows).shape == (8,)


@every_bonus
def test_a_policy_carries_its_bonus(name, tmp_path):
    """Any bonus, saved and loaded: the same choices, and the same bytes when saved once more."""
    agent = small(DQN)
    state = initial_state(agent, CHOICES)
    made = Policy(agent.policies(state, unfitted(name))["online"], CHOICES, {"step": 1})
    made.save(tmp_path / "one.safetensors")
    loaded = load_policy(tmp_path / "one.safetensors")
    np.testing.assert_array_equal(loaded(CORNERS), made(CORNERS))
    assert loaded.actor.penalty.bonus == bonus_of(name)
    loaded.save(tmp_path / "two.safetensors")
    assert (tmp_path / "one.safetensors").read_bytes() == (tmp_path / "two.safetensors").read_bytes()


@every_scoring_bonus
def test_a_heavy_bonus_holds_the_policy_to_the_choices_of_the_data(name):
    agent = small(DQN, bonus_weight=1e4)
    state = initial_state(agent, CHOICES)
    policy = Policy(agent.policies(state, fitted(name).penalty)["online"], CHOICES)
    np.testing.assert_array_equal(policy(CORNERS), [0, 1])


def test_templates_differ_from_fits_in_the_length_of_tables_alone():
    rows = Batch(*map(jnp.asarray, two_corners().transitions))
    for name in BONUSES:
        bonus = bonus_of(name)
        fresh = jax.eval_shape(lambda key, bonus=bonus: bonus.frozen(bonus.init(key, Problem(CHOICES, rows))), jax.random.key(0))
        for expected, leaf in zip(*map(jax.tree.leaves, (frozen_template(bonus, CHOICES).state, fresh)), strict=True):
            assert expected.dtype == leaf.dtype
            assert expected.shape == leaf.shape or name == "count-exact"


@pytest.mark.parametrize("agent", [DQN, pytest.param(BC, marks=pytest.mark.slow)])
def test_an_agent_learns_from_images_and_its_policy_takes_them_in_their_shape(agent, tmp_path):
    """Choice k is right where channel 0 is lit in column k of the first row; nothing else in the image tells."""
    random = np.random.default_rng(0)
    right = random.integers(3, size=ROWS)
    images = np.zeros((ROWS, 4, 5, 2), np.float32)
    images[..., 1] = random.integers(2, size=(ROWS, 4, 5))
    images[np.arange(ROWS), 0, right, 0] = 1.0
    chosen = right if agent is BC else random.integers(3, size=ROWS)
    flat = images.reshape(ROWS, -1)
    rows = Batch(flat, np.eye(3)[chosen], (chosen == right) * 1.0, flat, np.ones(ROWS))
    rows = Batch(*(np.asarray(column, np.float32) for column in rows))
    lesson = Lesson(small(agent), as_dataset(rows, spec=IMAGES), None, seed=0, steps=2 * UPDATES)
    *_, last = lesson.epochs(lesson.fresh(), 0, UPDATES)
    policy = lesson.policy(last.state, "online", last.step, None)
    assert np.mean(policy(images) == right) > 0.97
    assert policy(images[0]) == policy(flat[0])
    policy.save(tmp_path / "policy.safetensors")
    np.testing.assert_array_equal(load_policy(tmp_path / "policy.safetensors")(flat), policy(flat))
    with pytest.raises(TetherError, match=r"observations of shape \(40,\) or \(B, 40\); got \(4, 5\)"):
        policy(np.zeros((4, 5)))


def test_an_agent_for_other_actions_is_refused():
    with pytest.raises(TetherError, match=r"^the dataset has discrete actions, which TD3 cannot learn; choose agent dqn or bc$"):
        check_actions(TD3(), CHOICES)
    continuous = " or ".join(name for name in AGENTS if name != "dqn")
    with pytest.raises(
        TetherError, match=f"^the dataset has continuous actions, which DQN cannot learn; choose agent {continuous}$"
    ):
        check_actions(DQN(), Spec(2, (-1.0,), (1.0,)))
    for name in ("dqn", "bc"):
        check_actions(AGENTS[name](), CHOICES)


def test_one_observation_gives_one_whole_number():
    agent = small(DQN, bonus_weight=1e4)
    policy = Policy(agent.policies(initial_state(agent, CHOICES), fitted("count-exact").penalty)["online"], CHOICES)
    assert [policy(CORNERS[0]), policy(CORNERS[1])] == [0, 1]
    assert isinstance(policy(CORNERS[0]), int)


@pytest.mark.slow
def test_acting_is_the_same_at_every_call_with_a_bonus_that_samples():
    agent, observation = small(DQN, bonus_weight=50.0), np.random.default_rng(1).normal(size=(256, 2)).astype(np.float32)
    policy = Policy(agent.policies(initial_state(agent, CHOICES), fitted("cvae").penalty)["online"], CHOICES)
    np.testing.assert_array_equal(policy(observation), policy(observation))

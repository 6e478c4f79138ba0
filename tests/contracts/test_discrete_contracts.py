"""What every bonus and every agent of choices must do together: tell choices apart, look at images, and travel in one file."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import CHOICES, ROWS, UPDATES, as_dataset, small, transitions

from tether.agents import AGENTS, BC, DQN, TD3, check_actions
from tether.bonuses import BONUSES, FrozenBonus, frozen_template
from tether.data.dataset import Dataset
from tether.errors import TetherError
from tether.policy import Policy, load_policy
from tether.training.epoch import initial_state, run_keys, train_epoch
from tether.training.fit import FittedBonus, fit_bonus
from tether.types import Batch, Spec, discrete_spec

SLOW = {"rnd-film", "forward"}  # to fit; they join observation and action by the same parts as others
SCORING = [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in BONUSES if name != "none"]
IMAGES = discrete_spec(4 * 5 * 2, actions=3, observation_shape=(4, 5, 2))


def two_corners() -> Dataset:
    """Two states that repeat, (-1, 0) and (1, 0), and in each always one choice: 0 on the left, 1 on the right."""
    side = np.where(np.arange(ROWS) % 4 == 0, -1.0, 1.0)
    action = np.eye(2)[(side > 0).astype(int)]
    rows = transitions(action, 0.0, terminated=0.0, observation=np.stack([side, np.zeros(ROWS)], axis=1))
    return as_dataset(rows, spec=CHOICES)


@cache
def fitted(name: str) -> FittedBonus:
    short = {"steps": 300} if BONUSES[name]().steps else {}
    return fit_bonus(small(BONUSES[name], **short), two_corners())


@cache
def unfitted(name: str) -> FrozenBonus:
    bonus = small(BONUSES[name])
    rows = Batch(*map(jnp.asarray, two_corners().transitions))
    make = jax.jit(
        lambda key, rows: bonus.frozen(bonus.init(key, CHOICES, rows))
    )  # one program instead of one for each operation
    return FrozenBonus(make(jax.random.key(0), rows), bonus)


@pytest.mark.parametrize("name", SCORING)
def test_the_choice_that_was_never_made_scores_higher(name):
    corners = np.array([[-1.0, 0.0], [1.0, 0.0]])
    made, other = (fitted(name).score(corners, np.eye(2)[choices]) for choices in ([0, 1], [1, 0]))
    assert (other > 3 * made).all(), (made, other)


@pytest.mark.parametrize("name", SCORING)
def test_a_fit_is_judged_against_choices(name):
    auroc = fitted(name).report.auroc
    assert set(auroc) == {"shuffled", "uniform", "other"}
    assert auroc["other"] == 1.0
    # Half of all uniform choices are the recorded one, which ties with it: 0.5 * 1 + 0.5 * 0.5.
    assert auroc["uniform"] == pytest.approx(0.75, abs=0.1)


@pytest.mark.parametrize("name", BONUSES)
def test_every_bonus_takes_images(name):
    bonus = small(BONUSES[name])
    sizes = ((40,), (3,), (), (40,), ())
    rows = Batch(*(jax.ShapeDtypeStruct((8, *size), jnp.float32) for size in sizes))

    def fit_and_score(key, rows):
        key_init, key_step, key_score = jax.random.split(key, 3)
        fitting, _ = bonus.update(bonus.init(key_init, IMAGES, rows), rows, key_step)
        return bonus.score(bonus.frozen(fitting), rows.observation, rows.action, key_score)

    assert jax.eval_shape(fit_and_score, jax.random.key(0), rows).shape == (8,)


@pytest.mark.parametrize("name", BONUSES)
def test_a_policy_carries_its_bonus(name, tmp_path):
    """Any bonus, saved and loaded: the same choices, and the same bytes when saved once more."""
    agent, observation = small(DQN), np.random.default_rng(0).normal(size=(64, 2)).astype(np.float32)
    state = initial_state(agent, (), CHOICES, 0).agent
    made = Policy(agent.policies(state, unfitted(name))["online"], CHOICES, {"step": 1})
    made.save(tmp_path / "one.safetensors")
    loaded = load_policy(tmp_path / "one.safetensors")
    np.testing.assert_array_equal(loaded(observation), made(observation))
    assert loaded.actor.penalty.bonus == small(BONUSES[name])
    loaded.save(tmp_path / "two.safetensors")
    assert (tmp_path / "one.safetensors").read_bytes() == (tmp_path / "two.safetensors").read_bytes()


@pytest.mark.parametrize("name", SCORING)
def test_a_heavy_bonus_holds_the_policy_to_the_choices_of_the_data(name):
    corners = np.array([[-1.0, 0.0], [1.0, 0.0]], np.float32)
    agent = small(DQN, bonus_weight=1e4)
    state = initial_state(agent, (), CHOICES, 0).agent
    policy = Policy(agent.policies(state, fitted(name).penalty)["online"], CHOICES)
    np.testing.assert_array_equal(policy(corners), [0, 1])
    assert policy(corners[0]) == 0
    assert isinstance(policy(corners[0]), int)


def test_templates_differ_from_fits_in_the_length_of_tables_alone():
    for name in BONUSES:
        template = jax.tree.leaves(frozen_template(small(BONUSES[name]), CHOICES))
        for expected, leaf in zip(template, jax.tree.leaves(unfitted(name).state), strict=True):
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
    rows = Batch(*(jnp.asarray(column, jnp.float32) for column in rows))
    learner = small(agent)
    state = initial_state(learner, (), IMAGES, 0)
    for _ in range(2):
        state, _ = train_epoch(learner, BONUSES["none"](), state, rows, run_keys(0)[1], UPDATES)
    policy = Policy(learner.policies(state.agent, FrozenBonus((), BONUSES["none"]()))["online"], IMAGES)
    assert np.mean(policy(images) == right) > 0.97
    assert policy(images[0]) == policy(flat[0])
    policy.save(tmp_path / "policy.safetensors")
    np.testing.assert_array_equal(load_policy(tmp_path / "policy.safetensors")(flat), policy(flat))
    with pytest.raises(TetherError, match=r"observations of shape \(40,\) or \(B, 40\); got \(4, 5\)"):
        policy(np.zeros((4, 5)))


def test_an_agent_for_other_actions_is_refused():
    with pytest.raises(TetherError, match=r"^the dataset has discrete actions, which TD3 cannot learn; choose agent dqn or bc$"):
        check_actions(TD3(), CHOICES)
    with pytest.raises(
        TetherError, match=r"^the dataset has continuous actions, which DQN cannot learn; choose agent td3 or bc$"
    ):
        check_actions(DQN(), Spec(2, (-1.0,), (1.0,)))
    for name in ("dqn", "bc"):
        check_actions(AGENTS[name](), CHOICES)


def test_acting_is_the_same_at_every_call_with_a_bonus_that_samples():
    agent, observation = small(DQN, bonus_weight=50.0), np.random.default_rng(1).normal(size=(256, 2)).astype(np.float32)
    policy = Policy(agent.policies(initial_state(agent, (), CHOICES, 0).agent, fitted("cvae").penalty)["online"], CHOICES)
    np.testing.assert_array_equal(policy(observation), policy(observation))

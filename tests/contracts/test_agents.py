"""What every agent of the registry must do. A new agent is held to this by being in `AGENTS`."""

from __future__ import annotations

import itertools
import json
from dataclasses import fields, make_dataclass, replace
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import (
    BEST,
    ROWS,
    SPEC,
    SPECS,
    UPDATES,
    bandit,
    bowl_state,
    constant_reward,
    go_on,
    initial_state,
    penalty,
    rows_for,
    small,
    suited,
    train,
    with_one_setting_changed,
)

from tether.agents import AGENTS, critic_steps, refresh_period
from tether.data.columns import COLUMNS
from tether.policies import PARTS, act, describe, rebuilt
from tether.settings import from_named, to_named
from tether.storage import flatten_tree, unflatten_tree
from tether.training.loop import epoch
from tether.training.together import Together, joined, one_of
from tether.types import Batch, Key, Problem


def agents_with(setting: str) -> list[str]:
    return [name for name, agent in AGENTS.items() if setting in {field.name for field in fields(agent)}]


CASES = [(name, kind) for name, agent in AGENTS.items() for kind in agent.traits.actions]
every_agent = pytest.mark.parametrize(("name", "kind"), CASES)
every_agent_with_values = pytest.mark.parametrize(
    ("name", "kind"), [case for case in CASES if case[0] in agents_with("discount")]
)
every_agent_with_a_bonus_in_units_of_q = pytest.mark.parametrize("name", agents_with("normalise_q"))
every_agent_with_noise = pytest.mark.parametrize("name", sorted({*agents_with("target_noise")} & {*agents_with("clean_bonus")}))


def assert_same(left: Any, right: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, left, right)


def differ(left: Any, right: Any) -> bool:
    pairs = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    return not all(np.array_equal(one, other) for one, other in pairs)


def three_updates(agent: Any) -> jax.Array:
    """Numbers of the rows that they work on."""
    return jnp.zeros((3, *agent.batch_shape), jnp.int32)


@cache
def program(agent: Any, kind: str) -> str:
    """The text of all that the agent computes: its first state, an epoch from there, and what its policy does."""

    def whole(key: Key, rows: Batch) -> Any:
        key_init, key_updates = jax.random.split(key)
        state, step = agent.init(key_init, Problem(SPECS[kind], rows, steps=1_000)), jnp.zeros((), jnp.int32)
        given = penalty(kind=kind)
        if getattr(agent, "refresh_every", 0):  # how often is the loop's to know
            state = agent.refresh(state, jax.tree.map(lambda column: column * agent.refresh_every, rows))
        state, metrics = epoch.__wrapped__(agent, state, rows, three_updates(agent), key_updates, step, 1, (given,))
        return state, metrics, agent.policies(state, given)[agent.traits.main_policy](rows.observation)

    with jax.debug_key_reuse(False):  # which is looked for when agents train, and takes its time here
        traced = jax.make_jaxpr(whole)(jax.random.key(0), rows_for(agent, suited(constant_reward(), kind)))
    return f"{traced.jaxpr} {traced.consts}"


ONE_LAYER = {"hidden_sizes": (16,)}  # of each network: as much shows in its program, and half as many operations are traced


@pytest.mark.parametrize(
    ("name", "kind", "setting"), [(name, kind, field.name) for name, kind in CASES for field in fields(AGENTS[name])]
)
def test_every_setting_changes_the_program(name, kind, setting):
    agent = small(AGENTS[name], **ONE_LAYER)
    assert program(agent, kind) != program(with_one_setting_changed(agent)[setting], kind)


@every_agent
def test_a_forgotten_setting_would_be_seen(name, kind):
    kind_of = make_dataclass("Forgetful", [("forgotten", float, 1.0)], bases=(AGENTS[name],), frozen=True)
    forgetful = small(kind_of, **ONE_LAYER)
    assert program(forgetful, kind) == program(with_one_setting_changed(forgetful)["forgotten"], kind)


@every_agent
def test_the_seed_decides_the_first_state(name, kind):
    first, same, other = (initial_state(small(AGENTS[name]), SPECS[kind], seed) for seed in (0, 0, 1))
    assert_same(first, same)
    assert differ(first, other)


@every_agent
def test_no_buffer_appears_twice_in_the_first_state(name, kind):
    agent = small(AGENTS[name], normalise_observations=True)
    problem = Problem(SPECS[kind], suited(constant_reward(), kind))
    made = jax.make_jaxpr(lambda key: agent.init(key, problem))(jax.random.key(0)).jaxpr.outvars
    assert len({id(variable) for variable in made}) == len(made)


@every_agent
def test_many_epochs_are_traced_once(name, kind, monkeypatch):
    agent, traces = small(AGENTS[name]), []
    update = type(agent).update

    def counted(self: Any, *given: Any) -> Any:
        traces.append(name)
        return update(self, *given)

    monkeypatch.setattr(type(agent), "update", counted)
    state = jax.eval_shape(lambda: initial_state(agent, SPECS[kind]))
    numbers, rows = three_updates(agent)[:2], rows_for(agent, suited(constant_reward(), kind))
    counts = []
    for step in range(3):
        number = jnp.asarray(step, jnp.int32)
        state, _ = epoch.eval_shape(agent, state, rows, numbers, jax.random.key(0), number, 1, (penalty(kind=kind),))
        counts.append(len(traces))
    assert counts[0] > 0
    assert counts == [counts[0]] * 3


@every_agent
def test_a_run_resumed_at_an_epoch_equals_an_unbroken_one(name, kind):
    agent, bowl = small(AGENTS[name]), bowl_state(steepness=1.0)
    rows = suited(bandit(), kind)
    state, _ = train(agent, bandit(), bowl, kind=kind)
    kept = {key: np.array(leaf) for key, leaf in flatten_tree(state).items()}
    unbroken, unbroken_metrics = go_on(agent, state, rows, bowl, start=1, kind=kind)
    template = initial_state(agent, SPECS[kind], seed=9)  # another seed's: all that counts must come from the kept
    resumed, resumed_metrics = go_on(agent, unflatten_tree(template, kept), rows, bowl, start=1, kind=kind)
    assert_same(resumed, unbroken)
    assert_same(resumed_metrics, unbroken_metrics)


@every_agent
def test_seeds_can_be_trained_together(name, kind):
    agent = Together(small(AGENTS[name]), seeds=5)
    rows = rows_for(agent.learner, suited(constant_reward(), kind))

    def after(learner: Any, key_init: Key, key_updates: Key) -> Any:
        state, step = learner.init(key_init, Problem(SPECS[kind], rows)), jnp.zeros((), jnp.int32)
        return epoch.__wrapped__(learner, state, rows, three_updates(learner), key_updates, step, 1, (penalty(kind=kind),))

    alone = jax.eval_shape(partial(after, agent.learner), *jax.random.split(jax.random.key(0)))
    together = jax.eval_shape(partial(after, agent), *jax.random.split(jax.random.key(0), (2, agent.seeds)))
    jax.tree.map(lambda one, five: np.testing.assert_equal(five.shape, (5, *one.shape)), alone, together)


@every_agent
@pytest.mark.parametrize("size", [1e8, 1e-30])
def test_extreme_rewards_leave_everything_finite(name, kind, size):
    rows = constant_reward(reward=np.where(np.arange(ROWS) % 2 == 0, size, -size))
    state, metrics = train(small(AGENTS[name]), rows, kind=kind)
    for leaf in jax.tree.leaves((state, metrics)):
        assert np.isfinite(leaf).all()


@every_agent
def test_every_policy_stays_within_the_bounds(name, kind):
    loosely = {"bonus_weight_actor": 1.0} if name == "tethered" else {}  # the usual one of these tests holds it where it starts
    agent = small(AGENTS[name], **loosely)
    state, _ = train(agent, bandit(), kind=kind)
    observation = jax.random.normal(jax.random.key(0), (256, SPEC.observation_size))
    policies = agent.policies(state, penalty(kind=kind))
    assert tuple(policies) == agent.traits.policies
    assert agent.traits.main_policy in policies
    for size, policy in itertools.product((1.0, 1e4), policies.values()):
        action = np.asarray(act(policy, size * observation))
        assert action.shape == (256, SPECS[kind].action_size)
        if kind == "discrete":
            assert (np.sort(action, axis=1) == [0.0, 1.0]).all()
            continue
        assert (action >= SPEC.action_low).all()
        assert (action <= SPEC.action_high).all()
        assert size > 1.0 or np.ptp(action, axis=0).min() > 1e-3  # and is not stuck somewhere between them


@every_agent
def test_all_policies_have_one_shape_and_their_own_weights(name, kind):
    agent = small(AGENTS[name])
    state, _ = train(agent, bandit(), kind=kind)
    policies = agent.policies(state, penalty(kind=kind))
    assert len({str(jax.eval_shape(lambda policy=policy: policy)) for policy in policies.values()}) == 1
    for other, policy in policies.items():
        assert other == "online" or differ(policy, policies["online"])


@every_agent_with_values
def test_a_constant_reward_is_worth_its_geometric_sum(name, kind):
    agent, rows = small(AGENTS[name]), constant_reward(reward=1.0)
    state, metrics = train(agent, rows, epochs=8, kind=kind)
    np.testing.assert_allclose(metrics["critic/q"], 1.0 / (1.0 - 0.8), rtol=0.02)
    value = agent.value(state, rows.observation, suited(rows, kind).action)
    assert value.shape == rows.reward.shape
    np.testing.assert_allclose(np.mean(value), 1.0 / (1.0 - 0.8), rtol=0.02)


@pytest.mark.parametrize(
    ("name", "kind", "change"),
    # CQL is meant to push down what the policy would do at the next observation, whether the step terminated or not.
    [(*case, "next observation") for case in CASES if case[0] in agents_with("discount") and case[0] != "cql"]
    + [(*case, "next bonus") for case in CASES if case[0] in {*agents_with("bonus_weight_critic"), *agents_with("bonus_weight")}],
)
def test_what_comes_next_counts_unless_the_step_terminated(name, kind, change):
    def trained(terminated: float, changed: bool) -> Any:
        rows, floor = constant_reward(terminated=terminated), 0.0
        if changed and change == "next observation":
            rows = rows._replace(next_observation=rows.next_observation + 3.0)
        elif changed:
            floor = 7.0  # the same for all actions, so that it does not move the actor
        return train(small(AGENTS[name]), rows, bowl_state(floor=floor), kind=kind)[0]

    assert_same(trained(1.0, changed=False), trained(1.0, changed=True))
    assert differ(trained(0.0, changed=False), trained(0.0, changed=True))


@every_agent_with_a_bonus_in_units_of_q
def test_a_steeper_penalty_moves_the_action_away_as_far_as_it_should(name):
    centre = np.array([-0.9, 3.4])
    observation = jax.random.normal(jax.random.key(0), (256, SPEC.observation_size))
    # The weight of the bonus is 5, so that the weighted steepness is 0, 1 and 3. See `bandit` for the best action.
    for steepness, best in [(0.0, [0.5, 1.0]), (0.2, [-0.2, 2.2]), (0.6, [-0.55, 2.8])]:
        np.testing.assert_allclose((BEST + 5 * steepness * centre) / (1 + 5 * steepness), best)
        agent = small(AGENTS[name])
        state, _ = train(agent, bandit(), bowl_state(steepness=steepness, centre=centre), epochs=12)
        action = act(agent.policies(state, penalty())["online"], observation)
        assert np.mean(np.abs(np.asarray(action) - best), axis=0).max() < 0.15


@pytest.mark.parametrize("name", agents_with("bonus_weight_actor"))
def test_a_heavier_bonus_moves_the_action_away_from_where_it_is_large(name):
    """It is a bowl's, so the action goes to the centre. `tethered` pays for steps from its anchor, which is the centre here."""
    centre = np.array([-0.9, 3.4])
    agent, given = small(AGENTS[name], **ONE_LAYER), penalty(bowl_state(steepness=1.0, centre=centre))
    rows, state = rows_for(agent, bandit()), initial_state(agent)
    drawn = jax.random.randint(jax.random.key(1), (UPDATES, *agent.batch_shape), 0, ROWS)

    @jax.jit  # once for all weights
    def distance(weight: jax.Array) -> jax.Array:
        weighed, start = replace(agent, bonus_weight_actor=weight), state
        if refresh_period(agent):
            start = weighed.refresh(start, rows)
        step = jnp.zeros((), jnp.int32)
        after, _ = epoch.__wrapped__(weighed, start, rows, drawn, jax.random.key(2), step, agent.batch_shape[0], (given,))
        action = weighed.policies(after, given)["online"](rows.observation)
        return jnp.mean(jnp.sum(jnp.square(action - centre[None]), axis=1))

    none, heavy = (float(distance(jnp.asarray(weight))) for weight in (0.0, 5.0))
    assert heavy < 0.5 * none


@every_agent_with_noise
def test_noise_differs_per_row(name):
    kind, seen = AGENTS[name], []
    noisy = {field.name: 0.1 for field in fields(kind) if field.name.endswith("noise")}
    agent = small(kind, clean_bonus=False, **noisy)

    def watching(observation: jax.Array, action: jax.Array, key: Key) -> jax.Array:
        jax.debug.callback(seen.append, action)
        return jnp.zeros(action.shape[0])

    shape = agent.batch_shape
    rows = jax.tree.map(lambda column: jnp.ones((*shape, *column.shape[1:])), rows_for(agent, constant_reward()))

    state = initial_state(agent)

    @jax.jit
    def actions_scored(key: Key) -> None:  # nothing is returned, so that no more is compiled than the actions need
        agent.update(state, rows, key, watching)

    actions_scored(jax.random.key(0))
    jax.effects_barrier()
    assert len(seen) >= 2  # the critics' and the actor's
    noisy_actions = [
        actions for actions in seen if len(np.unique(actions, axis=0)) == len(actions)
    ]  # though all observations are one
    assert len(noisy_actions) == len(noisy)


@every_agent
def test_what_it_declares_is_so(name, kind):
    agent = small(AGENTS[name])
    assert critic_steps(agent) == agent.batch_shape[0] >= 1
    assert 0.0 < agent.discount < 1.0
    assert set(agent.traits.columns) <= set(COLUMNS)
    setting = agent.traits.holding_setting
    assert not setting or setting in {field.name for field in fields(agent)}
    assert from_named(to_named(agent, AGENTS), AGENTS, "agent") == agent


@every_agent
def test_every_policy_is_rebuilt_from_its_description(name, kind):
    agent = small(AGENTS[name], normalise_observations=True)
    state = initial_state(agent, SPECS[kind])
    for policy in agent.policies(state, None).values():
        assert type(policy) in PARTS.values()
        again = rebuilt(json.loads(json.dumps(describe(policy))))
        assert jax.tree.structure(again) == jax.tree.structure(policy)
        jax.tree.map(lambda shape, leaf: np.testing.assert_equal(shape.shape, leaf.shape), again, policy)


@every_agent
def test_observations_in_any_unit_are_the_same_where_they_are_normalised(name, kind):
    """A column in other units, and its mean elsewhere: the moments take it out again, in policies and in values."""
    unit, offset = jnp.array([[1e3, 1e-2]]), jnp.array([[1e3, -0.02]])
    rows = suited(constant_reward(), kind)
    other = rows._replace(observation=rows.observation * unit + offset)

    def seen(normalise: bool, data: Batch) -> list[np.ndarray]:
        agent = small(AGENTS[name], normalise_observations=normalise)
        state = initial_state(agent, SPECS[kind], rows=data)
        policy = agent.policies(state, penalty(kind=kind))[agent.traits.main_policy]
        value = agent.value(state, data.observation, data.action)
        return [np.asarray(act(policy, data.observation)), np.zeros(1) if value is None else np.asarray(value)]

    for one, another in zip(seen(True, rows), seen(True, other), strict=True):
        assert np.mean(np.abs(one - another) > 1e-2) < 0.01  # a choice on the edge may tip
    assert any(np.mean(np.abs(one - another)) > 0.05 for one, another in zip(seen(False, rows), seen(False, other), strict=True))


@pytest.mark.parametrize(("name", "kind"), [("td3", "continuous"), ("dqn", "discrete")])
def test_one_of_several_seeds_is_a_whole_state(name, kind):
    agent = small(AGENTS[name])
    states = [initial_state(agent, SPECS[kind], seed) for seed in (3, 8)]
    both = joined(states)
    for place, state in enumerate(states):
        assert jax.tree.structure(one_of(both, place)) == jax.tree.structure(state)
        assert_same(one_of(both, place), state)
    assert differ(*states)

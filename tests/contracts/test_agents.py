"""What every agent of the registry must do. A new agent is held to this by being in `AGENTS`."""

from __future__ import annotations

from dataclasses import fields, make_dataclass
from functools import cache
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
    Bowl,
    bandit,
    bowl_state,
    constant_reward,
    one_epoch,
    small,
    suited,
    train,
    with_one_setting_changed,
)

from tether.agents import AGENTS
from tether.bonuses import FrozenBonus
from tether.policy import act
from tether.storage import flatten_tree, unflatten_tree
from tether.training.loop import RunState, initial_state, run_keys, train_epoch
from tether.types import Batch, Key


def agents_with(setting: str) -> list[str]:
    return [name for name, agent in AGENTS.items() if setting in {field.name for field in fields(agent)}]


CASES = [(name, kind) for name, agent in AGENTS.items() for kind in agent.action_kinds]
every_agent = pytest.mark.parametrize(("name", "kind"), CASES)
every_agent_with_values = pytest.mark.parametrize(
    ("name", "kind"), [case for case in CASES if case[0] in agents_with("discount")]
)
every_agent_with_a_bonus = pytest.mark.parametrize("name", agents_with("bonus_weight_actor"))
every_agent_with_noise = pytest.mark.parametrize("name", agents_with("target_noise"))


def assert_same(left: Any, right: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, left, right)


def differ(left: Any, right: Any) -> bool:
    pairs = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    return not all(np.array_equal(one, other) for one, other in pairs)


@cache
def program(agent: Any, kind: str) -> str:
    """The text of all that the agent computes: its first state, and an epoch from there."""

    def whole(key: Key, rows: Batch) -> Any:
        key_init, key_updates = jax.random.split(key)
        state = RunState(agent.init(key_init, SPECS[kind]), bowl_state(), jnp.zeros((), jnp.int32))
        return train_epoch.__wrapped__(agent, Bowl(), state, rows, key_updates, 3)

    traced = jax.make_jaxpr(whole)(jax.random.key(0), suited(constant_reward(), kind))
    return f"{traced.jaxpr} {traced.consts}"


@pytest.mark.parametrize(
    ("name", "kind", "setting"), [(name, kind, field.name) for name, kind in CASES for field in fields(AGENTS[name])]
)
def test_every_setting_changes_the_program(name, kind, setting):
    agent = small(AGENTS[name])
    assert program(agent, kind) != program(with_one_setting_changed(agent)[setting], kind)


@every_agent
def test_a_forgotten_setting_would_be_seen(name, kind):
    forgetful = small(make_dataclass("Forgetful", [("forgotten", float, 1.0)], bases=(AGENTS[name],), frozen=True))
    assert program(forgetful, kind) == program(with_one_setting_changed(forgetful)["forgotten"], kind)


@every_agent
def test_the_seed_decides_the_first_state(name, kind):
    first, same, other = (initial_state(small(AGENTS[name]), (), SPECS[kind], seed).agent for seed in (0, 0, 1))
    assert_same(first, same)
    assert differ(first, other)


@every_agent
def test_no_buffer_appears_twice_in_the_first_state(name, kind):
    made = jax.make_jaxpr(lambda key: small(AGENTS[name]).init(key, SPECS[kind]))(jax.random.key(0)).jaxpr.outvars
    assert len({id(variable) for variable in made}) == len(made)


@every_agent
def test_many_epochs_are_traced_once(name, kind, monkeypatch):
    agent, traces = small(AGENTS[name]), []
    update = type(agent).update

    def counted(self: Any, *given: Any) -> Any:
        traces.append(name)
        return update(self, *given)

    monkeypatch.setattr(type(agent), "update", counted)
    state = jax.eval_shape(lambda: initial_state(agent, bowl_state(), SPECS[kind], 0))
    counts = []
    for _ in range(3):
        state, _ = train_epoch.eval_shape(agent, Bowl(), state, suited(constant_reward(), kind), run_keys(0)[1], UPDATES + 1)
        counts.append(len(traces))
    assert counts[0] > 0
    assert counts == [counts[0]] * 3


@every_agent
def test_a_run_resumed_at_an_epoch_equals_an_unbroken_one(name, kind):
    agent = small(AGENTS[name])
    rows = suited(bandit(), kind)
    state, _ = train(agent, bandit(), bowl_state(steepness=1.0), epochs=1, kind=kind)
    kept = {key: np.array(leaf) for key, leaf in flatten_tree(state).items()}
    unbroken, unbroken_metrics = one_epoch(agent, state, rows)
    template = initial_state(agent, bowl_state(), SPECS[kind], seed=9)  # another seed's: all that counts must come from the kept
    resumed, resumed_metrics = one_epoch(agent, unflatten_tree(template, kept), rows)
    assert_same(resumed, unbroken)
    assert_same(resumed_metrics, unbroken_metrics)


@every_agent
def test_seeds_can_be_trained_together(name, kind):
    agent = small(AGENTS[name])

    def epoch(key: Key) -> RunState:
        key_init, key_updates = jax.random.split(key)
        state = RunState(agent.init(key_init, SPECS[kind]), bowl_state(), jnp.zeros((), jnp.int32))
        return train_epoch.__wrapped__(agent, Bowl(), state, suited(constant_reward(), kind), key_updates, 3)[0]

    alone = jax.eval_shape(epoch, jax.random.key(0))
    together = jax.eval_shape(jax.vmap(epoch), jax.random.split(jax.random.key(0), 5))
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
    agent = small(AGENTS[name])
    state, _ = train(agent, bandit(), kind=kind)
    observation = 1e4 * jax.random.normal(jax.random.key(0), (256, SPEC.observation_size))
    policies = agent.policies(state.agent, FrozenBonus(state.bonus, Bowl()))
    assert {"online", "target", "ema"} <= set(policies)
    for action in (np.asarray(act(policy, observation)) for policy in policies.values()):
        assert action.shape == (256, SPECS[kind].action_size)
        if kind == "discrete":
            assert (np.sort(action, axis=1) == [0.0, 1.0]).all()
            continue
        assert (action >= SPEC.action_low).all()
        assert (action <= SPEC.action_high).all()
        assert np.ptp(action, axis=0).min() > 1e-3  # and is not stuck somewhere between them


@every_agent
def test_all_policies_have_one_shape_and_their_own_weights(name, kind):
    agent = small(AGENTS[name])
    state, _ = train(agent, bandit(), kind=kind)
    policies = agent.policies(state.agent, FrozenBonus(state.bonus, Bowl()))
    assert len({str(jax.eval_shape(lambda policy=policy: policy)) for policy in policies.values()}) == 1
    for other, policy in policies.items():
        assert other == "online" or differ(policy, policies["online"])


@every_agent_with_values
def test_a_constant_reward_is_worth_its_geometric_sum(name, kind):
    agent, rows = small(AGENTS[name]), constant_reward(reward=1.0)
    state, metrics = train(agent, rows, epochs=8, kind=kind)
    np.testing.assert_allclose(metrics["critic/q"], 1.0 / (1.0 - 0.8), rtol=0.02)
    value = agent.value(state.agent, rows.observation, suited(rows, kind).action)
    assert value.shape == rows.reward.shape
    np.testing.assert_allclose(np.mean(value), 1.0 / (1.0 - 0.8), rtol=0.02)


@every_agent_with_values
@pytest.mark.parametrize("change", ["next observation", "next bonus"])
def test_what_comes_next_counts_unless_the_step_terminated(name, kind, change):
    def trained(terminated: float, changed: bool) -> Any:
        rows, floor = constant_reward(terminated=terminated), 0.0
        if changed and change == "next observation":
            rows = rows._replace(next_observation=rows.next_observation + 3.0)
        elif changed:
            floor = 7.0  # the same for all actions, so that it does not move the actor
        return train(small(AGENTS[name]), rows, bowl_state(floor=floor), kind=kind)[0].agent

    assert_same(trained(1.0, changed=False), trained(1.0, changed=True))
    assert differ(trained(0.0, changed=False), trained(0.0, changed=True))


@every_agent_with_a_bonus
def test_a_steeper_penalty_moves_the_action_away_as_far_as_it_should(name):
    centre = np.array([-0.9, 3.4])
    observation = jax.random.normal(jax.random.key(0), (256, SPEC.observation_size))
    # The weight of the bonus is 5, so that the weighted steepness is 0, 1 and 3. See `bandit` for the best action.
    for steepness, best in [(0.0, [0.5, 1.0]), (0.2, [-0.2, 2.2]), (0.6, [-0.55, 2.8])]:
        np.testing.assert_allclose((BEST + 5 * steepness * centre) / (1 + 5 * steepness), best)
        agent = small(AGENTS[name])
        state, _ = train(agent, bandit(), bowl_state(steepness=steepness, centre=centre), epochs=12)
        action = act(agent.policies(state.agent, FrozenBonus(state.bonus, Bowl()))["online"], observation)
        np.testing.assert_allclose(action, np.tile(best, (256, 1)), atol=0.15)


@every_agent_with_noise
def test_noise_differs_per_row(name):
    kind, seen = AGENTS[name], []
    agent = small(kind, **{field.name: 0.1 for field in fields(kind) if field.name.endswith("noise")})

    def penalty(observation: jax.Array, action: jax.Array, key: Key) -> jax.Array:
        jax.debug.callback(seen.append, action)
        return jnp.zeros(action.shape[0])

    @jax.jit
    def actions_scored(key: Key) -> None:  # nothing is returned, so that no more is compiled than the actions need
        shape = (agent.critic_steps, agent.batch_size)
        row = Batch(jnp.ones((*shape, 2)), jnp.ones((*shape, 2)), jnp.ones(shape), jnp.ones((*shape, 2)), jnp.zeros(shape))
        state = jax.eval_shape(lambda: initial_state(agent, (), SPEC, 0).agent)
        agent.update(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), state), row, key, penalty)

    actions_scored(jax.random.key(0))
    jax.effects_barrier()
    assert len(seen) >= 2  # the critics' and the actor's
    for actions in seen:
        assert len(np.unique(actions, axis=0)) == len(actions)  # though all observations are one

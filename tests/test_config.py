"""Presets, the paper's weights, overrides, what is refused, and the way to JSON and back."""

from __future__ import annotations

import itertools
import json
import math
import re
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from pages import ROOT

from tether import BC, CVAE, TD3
from tether import config as configs
from tether.agents import AGENTS
from tether.bonuses import BONUSES, NoBonus
from tether.config import EvaluationConfig, RunConfig, TrainingConfig
from tether.errors import TetherError

make_config = partial(configs.make_config, preset="paper")


def weights(env_id: str | None, **overrides: Any) -> tuple[float, float]:
    agent = make_config("some.hdf5", env_id, overrides=overrides).agent
    assert isinstance(agent, TD3)
    return agent.bonus_weight_actor, agent.bonus_weight_critic


def refusal(**overrides: Any) -> str:
    with pytest.raises(TetherError) as raised:
        make_config("some.hdf5", overrides={name.replace("__", "."): value for name, value in overrides.items()})
    return str(raised.value)


# Presets and overrides


def test_the_preset_of_the_paper_is_the_papers():
    config = make_config("some.hdf5")
    assert config.training.steps == 500_000
    assert config.training.evaluate_every == 5_000
    assert (config.agent, config.bonus) == (TD3(), CVAE())
    assert isinstance(config.bonus, CVAE)
    assert (config.bonus.steps, config.bonus.hidden_sizes, config.bonus.latent_size) == (50_000, (750, 750), 12)


def test_ours_is_the_default():
    assert configs.make_config("some.hdf5") == make_config("some.hdf5", preset="tether")
    assert configs.make_config("some.hdf5").training.steps == 60_000


def test_the_quick_preset_shortens_the_training_and_not_the_fit():
    target = EvaluationConfig(policy="target")
    assert make_config("some.hdf5", preset="quick") == RunConfig(
        "some.hdf5", training=TrainingConfig(steps=50_000, reward_scaling="range"), evaluation=target
    )


@pytest.mark.parametrize(
    ("env_id", "expected"),
    [
        ("Hopper-v4", (5.0, 1.0)),
        ("HalfCheetah-v5", (5.0, 1.0)),
        ("AdroitHandPen-v1", (10.0, 10.0)),
        ("AdroitHandDoor-v1", (10.0, 10.0)),
        ("InvertedPendulum-v5", (5.0, 1.0)),
        (None, (5.0, 1.0)),
    ],
)
def test_bonus_weights_are_those_of_the_tasks_group(env_id: str | None, expected: tuple[float, float]):
    assert weights(env_id) == expected


def test_an_override_wins_over_the_group_and_the_preset():
    assert weights("AdroitHandPen-v1", **{"agent.bonus_weight_actor": "2"}) == (2.0, 10.0)
    assert make_config("some.hdf5", preset="quick", overrides={"training.steps": 7_000}).training.steps == 7_000


def test_an_agent_without_bonus_weights_is_not_given_any():
    config = make_config("some.hdf5", "Hopper-v4", agent="bc", bonus="none")
    assert (config.agent, config.bonus, config.training) == (BC(), NoBonus(), TrainingConfig())


def test_an_override_changes_one_setting_of_one_section():
    config = configs.override(RunConfig("some.hdf5"), "agent.hidden_sizes", "16,32")
    assert config == RunConfig("some.hdf5", agent=TD3(hidden_sizes=(16, 32)))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("agent.discuont", "no setting agent.discuont; did you mean agent.discount?"),
        ("bonus.step", "no setting bonus.step; did you mean bonus.steps?"),
        (
            "agnet.discount",
            "no setting agnet.discount; did you mean agent? (settings are agent.…, bonus.…, training.…, evaluation.…)",
        ),
        (
            "zzz",
            "no setting zzz; there is: agent, bonus, evaluation, training "
            "(settings are agent.…, bonus.…, training.…, evaluation.…)",
        ),
    ],
)
def test_an_unknown_setting_offers_the_nearest(name: str, message: str):
    assert refusal(**{name: "1"}) == message


def test_a_setting_of_another_agent_is_unknown_to_this_one():
    with pytest.raises(TetherError, match=r"^no setting agent\.discount; there is: "):
        make_config("some.hdf5", agent="bc", overrides={"agent.discount": "0.9"})


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"agent": "td33"}, "no agent 'td33'; did you mean td3 or td3-bc?"),
        ({"bonus": "cvea"}, "no bonus 'cvea'; did you mean cvae?"),
        ({"preset": "quik"}, "no preset 'quik'; did you mean quick?"),
    ],
)
def test_an_unknown_choice_offers_the_nearest(choice: dict[str, str], message: str):
    with pytest.raises(TetherError) as raised:
        make_config("some.hdf5", **choice)  # type: ignore[arg-type]
    assert str(raised.value) == message


# What no run could use


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("agent.learning_rate_actor", "-1", "agent.learning_rate_actor is -1.0; it must not be negative"),
        ("agent.target_noise", "nan", "agent.target_noise is nan; it must be a number"),
        ("training.value_limit", "nan", "training.value_limit is nan; it must be a number"),
        ("agent.hidden_sizes", "-1,16", "agent.hidden_sizes is -1; it must be at least 1"),
        ("agent.hidden_sizes", "16,0", "agent.hidden_sizes is 0; it must be at least 1"),
        ("bonus.hidden_sizes", "0,16", "bonus.hidden_sizes is 0; it must be at least 1"),
        ("bonus.latent_size", "-1", "bonus.latent_size is -1; it must not be negative"),
        ("agent.batch_size", "0", "agent.batch_size is 0; it must be at least 1"),
        ("bonus.batch_size", "0", "bonus.batch_size is 0; it must be at least 1"),
        ("agent.actor_period", "0", "agent.actor_period is 0; it must be at least 1"),
        ("training.steps", "0", "training.steps is 0; it must be at least 1"),
        ("training.log_every", "0", "training.log_every is 0; it must be at least 1"),
        ("training.evaluate_every", "0", "training.evaluate_every is 0; it must be at least 1"),
        ("training.checkpoint_every", "0", "training.checkpoint_every is 0; it must be at least 1"),
        ("evaluation.episodes", "0", "evaluation.episodes is 0; it must be at least 1"),
        ("agent.discount", "1", "agent.discount is 1.0; it must be at least 0 and below 1"),
        ("bonus.held_out_share", "1", "bonus.held_out_share is 1.0; it must be at least 0 and below 1"),
        ("agent.target_mix", "1.5", "agent.target_mix is 1.5; it must be at most 1"),
        ("agent.ema_mix", "2", "agent.ema_mix is 2.0; it must be at most 1"),
        ("bonus.seed", str(2**32), "bonus.seed is 4294967296; it must be at least 0 and below 4294967296"),
        ("evaluation.policy", "onlien", "evaluation.policy is 'onlien'; it takes online or target or ema"),
    ],
)
def test_a_value_that_no_run_could_use_is_refused(name: str, value: str, message: str):
    assert refusal(**{name: value}) == message


@pytest.mark.parametrize(("share", "message"), [("0", "at least 0.001"), ("-0.1", "at least 0.001"), ("1.5", "at most 1")])
def test_a_share_of_no_episodes_is_refused(share: str, message: str):
    with pytest.raises(TetherError, match=f"^agent.best_share is {float(share)}; it must be {message}$"):
        make_config("some.hdf5", agent="bc", overrides={"agent.best_share": share})


@pytest.mark.parametrize(
    ("name", "value"), [("bonus.steps", "0"), ("agent.target_mix", "1"), ("training.value_limit", "inf"), ("agent.discount", "0")]
)
def test_a_value_at_its_edge_is_taken(name: str, value: str):
    make_config("some.hdf5", overrides={name: value})


@pytest.mark.parametrize(
    ("seed", "message"), [(-1, "it must not be negative"), (2**32, "it must be at least 0 and below 4294967296")]
)
def test_a_seed_that_would_repeat_another_is_refused(seed: int, message: str):
    with pytest.raises(TetherError, match=f"^seed is {seed}; {message}$"):
        make_config("some.hdf5", seed=seed)


def test_an_epoch_divides_all_that_must_fall_on_one():
    config = make_config("some.hdf5", overrides={"training.steps": 2_400, "training.log_every": 600})
    assert config.epoch_steps == 200  # gcd(600, 5000, 5000, 2400)


def test_periods_without_a_common_epoch_are_refused():
    assert refusal(training__steps="12345") == (
        "training.steps 12,345, log_every 1,000, evaluate_every 5,000 and checkpoint_every 5,000 have no common epoch; "
        "multiples of 1,000 (or of 100) do"
    )


def test_a_run_shorter_than_a_hundred_steps_is_one_epoch():
    assert make_config("some.hdf5", overrides={"training.steps": 50}).epoch_steps == 50
    assert "have no common epoch" in refusal(training__steps="30")  # gcd(1000, 30) is 10


def test_an_update_that_does_not_divide_an_epoch_is_refused():
    assert refusal(agent__actor_period="3") == (
        "an update of the agent is 3 steps, which do not divide an epoch of 1,000; training.steps, log_every, evaluate_every and "
        "checkpoint_every must be multiples of 3"
    )


# JSON


@pytest.mark.parametrize(
    ("agent", "bonus"),
    [pair for pair in itertools.product(AGENTS, BONUSES) if AGENTS[pair[0]].traits.requires <= BONUSES[pair[1]].traits.offers],
)
def test_a_config_comes_back_from_json_as_it_was(agent: str, bonus: str):
    config = replace(
        make_config(
            "some.hdf5", "AdroitHandPen-v1", agent, bonus, preset="quick", seed=3, overrides={"training.value_limit": "inf"}
        ),
        evaluation=EvaluationConfig(episodes=3, policy="online", env_id="none"),
    )
    text = json.dumps(configs.to_json(config))
    assert configs.from_json(json.loads(text)) == config
    assert math.isinf(json.loads(text)["training"]["value_limit"])


def test_json_names_the_agent_and_the_bonus():
    plain = configs.to_json(RunConfig("some.hdf5", agent=BC(), bonus=NoBonus()))
    assert plain["agent"]["name"] == "bc"
    assert plain["bonus"] == {"name": "none"}
    assert plain["dataset"] == "some.hdf5"
    assert plain["seed"] == 0


def without(plain: dict[str, Any], *path: str) -> dict[str, Any]:
    first, *rest = path
    kept = {name: value for name, value in plain.items() if name != first}
    return kept | {first: without(plain[first], *rest)} if rest else kept


PLAIN = configs.to_json(RunConfig("some.hdf5"))


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        (without(PLAIN, "seed"), "setting seed is missing"),
        (without(PLAIN, "dataset"), "setting dataset is missing"),
        (without(PLAIN, "bonus"), "the settings of bonus are missing"),
        (without(PLAIN, "agent", "name"), "no agent 'None'; there is: awr, bc, bcq, bear, "),
        (PLAIN | {"agent": "td3"}, "the settings of agent are missing"),
        (PLAIN | {"bonus": None}, "the settings of bonus are missing"),
        (PLAIN | {"sead": 1}, "no setting sead; did you mean seed?"),
        (PLAIN | {"seed": "one"}, "seed is 'one'; it takes a whole number"),
        (PLAIN | {"seed": -1}, "seed is -1; it must not be negative"),
        (PLAIN | {"agent": PLAIN["agent"] | {"tua": 1}}, "no setting agent.tua; there is: "),
        (PLAIN | {"agent": PLAIN["agent"] | {"discount": 2}}, "agent.discount is 2.0; it must be at least 0 and below 1"),
        (
            PLAIN | {"agent": PLAIN["agent"] | {"name": "ppo"}},
            "no agent 'ppo'; there is: awr, bc, bcq, bear, ",
        ),
        ([], "a config is a JSON object, not a list"),
    ],
)
def test_json_that_is_not_a_whole_config_is_refused(plain: Any, message: str):
    with pytest.raises(TetherError) as raised:
        configs.from_json(plain)
    assert str(raised.value).startswith(message)


def test_a_setting_that_is_newer_than_the_file_has_its_default():
    changed = configs.to_json(
        configs.make_config("some.hdf5", agent="td3", overrides={"agent.discount": 0.9, "training.steps": 1_000})
    )
    for section, name in (("agent", "discount"), ("training", "steps")):
        assert configs.from_json(without(changed, section, name)) == configs.override(
            configs.from_json(changed), f"{section}.{name}", PLAIN[section][name]
        )


def test_runs_of_tethered_that_do_not_say_had_no_bounds():
    now = configs.to_json(make_config("some.hdf5", agent="tethered"))
    assert now["agent"]["bound_values"] is True
    old = configs.from_json(without(now, "agent", "bound_values"))
    assert configs.first_difference(old, configs.from_json(now)) == "agent.bound_values: False here, True there"


# Comparing


def test_configs_that_are_equal_have_no_difference():
    assert configs.first_difference(make_config("some.hdf5"), make_config("some.hdf5")) is None


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (RunConfig("other.hdf5"), None),  # what the file is called does not matter: its hash is compared elsewhere
        (RunConfig("some.hdf5", seed=1), "seed: 0 here, 1 there"),
        (RunConfig("some.hdf5", agent=TD3(discount=0.9)), "agent.discount: 0.99 here, 0.9 there"),
        (RunConfig("some.hdf5", agent=TD3(hidden_sizes=(8, 9))), "agent.hidden_sizes: [256, 256] here, [8, 9] there"),
        (RunConfig("some.hdf5", agent=BC()), "agent.name: td3 here, bc there"),
        (RunConfig("some.hdf5", bonus=NoBonus()), "bonus.name: cvae here, none there"),
        (RunConfig("some.hdf5", evaluation=EvaluationConfig(env_id="none")), "evaluation.env_id:  here, none there"),
    ],
)
def test_the_first_difference_is_named_with_both_values(other: RunConfig, expected: str | None):
    assert configs.first_difference(RunConfig("some.hdf5"), other) == expected


def test_a_setting_that_only_the_other_has_is_a_difference():
    bare, full = RunConfig("some.hdf5", bonus=NoBonus()), RunConfig("some.hdf5", bonus=CVAE())
    assert configs.first_difference(bare, full) == "bonus.name: none here, cvae there"


def test_settings_are_grouped_for_help():
    groups = configs.settings_of(RunConfig("some.hdf5"))
    assert list(groups) == ["run", "agent", "bonus", "training", "evaluation"]
    assert groups["run"] == {"dataset": "some.hdf5", "seed": 0}
    assert groups["agent"]["agent.discount"] == 0.99


def test_a_run_s_policy_is_the_agent_s_main_one_unless_it_asks_for_another():
    assert make_config("some.hdf5").evaluation.policy == "target"
    assert make_config("some.hdf5", agent="dqn", overrides={"evaluation.policy": "unpenalised"}).policy == "unpenalised"
    with pytest.raises(TetherError, match=r"^evaluation.policy is 'unpenalised'; it takes online or target or ema$"):
        make_config("some.hdf5", overrides={"evaluation.policy": "unpenalised"})
    with pytest.raises(TetherError, match=r"^evaluation.policy is 'ema'; it takes online or target$"):
        make_config("some.hdf5", agent="bc", overrides={"evaluation.policy": "ema"})


def test_a_group_of_settings_is_set_by_two_dots():
    config = make_config("some.hdf5", overrides={"agent.optimiser.schedule": "cosine", "agent.optimiser.clip_norm": "2"})
    assert (config.agent.optimiser.schedule, config.agent.optimiser.clip_norm) == ("cosine", 2.0)
    assert configs.from_json(json.loads(json.dumps(configs.to_json(config)))) == config
    for name, value, message in [
        ("agent.optimiser.clip", "2", "no setting agent.optimiser.clip; did you mean agent.optimiser.clip_norm?"),
        ("agent.optimiser.clip_norm", "-1", "agent.optimiser.clip_norm is -1.0; it must not be negative"),
        (
            "agent.optimiser",
            "cosine",
            "agent.optimiser is a group of settings: agent.optimiser.schedule, agent.optimiser.clip_norm",
        ),
        ("agent.discount.size", "1", "no setting agent.discount.size: agent.discount is not a group of settings"),
        ("bonus.held_out", "0.1", "no setting bonus.held_out; it is called bonus.held_out_share now"),
    ]:
        with pytest.raises(TetherError, match=f"^{re.escape(message)}"):
            make_config("some.hdf5", overrides={name: value})


def test_settings_of_earlier_versions_are_understood():
    plain = configs.to_json(make_config("some.hdf5", agent="bc", bonus="cvae"))
    old = json.loads(json.dumps(plain))
    old["bonus"]["held_out"] = old["bonus"].pop("held_out_share")
    old["agent"]["ema_mix"] = 0.0005
    for newer in ("optimiser", "normalise_observations"):
        del old["agent"][newer]
    assert configs.to_json(configs.from_json(old)) == plain


@pytest.mark.parametrize(("agent", "scaling"), [("td3", "range"), ("dqn", "auto"), ("bc", "auto"), ("td3-bc", "auto")])
def test_the_scaling_of_a_config_without_a_version_is_what_it_was(agent: str, scaling: str):
    """`auto` meant [0, 1] for continuous actions. So a run of before is the run that the same command asks for now."""
    now = make_config("some.hdf5", agent=agent)
    old = configs.to_json(now)
    assert old.pop("version") == configs.VERSION
    old["training"]["reward_scaling"] = "auto"
    assert configs.from_json(old).training.reward_scaling == scaling
    assert configs.from_json(old | {"version": 2}).training.reward_scaling == "auto"
    assert configs.first_difference(now, configs.from_json(old)) is None


def test_a_config_of_a_later_version_is_refused():
    plain = configs.to_json(make_config("some.hdf5"))
    with pytest.raises(TetherError, match=r"^the config is of version 4, this Tether knows those up to 3; use a newer Tether$"):
        configs.from_json(plain | {"version": 4})


def test_every_run_that_is_kept_can_still_be_gone_on_with():
    """A sweep on top of kept runs reads the settings of each. Those of an agent that is no more are refused."""
    for path in sorted((ROOT / "results").rglob("result.json")):
        plain = json.loads(path.read_text())["config"]
        if plain["agent"].get("weight_each_action"):
            with pytest.raises(TetherError, match=r"no setting agent\.weight_each_action"):
                configs.from_json(plain)
        else:
            configs.from_json(plain)

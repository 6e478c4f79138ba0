"""What a preset sets, for whom, and what is said about it."""

from __future__ import annotations

from typing import Any

import pytest

from tether.agents import AGENTS
from tether.config import make_config
from tether.environments.tasks import find_task
from tether.presets import PAPERS, PRESETS, explanations, guessed_weights, rules_for, usual_agent, usual_bonus, whose_settings

HOPPER, PEN = find_task("Hopper-v5"), find_task("AdroitHandPen-v1")

RANGE = {"training.reward_scaling": "range"}  # the paper's map of rewards to [0, 1]


def settings(preset: str, agent: str, task, bonus: str = "cvae") -> dict[str, Any]:
    return {name: value for rule in rules_for(preset, agent, bonus, task) for name, value in rule.settings.items()}


def test_the_paper_s_weights_are_td3_s_by_group():
    assert settings("paper", "td3", HOPPER) == {"agent.bonus_weight_actor": 5.0, "agent.bonus_weight_critic": 1.0} | RANGE
    assert settings("paper", "td3", PEN) == {"agent.bonus_weight_actor": 10.0, "agent.bonus_weight_critic": 10.0} | RANGE
    assert settings("paper", "td3", None) == RANGE
    assert settings("paper", "bc", HOPPER) == {}


@pytest.mark.parametrize("agent", ["bcq", "bear"])
def test_generators_have_their_authors_latents_and_rate(agent: str):
    bonus = make_config("some.hdf5", agent=agent).bonus
    assert (bonus.latent_size, bonus.learning_rate, bonus.steps) == (0, 1e-3, 50_000)
    assert settings("paper", agent, HOPPER, "density") == {"training.steps": 1_000_000}


@pytest.mark.parametrize("agent", AGENTS)
def test_with_the_preset_of_the_paper_a_baseline_has_its_own_paper_s_steps_and_says_so(agent: str):
    """Where its authors' program has none, it has TD3-CVAE's and says that."""
    config = make_config("some.hdf5", agent=agent, preset="paper")
    said = explanations("paper", agent, "none", None, {})
    if agent == "td3":
        assert (config.training.steps, said) == (500_000, [])  # whose paper the preset is
    elif agent in PAPERS and PAPERS[agent].steps:
        assert config.training.steps == PAPERS[agent].steps
        assert said[0].startswith(f"preset paper: {agent} has the settings of {PAPERS[agent].authors} (docs/agents/{agent}.md ")
        assert said[0].endswith("; training.steps are its authors' program's")
    else:
        assert config.training.steps == 500_000
        assert "; training.steps are TD3-CVAE's" in said[0]
    # Another number of steps that was asked for is not the authors', and with other presets nothing is from here.
    assert not any("steps" in note for note in explanations("paper", agent, "none", None, {"training.steps": "100"}))
    others = {preset: make_config("some.hdf5", agent=agent, preset=preset).training.steps for preset in ("tether", "quick")}
    assert others == {"tether": 60_000, "quick": 50_000}
    assert whose_settings("tether", agent, {}) == []


def test_steps_of_authors_programs():
    """As their files have them; CQL's and SAC-RND's are 3,000 epochs of 1,000, ReBRAC's are 1,000."""
    steps = {agent: make_config("some.hdf5", agent=agent, preset="paper").training.steps for agent in ("iql", "cql", "brac-p")}
    assert steps == {"iql": 1_000_000, "cql": 3_000_000, "brac-p": 500_000}
    (note,) = explanations("paper", "iql", "none", HOPPER, {})
    whose = "preset paper: iql has the settings of Kostrikov et al. (2021) (docs/agents/iql.md says what differs)"
    assert note == f"{whose}; training.steps are its authors' program's"
    assert explanations("paper", "iql", "none", HOPPER, {"training.steps": "60000"}) == [whose]
    (note,) = explanations("paper", "tethered", "none", HOPPER, {})
    assert note.startswith("preset paper: tethered has settings of its own, of no paper; training.steps are TD3-CVAE's")


def test_quick_is_the_paper_s_and_shorter():
    assert settings("quick", "td3", HOPPER) == {"training.steps": 50_000} | settings("paper", "td3", HOPPER)


def test_ours_takes_nothing_from_the_paper_s():
    found = settings("tether", "td3", HOPPER, usual_bonus("tether", "td3"))
    assert found == settings("tether", "td3", PEN, "density") == settings("tether", "td3", None, "density")  # one set of weights
    assert (found["agent.bonus_weight_actor"], found["training.reward_scaling"]) == (0.1, "divide")
    assert found["bonus.components"] == 5
    with_cvae = settings("tether", "td3", HOPPER, bonus="cvae")
    assert (with_cvae["agent.bonus_weight_actor"], with_cvae["bonus.measure"]) == (0.15, "bound")
    assert not any(name.startswith("bonus.") for name in settings("tether", "td3", HOPPER, bonus="rnd"))
    assert settings("tether", "bc", HOPPER) == {"training.steps": 60_000}


def test_a_preset_may_have_another_usual_bonus_than_the_agent():
    assert [usual_bonus(preset, "td3") for preset in ("paper", "quick", "tether")] == ["cvae", "cvae", "density"]
    assert usual_bonus("tether", "sac") == "rnd-film"


def test_ours_says_its_weights_and_whom_they_were_chosen_for():
    weights = "agent.bonus_weight_actor 0.1 and agent.bonus_weight_critic 0: the preset's, chosen on locomotion"
    assert explanations("tether", "td3", "density", HOPPER, {}) == []
    assert explanations("tether", "td3", "cvae", HOPPER, {}) == []  # which has a weight of its own
    first, second = explanations("tether", "td3", "rnd", HOPPER, {})
    assert first == weights
    assert second.startswith("they were chosen for density")
    assert explanations("tether", "td3", "density", HOPPER, {"agent.bonus_weight_actor": "1"}) == []
    assert explanations("tether", "bc", "none", HOPPER, {}) == []


def test_weights_chosen_on_locomotion_are_said_to_be_a_guess_elsewhere():
    for task in (PEN, None):
        (note,) = explanations("tether", "td3", "density", task, {})
        assert note.startswith("agent.bonus_weight_actor 0.1 and agent.bonus_weight_critic 0: the preset's, chosen on locomotion")
        assert "tether select" in note
        (note,) = explanations("tether", "td3", "cvae", task, {})
        assert note.startswith("agent.bonus_weight_actor 0.15 and agent.bonus_weight_critic 0: the preset's, chosen on")
        assert guessed_weights("tether", "td3", "cvae", task, {}) == (
            "agent.bonus_weight_actor 0.15 and agent.bonus_weight_critic 0, chosen on locomotion"
        )
        assert len(explanations("tether", "td3", "rnd", task, {})) == 2
    # 0.1 times what --bonus auto has measured, for the bonus that it took: nothing is left to multiply.
    (note,) = explanations("tether", "td3", "rnd", None, {}, {"agent.bonus_weight_actor": 0.02})
    assert note.startswith("agent.bonus_weight_actor 0.02 and agent.bonus_weight_critic 0: the preset's, chosen on locomotion")
    for others in (
        ("tether", "td3", "density", HOPPER, {}),
        ("tether", "td3", "density", None, {"agent.bonus_weight_actor": 1}),
        ("tether", "td3", "none", None, {}),
        ("tether", "bc", "none", None, {}),
        ("paper", "td3", "cvae", None, {}),
        ("paper", "td3", "cvae", PEN, {}),
    ):
        assert guessed_weights(*others) == ""


def test_only_what_the_task_decided_and_the_user_did_not_is_said():
    assert explanations("quick", "td3", "cvae", HOPPER, {}) == [
        "agent.bonus_weight_actor 5 and agent.bonus_weight_critic 1: the paper's for locomotion such as hopper"
    ]
    assert explanations("quick", "td3", "none", HOPPER, {}) == []
    assert explanations("quick", "td3", "cvae", None, {}) == []
    assert explanations("quick", "td3", "cvae", HOPPER, {"agent.bonus_weight_critic": "2"}) == []
    assert len(explanations("quick", "td3", "rnd", HOPPER, {})) == 2


def test_baselines_have_their_own_papers_settings_for_hand_tasks():
    pen = make_config("pen-expert-v1", "AdroitHandPen-v1", agent="iql")
    assert (pen.agent.inverse_temperature, pen.agent.dropout, pen.training.reward_scaling) == (0.5, 0.1, "none")
    hopper = make_config("hopper-medium-v2", "Hopper-v4", agent="iql")
    assert (hopper.agent.inverse_temperature, hopper.agent.dropout, hopper.training.reward_scaling) == (3.0, 0.0, "auto")
    rebrac = make_config("pen-expert-v1", "AdroitHandPen-v1", agent="rebrac").agent
    assert (rebrac.batch_size, rebrac.learning_rate_actor, rebrac.learning_rate_critic) == (256, 3e-4, 3e-4)
    assert make_config("hopper-medium-v2", "Hopper-v4", agent="rebrac").agent.batch_size == 1024


def test_a_baseline_s_own_settings_for_a_kind_of_task_are_said():
    (note,) = explanations("tether", "iql", "none", PEN, {})
    assert (
        note == "agent.inverse_temperature 0.5, agent.dropout 0.1, training.reward_scaling none: "
        "iql's own paper's for manipulation such as pen"
    )
    (note,) = explanations("tether", "iql", "none", PEN, {"agent.inverse_temperature": "3"})
    assert note.startswith("agent.dropout 0.1, training.reward_scaling none: ")
    assert explanations("tether", "iql", "none", HOPPER, {}) == []


@pytest.mark.parametrize(
    ("preset", "bonus", "agent"),
    [
        ("tether", None, "tethered"),
        ("tether", "density", "tethered"),
        ("tether", "cvae", "td3"),  # which offers no anchor
        ("tether", "none", "td3"),
        ("tether", "auto", "td3"),  # which bonus it will be is not known yet
        ("tether", "my_parts:Bonus", "td3"),
        ("paper", None, "td3"),
        ("quick", "density", "td3"),
    ],
)
def test_the_agent_where_none_is_named(preset: str, bonus: str | None, agent: str):
    assert usual_agent(preset, bonus) == agent


def test_the_anchor_of_tethered_is_fitted_the_same_way_with_every_preset():
    for preset in PRESETS:
        bonus = make_config("some.hdf5", agent="tethered", preset=preset).bonus
        assert (bonus.components, bonus.lean_to_best, bonus.least_std, bonus.steps) == (1, 6.0, 0.1, 60_000)

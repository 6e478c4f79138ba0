"""What a preset sets, by agent, bonus and group of tasks: the one place where the paper's choices for a task are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tether.environments.tasks import Task

ANY = "any"
PRESETS = ("paper", "quick")  # the first is the default


@dataclass(frozen=True)
class Rule:
    """These settings, where all of preset, agent, bonus and group are those."""

    settings: dict[str, Any]
    preset: str = ANY
    agent: str = ANY
    bonus: str = ANY
    group: str = ANY  # of the task: locomotion, manipulation
    chosen_with: str = ANY  # the bonus that the numbers were chosen for; other bonuses get them too, with a word


RULES = (
    Rule({"training.reward_scaling": "range"}, agent="td3"),  # the paper's map, to which its weights belong; a run warns of it
    Rule({"training.steps": 50_000}, preset="quick"),  # the bonus keeps its whole fit
    Rule(
        {
            "bonus.measure": "bound",
            "bonus.reduction": "mean",
            "bonus.latent_size": 0,
            "bonus.learning_rate": 1e-3,
            "bonus.steps": 100_000,
            "bonus.normalise_observations": True,
        },
        agent="spot",
        bonus="cvae",
    ),
    Rule(
        {"agent.bonus_weight_actor": 5.0, "agent.bonus_weight_critic": 1.0},
        agent="td3",
        group="locomotion",
        chosen_with="cvae",
    ),
    Rule(
        {"agent.bonus_weight_actor": 10.0, "agent.bonus_weight_critic": 10.0},
        agent="td3",
        group="manipulation",
        chosen_with="cvae",
    ),
)


def rules_for(preset: str, agent: str, bonus: str, task: Task | None) -> list[Rule]:
    """Those that hold, in their order: what a later one sets goes before."""
    here = {"preset": preset, "agent": agent, "bonus": bonus, "group": task.group if task else None}
    return [rule for rule in RULES if all(getattr(rule, name) in (ANY, value) for name, value in here.items())]


def explanations(preset: str, agent: str, bonus: str, task: Task | None, overrides: dict[str, Any]) -> list[str]:
    """What a rule has set because of the task, in words, unless the user has set some of it."""
    said = []
    for rule in rules_for(preset, agent, bonus, task):
        if task is None or rule.group == ANY or bonus == "none" or rule.settings.keys() & overrides.keys():
            continue
        values = " and ".join(f"{name} {value:g}" for name, value in rule.settings.items())
        said.append(f"{values}: the paper's for {task.group} such as {task.name}")
        if bonus != rule.chosen_with:
            said.append(
                f"they were chosen for {rule.chosen_with}; `tether bonus DATASET` tells what to multiply them by for others"
            )
    return said

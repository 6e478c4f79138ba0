"""What a preset sets, by agent, bonus and group of tasks: the one place where the paper's choices for a task are kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tether.agents import AGENTS
from tether.bonuses import BONUSES
from tether.environments.tasks import Task
from tether.settings import choose

ANY = "any"
PRESETS = ("tether", "paper", "quick")  # the first is the default
THE_PAPER_S = ("paper", "quick")


@dataclass(frozen=True)
class Rule:
    """These settings, where all of preset, agent, bonus and group are (among) those."""

    settings: dict[str, Any]
    preset: str | tuple[str, ...] = ANY
    agent: str = ANY
    bonus: str = ANY
    group: str = ANY  # of the task: locomotion, manipulation
    chosen_with: str = ANY  # the bonus that the numbers were chosen for; other bonuses get them too, with a word
    chosen_on: str = ANY  # the group of tasks that they were chosen on; the same for other tasks


@dataclass(frozen=True)
class Paper:
    """Whose settings an agent has."""

    authors: str
    steps: int | None = None  # gradient steps of a run of their program; None: it does not learn from a log alone


# Of the agents that are baselines, by name. td3's is the paper that the presets are named after.
PAPERS = {
    "awr": Paper("Peng et al. (2019)"),
    "bcq": Paper("Fujimoto et al. (2019)", 1_000_000),
    "bear": Paper("Kumar et al. (2019)", 1_000_000),
    "brac-p": Paper("Wu et al. (2019)", 500_000),
    "brac-v": Paper("Wu et al. (2019)", 500_000),
    "cql": Paper("Kumar et al. (2020)", 3_000_000),
    "iql": Paper("Kostrikov et al. (2021)", 1_000_000),
    "rebrac": Paper("Tarasov et al. (2023)", 1_000_000),
    "sac": Paper("Nikulin et al. (2023)", 3_000_000),
    "spot": Paper("Wu et al. (2022)", 1_000_000),
    "td3-bc": Paper("Fujimoto and Gu (2021)", 1_000_000),
}

USUAL_AGENT = {"tether": "tethered"}  # by preset; for others the paper's
PAPER_AGENT = "td3"
USUAL_BONUS = {("tether", "td3"): "density"}  # by preset and agent; for others the agent's own
WEIGHTS = {"agent.bonus_weight_actor", "agent.bonus_weight_critic"}

RULES = (
    # The paper's map, to which its weights belong; a run warns of it where it turns the order of episodes round.
    Rule({"training.reward_scaling": "range"}, agent="td3", preset=THE_PAPER_S),
    *(Rule({"training.steps": paper.steps}, preset="paper", agent=agent) for agent, paper in PAPERS.items() if paper.steps),
    Rule({"training.steps": 50_000}, preset="quick"),  # the bonus keeps its whole fit
    Rule(
        {
            "bonus.measure": "bound",
            "bonus.reduction": "mean",
            "bonus.latent_size": 0,
            "bonus.learning_rate": 1e-3,
            "bonus.batch_size": 256,
            "bonus.steps": 100_000,
            "bonus.normalise_observations": True,
        },
        agent="spot",
        bonus="cvae",
    ),
    # Their authors' generator: two latents an action, and Adam's own rate.
    *(Rule({"bonus.latent_size": 0, "bonus.learning_rate": 1e-3}, agent=agent, bonus="cvae") for agent in ("bcq", "bear")),
    Rule(
        {"agent.bonus_weight_actor": 5.0, "agent.bonus_weight_critic": 1.0},
        preset=THE_PAPER_S,
        agent="td3",
        group="locomotion",
        chosen_with="cvae",
    ),
    Rule(
        {"agent.bonus_weight_actor": 10.0, "agent.bonus_weight_critic": 10.0},
        preset=THE_PAPER_S,
        agent="td3",
        group="manipulation",
        chosen_with="cvae",
    ),
    # Baselines whose own papers have other settings for the hand tasks.
    Rule(
        {"agent.inverse_temperature": 0.5, "agent.dropout": 0.1, "training.reward_scaling": "none"},
        agent="iql",
        group="manipulation",
    ),
    Rule(
        {"agent.batch_size": 256, "agent.learning_rate_actor": 3e-4, "agent.learning_rate_critic": 3e-4},
        agent="rebrac",
        group="manipulation",
    ),
    # Ours, chosen on hopper-medium, halfcheetah-medium and hopper-medium-expert: results/tether-preset/PROTOCOL.md.
    Rule({"training.steps": 60_000}, preset="tether"),
    Rule(
        {
            "agent.bonus_weight_actor": 0.1,  # in units of Q's mean size, by which Q is divided, for a nat
            "agent.bonus_weight_critic": 0.0,  # with one, policies fell at once on hopper-medium-expert (one seed each)
            "agent.discount": 0.995,  # at 0.99 a fall in 300 steps is worth next to nothing
            "agent.normalise_q": True,
            "agent.normalise_observations": True,
            "agent.critic_norm": "every",
            "agent.learning_rate_actor": 1e-3,
            "agent.learning_rate_critic": 1e-3,
            "agent.target_mix": 0.05,  # Q settles by step 10,000; at 0.005 it was a third of the way at 13,000
            "agent.ema_mix": 0.0005,  # what acts is an average over 4,000 steps: a fast target is hardly one
            "evaluation.policy": "ema",
            "training.reward_scaling": "divide",
        },
        preset="tether",
        agent="td3",
        chosen_with="density",
        chosen_on="locomotion",
    ),
    # The anchor of `tethered`, whatever the preset: what the better episodes usually did.
    # 20,000 steps of fit were too few for 400,000 rows. One Gaussian: five were no better on the logs that it was chosen on.
    Rule(
        {"bonus.lean_to_best": 6.0, "bonus.least_std": 0.1, "bonus.steps": 60_000},
        agent="tethered",
        bonus="density",
    ),
    Rule({"agent.bonus_weight_actor": 0.003}, preset="tether", agent="tethered", chosen_on="locomotion"),
    # Several Gaussians: where two policies made the data, one of them puts the likeliest action between theirs.
    Rule({"bonus.components": 5}, preset="tether", agent="td3", bonus="density"),
    Rule(
        {
            "agent.bonus_weight_actor": 0.15,
            "bonus.measure": "bound",
            "bonus.hidden_sizes": (256, 256),
            "bonus.normalise_observations": True,
            "bonus.learning_rate": 3e-4,
            "bonus.batch_size": 256,
            "bonus.steps": 20_000,
        },
        preset="tether",
        agent="td3",
        bonus="cvae",
        chosen_with="cvae",
        chosen_on="locomotion",
    ),
)


def usual_agent(preset: str, bonus: str | None) -> str:
    """The name of the agent where none is asked for: the preset's; the paper's, which takes any, where a bonus is named that
    the preset's does not take."""
    usual = USUAL_AGENT.get(preset, PAPER_AGENT)
    offers = BONUSES[bonus].traits.offers if bonus in BONUSES else frozenset()  # of `auto` or one's own, nothing is known yet
    return usual if bonus is None or AGENTS[usual].traits.requires <= offers else PAPER_AGENT


def usual_bonus(preset: str, agent: str) -> str:
    """The name of the bonus where none is asked for."""
    return USUAL_BONUS.get((preset, agent)) or choose(AGENTS, agent, "agent")().traits.usual_bonus


def rules_for(preset: str, agent: str, bonus: str, task: Task | None) -> list[Rule]:
    """Those that hold, in their order: what a later one sets goes before."""
    here = {"preset": preset, "agent": agent, "bonus": bonus, "group": task.group if task else None}
    return [rule for rule in RULES if all(_admits(getattr(rule, name), value) for name, value in here.items())]


def _admits(wanted: str | tuple[str, ...], value: str | None) -> bool:
    return value in wanted if isinstance(wanted, tuple) else wanted in (ANY, value)


def explanations(
    preset: str,
    agent: str,
    bonus: str,
    task: Task | None,
    asked: Mapping[str, Any],
    measured: Mapping[str, float] | None = None,
) -> list[str]:
    """What the kind of task has decided, and where the weights are from, in words; not where the user has asked for some.

    `measured` are those that `--bonus auto` has multiplied already.
    """
    said = [*whose_settings(preset, agent, asked), *of_its_own_paper(preset, agent, bonus, task, asked)]
    rules = _rules_of_weights(preset, agent, bonus, task, asked)
    if not rules:
        return said
    values, deciding = _spelled(rules, measured or {}), rules[-1]
    if task is not None and deciding.group != ANY:
        said.append(f"{values}: the paper's for {task.group} such as {task.name}")
    if _is_elsewhere(deciding, task):
        said.append(
            f"{values}: the preset's, chosen on {deciding.chosen_on}; what is best here is not known. Train with a third and "
            "with three times as much too, each with a --run-dir of its own, and compare: tether report, or without a simulator "
            "tether select"
        )
    if deciding.chosen_with not in (ANY, bonus) and not measured:
        said = said or [f"{values}: the preset's, chosen on {deciding.chosen_on}"]
        said.append(
            f"they were chosen for {deciding.chosen_with}; `tether bonus DATASET` tells what to multiply them by for others"
        )
    return said


def whose_settings(preset: str, agent: str, asked: Mapping[str, Any]) -> list[str]:
    """With `paper`: of which paper an agent has its settings, and whose its steps are; nothing of td3, whose paper it is."""
    if preset != "paper" or agent == PAPER_AGENT:
        return []
    paper = PAPERS.get(agent)
    if paper is None:
        whose, steps = f"{agent} has settings of its own, of no paper", "TD3-CVAE's, for want of its own"
    else:
        whose = f"{agent} has the settings of {paper.authors} (docs/agents/{agent}.md says what differs)"
        steps = "its authors' program's" if paper.steps else "TD3-CVAE's: its authors have no number for a log"
    return [f"preset paper: {whose}" + ("" if "training.steps" in asked else f"; training.steps are {steps}")]


def of_its_own_paper(preset: str, agent: str, bonus: str, task: Task | None, asked: Mapping[str, Any]) -> list[str]:
    """A line for each rule of a kind of task that is not about weights of a bonus: what a baseline has on it alone."""
    if task is None:
        return []
    rules = [rule for rule in rules_for(preset, agent, bonus, task) if rule.group != ANY and not rule.settings.keys() & WEIGHTS]
    left = [{name: value for name, value in rule.settings.items() if name not in asked} for rule in rules]
    spelled = [", ".join(f"{name} {value}" for name, value in settings.items()) for settings in left if settings]
    return [f"{settings}: {agent}'s own paper's for {task.group} such as {task.name}" for settings in spelled]


def guessed_weights(preset: str, agent: str, bonus: str, task: Task | None, asked: Mapping[str, Any]) -> str:
    """Those that were chosen on tasks of another kind, and where; empty if there are none."""
    rules = _rules_of_weights(preset, agent, bonus, task, asked)
    return f"{_spelled(rules, {})}, chosen on {rules[-1].chosen_on}" if rules and _is_elsewhere(rules[-1], task) else ""


def _rules_of_weights(preset: str, agent: str, bonus: str, task: Task | None, asked: Mapping[str, Any]) -> list[Rule]:
    """None where there is no bonus to weigh, or the user has weighed it."""
    if bonus == "none" or asked.keys() & WEIGHTS:
        return []
    return [rule for rule in rules_for(preset, agent, bonus, task) if rule.settings.keys() & WEIGHTS]


def _spelled(rules: Iterable[Rule], measured: Mapping[str, float]) -> str:
    weights = {name: value for rule in rules for name, value in rule.settings.items() if name in WEIGHTS}
    return " and ".join(f"{name} {value:g}" for name, value in (weights | dict(measured)).items())


def _is_elsewhere(rule: Rule, task: Task | None) -> bool:
    return rule.chosen_on != ANY and (task is None or task.group != rule.chosen_on)

"""Agents, by the name that `--agent` takes."""

from tether import registry
from tether.agents.base import Agent, AgentTraits, critic_steps, refresh_period, with_known
from tether.bonuses import BONUSES, Bonus
from tether.errors import TetherError
from tether.extending import add_installed
from tether.types import Spec

AGENTS = add_installed(registry.load_all(registry.AGENTS), "agent")

__all__ = [
    "AGENTS",
    "Agent",
    "AgentTraits",
    "check_actions",
    "check_bonus",
    "check_kind_of_actions",
    "critic_steps",
    "refresh_period",
    "with_known",
]


def check_actions(agent: Agent, spec: Spec) -> None:
    """Refuse an agent that cannot learn actions of that kind."""
    check_kind_of_actions(agent, spec.discrete)


def check_kind_of_actions(agent: Agent, discrete: bool, dataset: str = "the dataset") -> None:
    """The same where no more than their kind is known."""
    kind = "discrete" if discrete else "continuous"
    if kind not in agent.traits.actions:
        others = " or ".join(name for name, member in AGENTS.items() if kind in member.traits.actions)
        raise TetherError(f"{dataset} has {kind} actions, which {type(agent).__name__} cannot learn; choose agent {others}")


def check_bonus(agent: Agent, bonus: Bonus) -> None:
    """Refuse a bonus that does not offer what the agent requires of it."""
    required = agent.traits.requires
    missing = sorted(required - bonus.traits.offers)
    if missing:
        able = ", ".join(name for name, kind in BONUSES.items() if required <= kind.traits.offers)
        raise TetherError(
            f"{type(agent).__name__} requires {' and '.join(missing)} of its bonus, which {type(bonus).__name__} does not offer; "
            f"choose one of {able} (what others make of the data can still be looked at: tether bonus)"
        )

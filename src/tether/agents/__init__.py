"""Agents, by the name that `--agent` takes."""

from typing import Any

from tether.agents.base import Agent
from tether.agents.bc import BC
from tether.agents.dqn import DQN
from tether.agents.td3 import TD3
from tether.errors import TetherError
from tether.types import Spec

AGENTS: dict[str, type[Any]] = {"td3": TD3, "dqn": DQN, "bc": BC}

__all__ = ["AGENTS", "BC", "DQN", "TD3", "Agent", "check_actions"]


def check_actions(agent: Agent, spec: Spec) -> None:
    """Refuse an agent that cannot learn actions of that kind."""
    kind = "discrete" if spec.discrete else "continuous"
    if kind not in agent.action_kinds:
        others = " or ".join(name for name, member in AGENTS.items() if kind in member.action_kinds)
        raise TetherError(f"the dataset has {kind} actions, which {type(agent).__name__} cannot learn; choose agent {others}")

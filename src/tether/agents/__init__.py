"""Agents, by the name that `--agent` takes."""

from tether.agents.base import Agent
from tether.agents.bc import BC
from tether.agents.td3 import TD3

AGENTS: dict[str, type] = {"td3": TD3, "bc": BC}

__all__ = ["AGENTS", "BC", "TD3", "Agent"]

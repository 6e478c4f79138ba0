"""The names of all agents and bonuses, and where each is.

One line here makes a new one known everywhere: to `--agent` and `--bonus`, to help, to `tether.NAME`, to saved files and to the
contract tests. Importing this imports none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

AGENTS = {
    "tethered": "tether.agents.tethered:Tethered",
    "td3": "tether.agents.td3:TD3",
    "td3-bc": "tether.agents.td3_bc:TD3BC",
    "rebrac": "tether.agents.rebrac:ReBRAC",
    "spot": "tether.agents.spot:SPOT",
    "iql": "tether.agents.iql:IQL",
    "sac": "tether.agents.sac:SAC",
    "cql": "tether.agents.cql:CQL",
    "brac-p": "tether.agents.brac:BRACp",
    "brac-v": "tether.agents.brac:BRACv",
    "bcq": "tether.agents.bcq:BCQ",
    "bear": "tether.agents.bear:BEAR",
    "awr": "tether.agents.awr:AWR",
    "dqn": "tether.agents.dqn:DQN",
    "bc": "tether.agents.bc:BC",
}

BONUSES = {
    "cvae": "tether.bonuses.cvae:CVAE",
    "rnd": "tether.bonuses.rnd:RND",
    "rnd-film": "tether.bonuses.rnd_film:RNDFiLM",
    "count": "tether.bonuses.count:Count",
    "count-exact": "tether.bonuses.count_exact:CountExact",
    "classifier": "tether.bonuses.classifier:Classifier",
    "forward": "tether.bonuses.forward:Forward",
    "density": "tether.bonuses.density:Density",
    "none": "tether.bonuses.none:NoBonus",
}


def load(address: str) -> Any:
    """What stands at `module:name`."""
    module, name = address.split(":")
    return getattr(import_module(module), name)


def load_all(addresses: dict[str, str]) -> dict[str, type[Any]]:
    return {name: load(address) for name, address in addresses.items()}

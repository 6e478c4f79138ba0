"""Tether: offline reinforcement learning by anti-exploration.

>>> import tether
>>> dataset = tether.load_dataset("halfcheetah-mixed-tether")        # doctest: +SKIP
>>> agent = tether.Tethered()                                        # doctest: +SKIP
>>> bonus = tether.fit(tether.usual_bonus(agent), dataset)           # doctest: +SKIP
>>> policy = tether.train(agent, dataset, bonus, steps=60_000)       # doctest: +SKIP
>>> tether.evaluate(policy, episodes=10)["score"]                # doctest: +SKIP
>>> policy.save("halfcheetah.safetensors")                            # doctest: +SKIP
>>> tether.load_policy("halfcheetah.safetensors")(observation)        # doctest: +SKIP

Names are imported when they are first used, so that `tether --help` does not wait for JAX.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tether import registry

if TYPE_CHECKING:
    from tether.api import evaluate, fit, register_agent, register_bonus, train, usual_bonus
    from tether.data import Dataset, load_dataset
    from tether.data.arrays import dataset
    from tether.data.files.writing import save_dataset
    from tether.data.transforms import concatenate, filter_by_return, split_episodes, subsample
    from tether.errors import TetherError
    from tether.policies import Policy, load_policy
    from tether.selection.commands import select, verdict
    from tether.types import Batch, Spec

__all__ = [
    "Batch",
    "Dataset",
    "Policy",
    "Spec",
    "TetherError",
    "concatenate",
    "dataset",
    "evaluate",
    "filter_by_return",
    "fit",
    "load_dataset",
    "load_policy",
    "register_agent",
    "register_bonus",
    "save_dataset",
    "select",
    "split_episodes",
    "subsample",
    "train",
    "usual_bonus",
    "verdict",
]
_HOMES = {
    "tether.api": ("evaluate", "fit", "register_agent", "register_bonus", "train", "usual_bonus"),
    "tether.data": ("Dataset", "load_dataset"),
    "tether.data.arrays": ("dataset",),
    "tether.data.files.writing": ("save_dataset",),
    "tether.data.transforms": ("concatenate", "filter_by_return", "split_episodes", "subsample"),
    "tether.errors": ("TetherError",),
    "tether.policies": ("Policy", "load_policy"),
    "tether.selection.commands": ("select", "verdict"),
    "tether.types": ("Batch", "Spec"),
}
_ADDRESSES = {name: f"{module}:{name}" for module, names in _HOMES.items() for name in names}
_ADDRESSES |= {address.split(":")[1]: address for address in (*registry.AGENTS.values(), *registry.BONUSES.values())}


def __getattr__(name: str) -> Any:
    if name not in _ADDRESSES:
        raise AttributeError(f"module 'tether' has no attribute {name!r}")
    return registry.load(_ADDRESSES[name])


def __dir__() -> list[str]:
    return sorted(_ADDRESSES)

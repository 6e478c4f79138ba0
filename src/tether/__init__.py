"""Tether: offline reinforcement learning by anti-exploration.

>>> import tether
>>> dataset = tether.load_dataset("halfcheetah-medium-tether")        # doctest: +SKIP
>>> bonus = tether.fit(tether.CVAE(), dataset)                   # doctest: +SKIP
>>> policy = tether.train(tether.TD3(), dataset, bonus, steps=50_000)  # doctest: +SKIP
>>> tether.evaluate(policy, episodes=10)["score"]                # doctest: +SKIP
>>> policy.save("halfcheetah.safetensors")                            # doctest: +SKIP
>>> tether.load_policy("halfcheetah.safetensors")(observation)        # doctest: +SKIP

Names are imported when they are first used, so that `tether --help` does not wait for JAX.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tether.agents import BC, DQN, TD3
    from tether.api import evaluate, fit, train
    from tether.bonuses import CVAE, RND, Classifier, Count, CountExact, Forward, NoBonus, RNDFiLM
    from tether.data import Dataset, load_dataset
    from tether.data.files.writing import save_dataset
    from tether.data.transforms import concatenate, filter_by_return, split_episodes, subsample
    from tether.errors import TetherError
    from tether.policy import Policy, load_policy
    from tether.types import Batch, Spec

_HOMES = {
    "BC": "tether.agents",
    "DQN": "tether.agents",
    "TD3": "tether.agents",
    "CVAE": "tether.bonuses",
    "RND": "tether.bonuses",
    "RNDFiLM": "tether.bonuses",
    "Classifier": "tether.bonuses",
    "Count": "tether.bonuses",
    "CountExact": "tether.bonuses",
    "Forward": "tether.bonuses",
    "NoBonus": "tether.bonuses",
    "Dataset": "tether.data",
    "concatenate": "tether.data.transforms",
    "filter_by_return": "tether.data.transforms",
    "load_dataset": "tether.data",
    "save_dataset": "tether.data.files.writing",
    "split_episodes": "tether.data.transforms",
    "subsample": "tether.data.transforms",
    "TetherError": "tether.errors",
    "Policy": "tether.policy",
    "load_policy": "tether.policy",
    "Batch": "tether.types",
    "Spec": "tether.types",
    "evaluate": "tether.api",
    "fit": "tether.api",
    "train": "tether.api",
}
__all__ = [
    "BC",
    "CVAE",
    "DQN",
    "RND",
    "TD3",
    "Batch",
    "Classifier",
    "Count",
    "CountExact",
    "Dataset",
    "Forward",
    "NoBonus",
    "Policy",
    "RNDFiLM",
    "Spec",
    "TetherError",
    "concatenate",
    "evaluate",
    "filter_by_return",
    "fit",
    "load_dataset",
    "load_policy",
    "save_dataset",
    "split_episodes",
    "subsample",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tether' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)

"""A trained policy to ship: one file that carries everything acting needs, and a function from observations to actions."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from tether import storage
from tether.bonuses import BONUSES, FrozenBonus, frozen_template
from tether.networks import Layers, make_network
from tether.policies.base import act, describe, novelty_of, rebuilt
from tether.policies.deterministic import make_deterministic
from tether.policies.greedy import Greedy
from tether.runtime import acting
from tether.runtime.acting import THRESHOLD, Fallback
from tether.runtime.experience import Experience
from tether.runtime.file import KIND, VERSION, read_policy_file, spell_policy
from tether.settings import from_named
from tether.types import Spec, spec_to_json


@dataclass(frozen=True)
class Policy:
    """`policy(observation)` gives the action, for one observation `(O,)` or a batch `(B, O)`; discrete actions are whole numbers.

    An image may keep its own shape instead of being flat. A policy of imported data (`tether data import`) knows its columns: a
    dict of them, a DataFrame or a structured array may have them in any order.
    """

    actor: Any  # one of `tether.policies.POLICIES`
    spec: Spec
    about: dict[str, Any] = field(default_factory=dict)  # where it comes from: dataset, run, step, env_id
    experience: Experience | None = None  # what its data was like; without it, nothing is known of familiarity

    def __repr__(self) -> str:
        return spell_policy(self, type(self.actor).__name__)

    @property
    def columns(self) -> list[str] | None:
        """The names of what it sees, in order; None where they are not known."""
        return acting.columns_of(self)

    def __call__(self, observation: Any) -> Any:
        return acting.action_for(self, observation)

    def act(
        self,
        observation: Any,
        with_familiarity: bool = False,
        *,
        fallback: Fallback | None = None,
        threshold: float = THRESHOLD,
    ) -> Any:
        """The action; with familiarity, `(action, familiarity)`.

        Familiarity is the share of held-out recorded pairs that were at least as unusual as the observation with the action:
        0.5 is ordinary, and nothing is below `experience.smallest`. Below `threshold` a fallback acts instead, if there is one:
        "nearest" (the action recorded at the nearest recorded observation), "error" (`Unfamiliar` is raised), or a function from
        one observation to an action. The familiarity is that of the policy's own action all the same. Columns outside their
        recorded range are warned of by name (`OutsideRange`).
        """
        return acting.answer(self, observation, with_familiarity, fallback, threshold)

    def familiarity(self, observation: Any, action: Any) -> Any:
        """Of any pairs, whoever chose the actions: a number, or `(B,)`."""
        return acting.familiarity_of(self, observation, action)

    def outside(self, observation: Any) -> list[str]:
        """The columns of the observation (or of any of its rows) that are outside their recorded range."""
        return acting.outside(self, observation)

    def predict(
        self, observation: Any, state: None = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[Any, None]:
        """The action and no state, as users and tools of Stable-Baselines3 call a policy. It remembers nothing between calls."""
        return acting.predicted(self, observation, deterministic)

    def rows_to_actions(self, rows: np.ndarray) -> np.ndarray:
        """`(B, O) -> (B, A)`, unchecked; discrete actions are one-hot rows."""
        return np.asarray(act(self.actor, rows))

    def novelty(self, rows: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """The bonus that familiarity comes from, `(B,)`, unchecked."""
        return np.asarray(novelty_of(self._bonus, rows, actions))

    @cached_property
    def _bonus(self) -> FrozenBonus:
        experience = acting.experience_of(self)
        template = frozen_template(from_named(experience.bonus, BONUSES, "bonus"), self.spec)
        state = storage.unflatten_tree(template.state, dict(experience.state), any_length=True)
        return FrozenBonus(template.bonus, state, self.spec)

    def save(self, path: str | Path) -> None:
        metadata = {
            "kind": KIND,
            "version": str(VERSION),
            "spec": json.dumps(spec_to_json(self.spec)),
            "policy": json.dumps(describe(self.actor)),
            "about": json.dumps(self.about),
        }
        tensors = storage.flatten_tree(self.actor)
        if self.experience is not None:
            metadata["familiarity"] = self.experience.metadata()
            tensors |= self.experience.tensors()
        storage.write_tensors(path, tensors, metadata)


def load_policy(path: str | Path) -> Policy:
    """The policy that `Policy.save` wrote, or that of a run folder."""
    read = read_policy_file(path)
    template = rebuilt(read.description) if read.description is not None else _before_descriptions(read.spec, read.metadata)
    actor = storage.unflatten_tree(template, read.tensors, any_length=True)
    return Policy(actor, read.spec, read.about, read.experience)


def _before_descriptions(spec: Spec, metadata: dict[str, str]) -> Any:
    """The template of a file from when policies were deterministic or greedy, and had one network of a few known shapes."""
    shape, key = json.loads(metadata["shape"]), jax.random.key(0)
    layers = Layers(tuple(shape["hidden_sizes"]), tuple(shape["activations"]), "first" if shape["layer_norm"] else "none")
    if not spec.discrete:
        return eqx.filter_eval_shape(make_deterministic, key, spec, layers)
    network = eqx.filter_eval_shape(make_network, key, spec, 0, layers, spec.action_size)
    if "bonus" not in metadata:
        return Greedy(network)
    penalty = frozen_template(from_named(json.loads(metadata["bonus"]), BONUSES, "bonus"), spec)
    return Greedy(network, penalty, jax.ShapeDtypeStruct((), np.float32))  # type: ignore[arg-type]

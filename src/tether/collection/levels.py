"""The levels of D4RL's recipe: which policies fill a dataset, and with how many rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import gymnasium
import numpy as np

from tether.collection.as_needed import OnlineTraining
from tether.collection.history import Evaluation, History
from tether.collection.online import OnlineSettings, chooser, generator, spec_of
from tether.collection.recording import Choose, Recorder, Recording, joined, noisy, step_all, uniform
from tether.data.files.writing import check_writable, write_d4rl
from tether.environments.making import bare_id, make_environment
from tether.environments.tasks import find_task
from tether.environments.vectors import environment_spec
from tether.errors import TetherError
from tether.progress import progress
from tether.settings import to_plain
from tether.types import Spec

Level: TypeAlias = Literal["random", "medium", "medium-replay", "medium-expert", "mixed"]

MEDIUM_SHARE = 1 / 3  # of the reference return: D4RL's "approximately 1/3 the performance of the expert"
EXPERT_SHARE = 0.9
MIXED_SHARES = (1 / 4, 1 / 2, 1.0)  # of the target return: a mixed log has a poor policy, a middling one and a good one
TRANSITIONS = 1_000_000  # as D4RL's locomotion datasets have


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what a dataset holds. `complete` fills in what is None."""

    online: OnlineSettings
    level: Level = "medium"
    transitions: int | None = None  # medium-replay has as many as the training took
    target_return: float | None = None  # evaluated return from which on a policy is medium
    expert_return: float | None = None  # the same for expert; where none is known, the best policy is the expert
    online_steps: int = 1_000_000  # the most that training may take
    noise: float = 0.1  # on recorded actions, in half action ranges; where they are discrete, the share of random ones
    compact: bool = False  # leave out the successors

    def __post_init__(self) -> None:
        if self.transitions is not None and self.transitions < 2:
            raise TetherError(f"--transitions is {self.transitions}; it must be at least 2")
        if self.level == "medium-replay" and self.transitions is not None:
            raise TetherError("medium-replay has as many transitions as the training took; leave out --transitions")
        if not self.noise >= 0:
            raise TetherError(f"--noise is {self.noise}; it must not be negative")
        first = self.online.evaluate_every
        if self.online_steps < first:
            raise TetherError(f"--online-steps is {self.online_steps:,}, but the first evaluation is after {first:,} steps")


class Source(NamedTuple):
    """What filled some of the rows."""

    rows: int
    online_steps: int  # of training behind the policy; 0 for the uniform one
    policy_return: float  # evaluated without noise; of the uniform policy, the mean of its recorded episodes


Collected: TypeAlias = tuple[Recording, list[Source]]


def complete(recipe: Recipe) -> Recipe:
    """The recipe with every value that its level needs, from the reference return of the environment's task if not given."""
    if recipe.level != "medium-replay" and recipe.transitions is None:
        recipe = replace(recipe, transitions=TRANSITIONS)
    if recipe.level == "random":
        return recipe
    task = find_task(recipe.online.env_id)
    if recipe.target_return is None:
        if task is None:
            raise TetherError(f"no reference return is known for {recipe.online.env_id}; say what is medium with --target-return")
        recipe = replace(recipe, target_return=MEDIUM_SHARE * task.score_100)
    if recipe.level == "medium-expert" and recipe.expert_return is None and task is not None:
        recipe = replace(recipe, expert_return=EXPERT_SHARE * task.score_100)
    medium, expert = recipe.target_return, recipe.expert_return
    if medium is not None and expert is not None and expert <= medium:
        raise TetherError(f"--expert-return is {expert:,.1f}; it must be above --target-return, which is {medium:,.1f}")
    return recipe


def collect_dataset(recipe: Recipe, out: Path, work: Path, show_progress: bool = True) -> Recording:
    """Make the dataset of a complete recipe and write it to `out`. `work` keeps the training, if the level needs one."""
    online = recipe.online
    environment = make_environment(online.env_id)
    try:
        spec = spec_of(environment, online.env_id)
        check_writable(out)
        if recipe.level == "random":
            recording, sources = _random(recipe, environment, show_progress)
        else:
            history = History(work, online, spec)
            training = OnlineTraining(online, recipe.online_steps, environment, spec, history, show_progress)
            recording, sources = _FROM_TRAINING[recipe.level](recipe, training)
    finally:
        environment.close()
    attributes = _provenance(recipe, recording, sources) | _bounds(recipe, spec)
    write_d4rl(out, recording.transitions, recording.truncated, spec, attributes, recipe.compact)
    return recording


def _random(recipe: Recipe, environment: gymnasium.Env, show_progress: bool) -> Collected:
    assert recipe.transitions is not None
    rng = generator(recipe.online.seed, "random")
    choose = uniform(rng, environment_spec(environment))
    recording = _record(environment, choose, recipe.transitions, rng, "recording uniform actions", show_progress)
    return recording, [Source(recording.size, 0, float(np.mean(recording.episode_returns)))]


def _medium(recipe: Recipe, training: OnlineTraining) -> Collected:
    assert recipe.transitions is not None
    return _of_policy(recipe, training, _medium_policy(recipe, training), recipe.transitions, "medium")


def _medium_replay(recipe: Recipe, training: OnlineTraining) -> Collected:
    medium = _medium_policy(recipe, training)
    return training.history.replay(medium.step), [Source(medium.step, medium.step, medium.mean)]


def _medium_expert(recipe: Recipe, training: OnlineTraining) -> Collected:
    assert recipe.transitions is not None
    medium = _medium_policy(recipe, training)
    expert = training.best() if recipe.expert_return is None else training.first_reaching(recipe.expert_return, "--expert-return")
    half = recipe.transitions // 2
    parts = [
        _of_policy(recipe, training, medium, half, "medium"),
        _of_policy(recipe, training, expert, recipe.transitions - half, "expert"),
    ]
    return joined([recording for recording, _ in parts]), [source for _, sources in parts for source in sources]


def _mixed(recipe: Recipe, training: OnlineTraining) -> Collected:
    """A log as plants have them: of several policies, poor and good."""
    assert recipe.transitions is not None
    assert recipe.target_return is not None
    shares = len(MIXED_SHARES)
    rows = [recipe.transitions * (part + 1) // shares - recipe.transitions * part // shares for part in range(shares)]
    policies = [training.first_reaching(share * recipe.target_return, "--target-return") for share in MIXED_SHARES]
    counts: dict[int, int] = {}  # one policy may be the first to reach two of the returns: its rows are recorded at once
    for policy, count in zip(policies, rows, strict=True):
        counts[policy.step] = counts.get(policy.step, 0) + count
    parts = [
        _of_policy(recipe, training, policy, counts[policy.step], f"step {policy.step:,}")
        for policy in {policy.step: policy for policy in policies}.values()
    ]
    return joined([recording for recording, _ in parts]), [source for _, sources in parts for source in sources]


_FROM_TRAINING = {"medium": _medium, "medium-replay": _medium_replay, "medium-expert": _medium_expert, "mixed": _mixed}


def _medium_policy(recipe: Recipe, training: OnlineTraining) -> Evaluation:
    assert recipe.target_return is not None
    return training.first_reaching(recipe.target_return, "--target-return")


def _of_policy(recipe: Recipe, training: OnlineTraining, evaluation: Evaluation, rows: int, name: str) -> Collected:
    """What the policy of that evaluation does, with the recipe's noise."""
    rng = generator(recipe.online.seed, "record", evaluation.step)
    policy = chooser(training.history.policy(evaluation.step))
    choose = noisy(policy, rng, recipe.noise, training.spec)
    recording = _record(training.environment, choose, rows, rng, f"recording the {name} policy", training.show_progress)
    return recording, [Source(rows, evaluation.step, evaluation.mean)]


def _record(
    environment: gymnasium.Env, choose: Choose, rows: int, rng: np.random.Generator, title: str, show_progress: bool
) -> Recording:
    recorder = Recorder(environment, rows, seed=int(rng.integers(2**31)))
    with progress(title, rows, enabled=show_progress) as bar:
        while recorder.size < rows:
            step_all([recorder], choose)
            if recorder.size % 500 == 0:
                bar.update(recorder.size)
        bar.update(rows)
    return recorder.finish()


def _bounds(recipe: Recipe, spec: Spec) -> dict[str, Any]:
    """Those of the actions where a reader cannot find them: a file never names the module that registers an environment."""
    if spec.discrete or recipe.online.env_id == bare_id(recipe.online.env_id):
        return {}
    return {"action_low": np.array(spec.action_low, np.float64), "action_high": np.array(spec.action_high, np.float64)}


def _provenance(recipe: Recipe, recording: Recording, sources: list[Source]) -> dict[str, Any]:
    """Attributes of the file. Those of the sources have one entry per source, in the order of the rows."""
    return {
        "env_id": bare_id(recipe.online.env_id),  # a file never names a module
        "level": recipe.level,
        "seed": recipe.online.seed,
        "source_rows": [source.rows for source in sources],
        "online_steps": [source.online_steps for source in sources],
        "policy_return": [source.policy_return for source in sources],
        "mean_episode_return": float(np.mean(recording.episode_returns)),
        "options": to_plain(recipe),
        "generator": "tether collect",
        **{f"{name}_version": version(package) for name, package in _PACKAGES.items()},
    }


_PACKAGES = {"tether": "tether-rl", "gymnasium": "gymnasium", "mujoco": "mujoco", "jax": "jax"}

"""The notebook's way in: the same parts as `tether train`, with nothing written to disk but what is asked for."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from tether import settings
from tether.agents import AGENTS, Agent, critic_steps
from tether.bonuses import BONUSES, Bonus, NoBonus
from tether.config import EvaluationConfig, TrainingConfig, make_config
from tether.data.dataset import Dataset
from tether.data.rewards import normalise_rewards, order_kept, scaling_warning
from tether.environments.scores import normalised_score
from tether.errors import TetherError
from tether.evaluation.rollout import evaluate as run_episodes
from tether.evaluation.rollout import name_of
from tether.extending import register
from tether.policies import Policy, act
from tether.progress import progress
from tether.training.divergence import ImpossibleValues, check_finite
from tether.training.familiarity import with_experience
from tether.training.fit import FittedBonus, cache_folder, fit_bonus
from tether.training.lesson import Lesson, check_lesson

OnEpoch = Callable[[int, dict[str, float], Policy], bool | None]  # step, mean metrics, the policy as it is now; True: stop


def register_agent(name: str, kind: type) -> None:
    """Make an agent of your own known in this process under a name: to configurations, files and commands."""
    register(AGENTS, name, kind, "agent")


def register_bonus(name: str, kind: type) -> None:
    """The same of a bonus."""
    register(BONUSES, name, kind, "bonus")


def fit(bonus: Bonus, dataset: Dataset, *, cache: bool = True, show: bool = False) -> FittedBonus:
    """Fit a bonus to a dataset; the same fit is taken from the cache where it has been made before."""
    _check_part(bonus, "bonus", BONUSES)
    _check_dataset(dataset)
    settings.check(bonus, "bonus")
    with progress("fitting the bonus", max(bonus.steps, 1), enabled=show) as bar:
        return fit_bonus(bonus, dataset, cache_folder() if cache else None, lambda step, record: bar.update(step, **record))


def usual_bonus(agent: Agent) -> Bonus:
    """The bonus that `tether train` gives this kind of agent, with its settings, ready to be fitted."""
    _check_part(agent, "agent", AGENTS)
    name = next((name for name, kind in AGENTS.items() if kind is type(agent)), None)
    if name is None:
        raise TetherError(
            f"{type(agent).__name__} is of no registered kind; tether.register_agent makes it known, or choose a bonus"
        )
    return make_config("", agent=name).bonus


def train(
    agent: Agent,
    dataset: Dataset,
    bonus: FittedBonus | None = None,
    *,
    steps: int = TrainingConfig.steps,
    seed: int = 0,
    policy: str | None = None,
    on_epoch: OnEpoch | None = None,
    epoch_steps: int = TrainingConfig.log_every,
    reward_scaling: str | None = None,
    reward_penalty: float = TrainingConfig.reward_penalty,
    show: bool = False,
) -> Policy:
    """Train an agent held to the data by `bonus` (none: nothing holds it) and return its policy.

    Rewards are scaled here, in the agent's own way unless `reward_scaling` says `range`, `divide`, `returns` or `none`
    (`tether.data.rewards.normalise_rewards`); give the dataset as it was loaded. `policy` is one of the agent's, its main one
    if not given. `on_epoch` is called every `epoch_steps` steps, for one's own metrics or evaluations; where it returns True,
    training ends there and the policy is the one that it was given. With a bonus, the policy can say how familiar an
    observation is (`Policy.act`).
    """
    _check_part(agent, "agent", AGENTS)
    _check_dataset(dataset)
    if bonus is not None and not isinstance(bonus, FittedBonus):
        _check_part(bonus, "bonus", BONUSES)
        raise TetherError(f"the bonus is not fitted yet; give tether.fit({type(bonus).__name__}(…), dataset)")
    settings.check(agent, "agent")
    check_lesson(agent, dataset, bonus)
    period = critic_steps(agent)
    for told, number, least in (("steps", steps, 1), ("epoch_steps", epoch_steps, 1), ("seed", seed, 0)):
        if not isinstance(number, int | np.integer) or number < least:
            raise TetherError(f"{told} is {number!r}; it takes a whole number, at least {least}")
    if min(steps, epoch_steps) % period or steps % min(steps, epoch_steps):
        raise TetherError(f"steps ({steps}) must be a multiple of epoch_steps ({epoch_steps}), and both of {period}")
    name = policy or agent.traits.main_policy
    if name not in agent.traits.policies:
        raise TetherError(f"the agent has no policy {name!r}; it has {', '.join(agent.traits.policies)}")
    scaled, scale = normalise_rewards(dataset, reward_scaling or agent.traits.reward_scaling)
    warning = scaling_warning(dataset, scale, order_kept(dataset, scale, agent.discount), "reward_scaling")
    if warning:
        warnings.warn(warning, stacklevel=2)
    beyond = ImpossibleValues(scaled.transitions, agent, reward_penalty)
    with (
        closing(Lesson(agent, scaled, bonus, seed, steps, reward_penalty)) as lesson,
        progress("training", steps, enabled=show) as bar,
    ):
        for epoch in lesson.epochs(lesson.fresh(), 0, min(steps, epoch_steps)):
            has_bonus = bonus is not None and not isinstance(bonus.bonus, NoBonus)
            check_finite(epoch, agent, TrainingConfig.value_limit, dataset.name, has_bonus=has_bonus)
            if impossible := beyond(epoch):
                warnings.warn(impossible, stacklevel=2)
            bar.update(epoch.step, **epoch.metrics)
            if on_epoch is not None or epoch.step == steps:
                found = lesson.policy(epoch.state, name, epoch.step, dataset.env_id)
            if on_epoch is not None and on_epoch(epoch.step, epoch.metrics, found):
                break
    return with_experience(found, bonus, dataset)


def _check_part(part: Any, what: str, registry: Mapping[str, type]) -> None:
    """Refuse a name, or a class of which no instance was made."""
    if isinstance(part, str):
        kind = settings.choose(registry, part, what).__name__
        raise TetherError(f"the {what} is the name {part!r}; give the {what} itself, tether.{kind}()")
    if isinstance(part, type) or not dataclasses.is_dataclass(part):
        names = ", ".join(f"tether.{kind.__name__}()" for kind in registry.values())
        hint = f"; make one: {part.__name__}()" if isinstance(part, type) else f"; there is {names}"
        raise TetherError(f"the {what} is {part!r}{hint}")


def _check_dataset(dataset: Any) -> None:
    if isinstance(dataset, str | Path):
        raise TetherError(f"the dataset is the name {str(dataset)!r}; load it first: tether.load_dataset({str(dataset)!r})")
    if not isinstance(dataset, Dataset):
        raise TetherError(f"the dataset is a {type(dataset).__name__}; give what tether.load_dataset gives")


def evaluate(
    policy: Policy,
    env: str | gymnasium.Env | None = None,
    *,
    env_id: str | None = None,
    episodes: int = 10,
    seed: int = EvaluationConfig.seed,
) -> dict[str, Any]:
    """Episodes of the policy in the real environment: raw returns, lengths, and normalised scores where a reference is known.

    `env` is an environment, its id, or `module:ID` for one that the module registers (`env_id` is the same by its former name);
    without it, the one that the policy's dataset names.
    """
    env = env if env is not None else env_id
    if env is None:
        env = policy.about.get("env_id")
        if env is None:
            raise TetherError("the policy's dataset names no environment; give env")
        if ":" in env:  # a file of somebody else's must not have code run
            raise TetherError(f"the policy names the environment {env!r} of a module; give it as env, and the module is run")
    env_id = env if isinstance(env, str) else name_of(env)
    acting = lambda observation: np.asarray(act(policy.actor, observation))  # noqa: E731
    results = run_episodes(acting, policy.spec, env, episodes, seed, policy.about.get("observation_parts"))
    scores = normalised_score(results.returns, env_id)
    return {
        "env_id": env_id,
        "returns": results.returns,
        "lengths": results.lengths,
        "mean_return": float(results.returns.mean()),
        "score": None if scores is None else float(np.mean(scores)),
        "scores": scores,
    }

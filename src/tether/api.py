"""The notebook's way in: the same parts as `tether train`, with nothing written to disk but what is asked for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np

from tether.agents import Agent, check_actions
from tether.bonuses import Bonus, FrozenBonus, NoBonus
from tether.config import EvaluationConfig, TrainingConfig
from tether.data.dataset import Dataset
from tether.data.provenance import imported_columns
from tether.data.transforms import normalise_rewards
from tether.environments.scores import normalised_score
from tether.errors import TetherError
from tether.evaluation.rollout import evaluate as run_episodes
from tether.optimisation import copy_of
from tether.policy import Policy, act
from tether.progress import progress
from tether.runs.metrics import check_finite
from tether.training.fit import FittedBonus, cache_folder, fit_bonus
from tether.training.loop import initial_state, run_keys
from tether.training.sources import Rows

OnEpoch = Callable[[int, dict[str, float], Policy], None]  # step, mean metrics, the policy as it is now


def fit(bonus: Bonus, dataset: Dataset, *, cache: bool = True, show: bool = False) -> FittedBonus:
    """Fit a bonus to a dataset; the same fit is taken from the cache where it has been made before."""
    with progress("fitting the bonus", max(bonus.steps, 1), enabled=show) as bar:
        return fit_bonus(bonus, dataset, cache_folder() if cache else None, lambda step, record: bar.update(step, **record))


def train(
    agent: Agent,
    dataset: Dataset,
    bonus: FittedBonus | None = None,
    *,
    steps: int = TrainingConfig.steps,
    seed: int = 0,
    policy: str = EvaluationConfig.policy,
    on_epoch: OnEpoch | None = None,
    epoch_steps: int = TrainingConfig.log_every,
    show: bool = False,
) -> Policy:
    """Train an agent held to the data by `bonus` (none: nothing holds it) and return its policy.

    Rewards are scaled here (`tether.data.transforms.normalise_rewards`); give the dataset as it was loaded. `policy` is online,
    target or ema. `on_epoch` is called every `epoch_steps` steps, for metrics or evaluations of one's own.
    """
    if steps < 1 or epoch_steps < 1 or min(steps, epoch_steps) % agent.critic_steps or steps % min(steps, epoch_steps):
        raise TetherError(f"steps ({steps}) must be a multiple of epoch_steps ({epoch_steps}), and both of {agent.critic_steps}")
    if bonus is not None and bonus.spec != dataset.spec:
        raise TetherError(f"the bonus was fitted for {bonus.spec}, the dataset has {dataset.spec}")
    check_actions(agent, dataset.spec)
    scaled, _ = normalise_rewards(dataset)
    kind, bonus_state = (NoBonus(), ()) if bonus is None else (bonus.bonus, bonus.state)
    state = initial_state(agent, bonus_state, dataset.spec, seed)
    penalty = FrozenBonus(bonus_state, kind)
    _chosen(agent, state.agent, penalty, policy)  # a policy that is not there is found out now, not after the training
    _, key = run_keys(seed)
    about: dict[str, Any] = {
        "dataset": dataset.name,
        "dataset_sha256": dataset.sha256,
        "env_id": dataset.env_id,
        "policy": policy,
    }
    columns = imported_columns(dataset.provenance)
    about |= {} if columns is None else {"columns": columns}
    epoch_steps = min(steps, epoch_steps)
    with closing(Rows(scaled.transitions)) as rows, progress("training", steps, enabled=show) as bar:
        for step in range(epoch_steps, steps + 1, epoch_steps):
            state, device_metrics = rows.train(agent, kind, state, key, epoch_steps // agent.critic_steps)
            metrics = {name: float(value) for name, value in device_metrics.items()}
            check_finite(metrics, state.agent, TrainingConfig.value_limit, step, dataset.name, None)
            bar.update(step, **metrics)
            if on_epoch is not None:
                on_epoch(
                    step, metrics, Policy(_chosen(agent, state.agent, penalty, policy), dataset.spec, about | {"step": step})
                )
    return Policy(_chosen(agent, state.agent, penalty, policy), dataset.spec, about | {"step": steps})


def evaluate(
    policy: Policy, env_id: str | None = None, *, episodes: int = 10, seed: int = EvaluationConfig.seed
) -> dict[str, Any]:
    """Episodes of the policy in the real environment: raw returns, lengths, and normalised scores where a reference is known."""
    env_id = env_id or policy.about.get("env_id")
    if env_id is None:
        raise TetherError("the policy's dataset names no environment; give env_id")
    results = run_episodes(lambda observation: np.asarray(act(policy.actor, observation)), policy.spec, env_id, episodes, seed)
    scores = normalised_score(results.returns, env_id)
    return {
        "env_id": env_id,
        "returns": results.returns,
        "lengths": results.lengths,
        "mean_return": float(results.returns.mean()),
        "score": None if scores is None else float(np.mean(scores)),
        "scores": scores,
    }


def _chosen(agent: Agent, state: Any, penalty: FrozenBonus, policy: str) -> Any:
    policies = agent.policies(state, penalty)
    if policy not in policies:
        raise TetherError(f"the agent has no policy {policy!r}; it has {', '.join(policies)}")
    # A copy: the state it belongs to is donated to the next epoch.
    return copy_of(policies[policy])

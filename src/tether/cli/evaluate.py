"""`tether evaluate`: the policies of a run, in the real environment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tether.evaluation.rollout import EpisodeResults


def evaluate(
    run: Path,
    /,
    episodes: int = 10,
    seed: int = 20_000,
    policy: str | None = None,
    render: Path | None = None,
    json: bool = False,
) -> None:
    """Evaluate a run's policies anew, finished or interrupted, and show their scores.

    Examples:
        tether evaluate runs/halfcheetah-mixed-tether-tethered-density-s0
        tether evaluate runs/halfcheetah-mixed-tether-tethered-density-s0 --episodes 100 --seed 7
        tether evaluate runs/halfcheetah-mixed-tether-tethered-density-s0 --render halfcheetah.gif

    Args:
        run: The run's folder.
        episodes: How many, all at once.
        seed: Of the first episode's start; episode i starts from seed + i. Training evaluates from 10,000 on: other starts.
        policy: Only this one, by its name in the table. Default: all that the agent has.
        render: Record one episode of the policy (the run's own unless --policy names another) as a GIF.
        json: Print one JSON object, with the raw returns, instead of a table.
    """
    from tether.errors import TetherError, did_you_mean
    from tether.evaluation.render import check_film, record_episode
    from tether.evaluation.rollout import Evaluator
    from tether.policies import act
    from tether.runs import checkpoint

    if seed < 0:
        raise TetherError(f"--seed is {seed}; it must not be negative")
    if render is not None:
        check_film(render)
    if not run.is_dir():
        raise TetherError(f"there is no run folder {run}")
    state, bonus, step, progress = checkpoint.read_agent(run)
    env_id, config = progress.env_id, progress.config
    if env_id is None:
        raise TetherError(f"{run} names no environment to evaluate in; train with --set evaluation.env_id=ENV_ID")
    policies = config.agent.policies(state, bonus)
    if policy is not None and policy not in policies:
        raise TetherError(f"{run} has no policy {policy}{did_you_mean(policy, policies)}")
    wanted = {name: actor for name, actor in policies.items() if policy in (None, name)}
    evaluator = Evaluator(env_id, progress.spec, episodes, seed)
    try:
        results = {name: evaluator(lambda seen, actor=actor: act(actor, seen)) for name, actor in wanted.items()}  # type: ignore[misc]
    finally:
        evaluator.close()
    own = policy or config.policy
    _show(run, step, env_id, results, own, seed, json)
    if render is not None:
        actor = policies[own]
        total = record_episode(lambda observation: act(actor, observation), env_id, progress.spec, render, seed)
        if not json:
            print(f"{render}: one episode of the {own} policy, return {total:.1f}")


def _show(run: Path, step: int, env_id: str, results: dict[str, EpisodeResults], own: str, seed: int, as_json: bool) -> None:
    from json import dumps

    from tether.environments.scores import normalised_score
    from tether.evaluation.stats import summarise

    found: dict[str, dict[str, Any]] = {}
    for name, result in results.items():
        scores = normalised_score(result.returns, env_id)
        found[name] = {
            "returns": result.returns.tolist(),
            "lengths": result.lengths.tolist(),
            "return": summarise(result.returns),
            "score": None if scores is None else summarise(scores),
        }
    if as_json:
        print(dumps({"run": str(run), "step": step, "env_id": env_id, "seed": seed, "policy": own, "policies": found}, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    episodes = len(next(iter(results.values())).returns)
    title = f"{run} at step {step:,}: {episodes} episodes of {env_id} from seed {seed:,}, mean ± std over episodes"
    table = Table("policy", title=title, title_justify="left")
    for column in ("normalised score", "return", "episode length"):
        table.add_column(column, justify="right")
    for name, facts in found.items():
        score = "no reference" if facts["score"] is None else f"{facts['score']['mean']:.1f} ± {facts['score']['std']:.1f}"
        returned = f"{facts['return']['mean']:.1f} ± {facts['return']['std']:.1f}"
        length = sum(facts["lengths"]) / episodes
        table.add_row(f"{name} (the run's)" if name == own else name, score, returned, f"{length:.0f}")
    Console().print(table)

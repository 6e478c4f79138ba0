"""`tether train`: one run, or one a seed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

if TYPE_CHECKING:
    from tether.config import RunConfig

Settings = Annotated[tuple[tuple[str, ...], ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME=VALUE ...")]


def train(
    dataset: str,
    agent: str = "td3",
    bonus: str = "cvae",
    preset: Literal["paper", "quick"] = "paper",
    steps: int | None = None,
    seed: int = 0,
    seeds: str | None = None,
    run_dir: Path | None = None,
    set: Settings = (),
    data_on_disk: bool = False,
    dry_run: bool = False,
) -> None:
    """Train a policy from a dataset, evaluate it on the way, and keep the run.

    Run the same command again and a finished run is left alone; an interrupted one goes on from its last checkpoint and ends
    exactly as an unbroken one would. Settings not named here are changed with --set: all are listed below, and --dry-run shows
    them as the run would have them.

    Examples:
        tether train --dataset halfcheetah-medium-tether --preset quick
        tether train --dataset hopper_medium-v2.hdf5 --seeds 0,1,2 --run-dir runs/hopper
        tether train --dataset hopper-medium-v2 --set agent.bonus_weight_actor=10 agent.bonus_weight_critic=10
        tether train --dataset halfcheetah-medium-tether --agent td3 --bonus none --set training.value_limit=inf
        tether train --dataset minari:mujoco/hopper/medium-v0
        tether train --dataset cartpole.hdf5 --agent dqn --bonus rnd --set agent.bonus_weight=100 training.steps=20000
        tether train --dataset halfcheetah-medium-tether --dry-run

    Args:
        dataset: A dataset: a name (see `tether data list`), a path to an HDF5 file in the D4RL layout, or minari:ID.
        agent: What learns: td3 or bc; for discrete actions dqn or bc.
        bonus: What holds it to the data: cvae, rnd, rnd-film, classifier, forward, or none; for dqn also count and count-exact.
        preset: paper is 500,000 steps; quick is 50,000 with the bonus fitted as long as in the paper.
        steps: Critic gradient steps, in place of the preset's.
        seed: Of the agent's weights and batches. The bonus has its own (bonus.seed), so that seeds share one fit.
        seeds: Several seeds, such as 0,1,2: one run each, one after the other.
        run_dir: The run's folder; with --seeds, the folder of their folders. Default: runs/DATASET-AGENT-BONUS-sSEED.
        set: Any other setting, such as agent.discount=0.98. Bonus weights default to the paper's for the task's group.
        data_on_disk: Leave the rows on disk and read them as they are drawn, as is done anyway where they do not fit in memory.
        dry_run: Print the resolved settings, grouped, and stop.
    """
    from tether import settings
    from tether.config import make_config, settings_of
    from tether.training.run import open_dataset, run

    overrides = dict(settings.parse(text) for group in set for text in group)
    if steps is not None:
        overrides["training.steps"] = str(steps)
    # The data's own task decides the bonus weights, also where it is evaluated elsewhere or not at all.
    loaded = open_dataset(dataset, True if data_on_disk else None)
    env_id = loaded.env_id or overrides.get("evaluation.env_id")
    numbers = _read_seeds(seeds) if seeds is not None else [seed]
    configs = [make_config(dataset, env_id, agent, bonus, preset, number, overrides) for number in numbers]
    if dry_run:
        for group, values in settings_of(configs[0]).items():
            print(f"{group}:")
            for name, value in values.items():
                print(f"  {name} = {value}")
        return
    _say_weights(configs[0], env_id, overrides)
    name = f"{loaded.name}-{agent}-{bonus}"
    results = []
    for config in configs:
        if seeds is None:
            folder = run_dir or Path("runs") / f"{name}-s{config.seed}"
        else:
            folder = (run_dir or Path("runs") / name) / f"s{config.seed}"
        results.append((folder, run(config, folder, dataset=loaded)))
    _print_table(results)


def _say_weights(config: RunConfig, env_id: str | None, overrides: dict[str, str]) -> None:
    """Where the weights of the bonus come from, unless the user has set them."""
    from tether.agents import TD3
    from tether.bonuses import CVAE, NoBonus
    from tether.environments.tasks import find_task

    task, agent = find_task(env_id), config.agent
    if task is None or not isinstance(agent, TD3) or isinstance(config.bonus, NoBonus):
        return
    if any(name.startswith("agent.bonus_weight_") for name in overrides):
        return
    weights = f"{agent.bonus_weight_actor:g} (actor) and {agent.bonus_weight_critic:g} (critic)"
    print(f"bonus weights: {weights}, the paper's for {task.group} such as {task.name}")
    if not isinstance(config.bonus, CVAE):
        print("they were chosen for its CVAE; `tether bonus DATASET` tells what to multiply them by for other bonuses")


def settings_help() -> str:
    """Every setting that --set takes, grouped, with its default and what it is."""
    from dataclasses import fields

    from tether import settings
    from tether.config import REGISTRIES, EvaluationConfig, TrainingConfig

    groups = [(f"{group} {name}", group, kind) for group, members in REGISTRIES.items() for name, kind in members.items()]
    groups += [("training", "training", TrainingConfig), ("evaluation", "evaluation", EvaluationConfig)]
    lines = ["settings (--set NAME=VALUE ...) and their defaults:"]
    for heading, group, kind in groups:
        if fields(kind):
            lines.append(f"\n{heading}:")
        for name, default, comment in settings.described(kind):
            lines.append(f"  {f'{group}.{name}':28} {default:9} {comment}".rstrip())
    return "\n".join(lines)


def _read_seeds(text: str) -> list[int]:
    from tether.errors import TetherError

    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise TetherError(f"--seeds is {text!r}; it takes whole numbers with commas between, such as 0,1,2") from None
    if len({*numbers}) != len(numbers):
        raise TetherError(f"--seeds is {text!r}; a seed is named twice")
    return numbers


def _print_table(results: list[tuple[Path, dict]]) -> None:
    from rich.console import Console

    from tether.report.tables import rich_table, run_row, seeds_row
    from tether.runs.reading import read_run

    runs = [read_run(folder) for folder, _ in results]
    if any(run.result is None or run.result["score"] is None for run in runs):
        print("not evaluated: there is no environment to do it in; name one with --set evaluation.env_id=ENV_ID")
        return
    rows = [run_row(str(run.path), run) for run in runs]
    unit = results[0][1]["score_unit"]
    title = f"{unit} score, mean ± std over episodes" if unit == "normalised" else "return, mean ± std over episodes"
    Console().print(rich_table(rows, title=title, heading="run"))
    if len(runs) > 1:
        Console().print(rich_table([seeds_row("all seeds", runs)], title="mean ± std over the means of the seeds", heading="run"))

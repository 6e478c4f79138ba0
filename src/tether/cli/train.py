"""`tether train`: one run, or one a seed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

LEAST_TO_JUDGE = 5_000  # steps of a run that is judged unasked: as many as judging it takes

Settings = Annotated[tuple[tuple[str, ...], ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME=VALUE ...")]


def train(
    dataset: str,
    agent: str | None = None,
    bonus: str | None = None,
    preset: str = "tether",
    steps: int | None = None,
    seed: int = 0,
    seeds: str | None = None,
    run_dir: Path | None = None,
    set: Settings = (),
    data_on_disk: bool = False,
    extend: bool = False,
    dry_run: bool = False,
    wandb: str | None = None,
    verdict: Literal["auto", "yes", "no"] = "auto",
) -> None:
    """Train a policy from a dataset, evaluate it on the way, and keep the run.

    Run the same command again and a finished run is left alone; an interrupted one goes on from its last checkpoint and ends
    exactly as an unbroken one would. Settings not named here are changed with --set: all are listed below, and --dry-run shows
    them as the run would have them.

    Examples:
        tether train --dataset halfcheetah-mixed-tether
        tether train --dataset hopper_medium-v2.hdf5 --seeds 0,1,2 --run-dir runs/hopper
        tether train --dataset hopper-medium-v2 --preset paper --set agent.bonus_weight_actor=10
        tether train --dataset halfcheetah-mixed-tether --agent td3 --bonus none --set training.value_limit=inf
        tether train --dataset minari:mujoco/hopper/medium-v0
        tether train --dataset mine.hdf5 --bonus auto
        tether train --dataset mine.hdf5 --steps 1000000 --extend
        tether train --dataset cartpole.hdf5 --agent dqn --bonus rnd --set agent.bonus_weight=100 training.steps=20000
        tether train --dataset halfcheetah-mixed-tether --dry-run

    Args:
        dataset: A dataset: a name (see `tether data list`), a path to an HDF5 file in the D4RL layout, or minari:ID.
        agent: What learns: one of the agents listed below. Default: tethered; td3 with the paper's presets, and where a bonus is
            named that tethered cannot take.
        bonus: What holds it to the data: one of the bonuses listed below. Default: the usual one of preset and agent: density, or
            cvae with the paper's presets. auto: short fits of all that the agent can take, and the one that tells
            actions apart and leads to the data, with reasons.
        preset: tether is our own, 60,000 steps; paper is the paper's, 500,000 steps, and for baselines their own papers', with as
            many steps as their authors' programs have; quick is the paper's in 50,000 with the bonus fitted as long.
        steps: Critic gradient steps, in place of the preset's.
        seed: Of the agent's weights and batches. The bonus has its own (bonus.seed), so that seeds share one fit.
        seeds: Several seeds, such as 0,1,2: one run each, one after the other.
        run_dir: The run's folder; with --seeds, the folder of their folders. Default: runs/DATASET-AGENT-BONUS-sSEED.
        set: Any other setting, such as agent.discount=0.98. Bonus weights are the preset's, the paper's by the task's group.
        data_on_disk: Leave the rows on disk and read them as they are drawn, as is done anyway where they do not fit in memory.
        extend: The run is there already with fewer steps, finished or not: go on to --steps, to the same end as if it had been so
            long from the start.
        dry_run: Print the resolved settings, grouped, and stop.
        wandb: A project of Weights & Biases to log to as well (needs the extra wandb). WANDB_MODE=offline sends nothing.
        verdict: End with what is known without a simulator, as `tether verdict` tells it. auto: where there is no environment to
            evaluate in, after 5,000 steps or more.
    """
    from dataclasses import asdict
    from functools import partial

    from tether import settings, storage
    from tether.bonuses import BONUSES
    from tether.config import make_config, settings_of
    from tether.data import locate
    from tether.environments.tasks import find_task
    from tether.presets import WEIGHTS, explanations, usual_agent
    from tether.training.run import run

    agent = agent or usual_agent(preset, bonus)
    overrides = dict(settings.parse(text) for group in set for text in group)
    if steps is not None:
        overrides["training.steps"] = str(steps)
    numbers = _read_seeds(seeds) if seeds is not None else [seed]
    data, choice, asked = None, None, overrides
    if bonus == "auto":
        from tether.cli.auto import take_bonus

        data = locate(dataset)
        taken = take_bonus(data, dataset, agent, preset, overrides, dry_run)
        if taken is None:
            return
        choice, overrides = taken
        bonus = choice.name
    make = partial(make_config, dataset, agent=agent, bonus=bonus, preset=preset, overrides=overrides)
    first = make(seed=numbers[0])  # what is wrong with the settings is found out before anything is read
    bonus = settings.to_named(first.bonus, BONUSES)["name"]
    data = data or locate(dataset)
    # The data's own task decides the bonus weights, also where it is evaluated elsewhere or not at all.
    env_id = data.env_id or overrides.get("evaluation.env_id")
    configs = [make(env_id=env_id, seed=number) for number in numbers]
    if dry_run:
        for group, values in settings_of(configs[0]).items():
            print(f"{group}:")
            for name, value in values.items():
                print(f"  {name} = {value}")
        return
    multiplied = {each: float(overrides[each]) for each in WEIGHTS & overrides.keys() - asked.keys()}
    notes = explanations(preset, agent, bonus, find_task(env_id), asked, multiplied)

    def say_notes() -> None:
        while notes:  # once, however many seeds there are
            print(notes.pop(0))

    name = f"{data.name}-{agent}-{bonus if choice is None else 'auto'}"
    results = []
    for config in configs:
        if seeds is None:
            folder = run_dir or Path("runs") / f"{name}-s{config.seed}"
        else:
            folder = (run_dir or Path("runs") / name) / f"s{config.seed}"
        on_disk = True if data_on_disk else None
        result = run(config, folder, data=data, on_disk=on_disk, wandb=wandb, extend=extend, on_start=say_notes)
        results.append((folder, result))
        if choice is not None:
            storage.write_json(folder / "bonus-choice.json", asdict(choice))
    _print_table(results)
    if verdict != "no":
        for config, (folder, result) in zip(configs, results, strict=True):
            if verdict == "yes" or (result["score"] is None and config.training.steps >= LEAST_TO_JUDGE):
                _print_verdict(folder, dataset)


def settings_help() -> str:
    """Every setting that --set takes, grouped, with its default and what it is."""
    from dataclasses import fields

    from tether import settings
    from tether.config import REGISTRIES, EvaluationConfig, TrainingConfig

    groups = [(f"{group} {name}", group, kind) for group, members in REGISTRIES.items() for name, kind in members.items()]
    groups += [("training", "training", TrainingConfig), ("evaluation", "evaluation", EvaluationConfig)]
    lines = [f"{'agents' if group == 'agent' else 'bonuses'}: {', '.join(members)}" for group, members in REGISTRIES.items()]
    lines.append("\nsettings (--set NAME=VALUE ...) and their defaults:")
    for heading, group, kind in groups:
        if fields(kind):
            lines.append(f"\n{heading}:")
        for name, default, comment in settings.described(kind):
            lines.append(f"  {f'{group}.{name}':34} {default:11} {comment}".rstrip())
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


def _print_verdict(folder: Path, dataset: str) -> None:
    """The run's, made unless it is there. A log of which nothing can be said does not make the run fail."""
    from tether import storage
    from tether.errors import TetherError
    from tether.selection.commands import judge_run
    from tether.selection.verdict import spell

    try:
        if not (folder / "verdict.json").exists():
            judge_run(folder, log=dataset)
        print(spell(storage.read_json(folder / "verdict.json")))
    except TetherError as error:
        print(f"no verdict: {error}")


def _print_table(results: list[tuple[Path, dict]]) -> None:
    from rich.console import Console

    from tether.report.tables import rich_table, run_row, seeds_row
    from tether.runs.reading import read_run

    runs = [read_run(folder) for folder, _ in results]
    top = results[0][0] if len(results) == 1 else results[0][0].parent
    print(f"{top}: policy, curves.png, metrics.jsonl; for the same live, tensorboard --logdir {top} (pip install tensorboard)")
    if any(run.result is None or run.result["score"] is None for run in runs):
        print("not evaluated: there is no environment to do it in; name one with --set evaluation.env_id=ENV_ID")
        return
    rows = [run_row(str(run.path), run) for run in runs]
    unit = results[0][1]["score_unit"]
    title = f"{unit} score, mean ± std over episodes" if unit == "normalised" else "return, mean ± std over episodes"
    Console().print(rich_table(rows, title=title, heading="run"))
    if len(runs) > 1:
        Console().print(rich_table([seeds_row("all seeds", runs)], title="mean ± std over the means of the seeds", heading="run"))

"""`tether finetune`: go on from a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import tyro

Settings = Annotated[tuple[tuple[str, ...], ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME=VALUE ...")]


def finetune(
    run: Path,
    /,
    env: str | None = None,
    log: str | None = None,
    steps: int = 20_000,
    run_dir: Path | None = None,
    seed: int | None = None,
    dataset: str | None = None,
    environments: int | None = None,
    updates_per_step: float | None = None,
    log_share: float | None = None,
    anneal: int | None = None,
    noise: float | None = None,
    warmup: int | None = None,
    turn: int | None = None,
    fresh: bool = False,
    set: Settings = (),
) -> None:
    """Go on learning from a finished run: in an environment, or with a new log behind the run's own.

    With --env the policy acts in the environment and learns from what comes and from the log, half and half, while the bonus
    weights fall to zero. Runs of tethered, td3, td3-bc and sac can. With --log any run can: the bonus is fitted to both logs, and
    training goes on. The run itself is left as it is: the new one has a folder of its own, whose curves begin with those of the
    old. Stopped, the same command goes on where it was.

    Examples:
        tether finetune runs/hopper --env Hopper-v4
        tether finetune runs/hopper --env Hopper-v4 --steps 50000 --environments 4 --anneal 10000 --noise 0.05
        tether finetune runs/hopper --env Hopper-v4 --updates-per-step 4 --log-share 0.25
        tether finetune runs/hopper --env Hopper-v4 --fresh --log-share 0 --run-dir runs/hopper-from-nothing
        tether finetune runs/plant --log this-week.hdf5 --steps 20000

    Args:
        run: The folder of a finished run with its checkpoint.
        env: The environment to learn in: a Gymnasium id, of the run's own task.
        log: The log to append: a name (see `tether data list`), a path to an HDF5 file in the D4RL layout, or minari:ID.
        steps: With --env, steps of the environment that are learnt from as they come; with --log, critic steps more.
        run_dir: The new run's folder. Default: beside the run's, with -online, or -with- and the log's name, behind its name.
        seed: Of batches, noise and episodes. Default: the run's.
        dataset: Where the run's data is now, if it is not where it was.
        environments: How many are stepped together, with one call of the policy. Default: 1.
        updates_per_step: Critic steps for each step of the environment. Default: 1.
        log_share: Share of each batch that is from the run's data; the rest is from the environment. Default: 0.5.
        anneal: Steps of the environment over which the bonus weights fall to zero; 0: at once. Default: half of --steps.
        noise: Standard deviation of the noise on actions, in half action ranges. Default: 0.1; for sac, which draws them, 0.
        warmup: Steps of the environment before the first update. Default: 1,000; with --fresh of uniform actions.
        turn: Steps of the environment between one round of updates and the next. Default: 100, or the nearest that divides.
        fresh: Start from fresh weights instead, without a bonus, to see what the run was worth.
        set: Settings of agent, training and evaluation to change, such as agent.learning_rate_actor=1e-4.
    """
    from tether import settings
    from tether.errors import TetherError
    from tether.finetuning.going_on import Wishes, go_on_online, go_on_with_log
    from tether.finetuning.start import read_start

    online = {
        "environments": environments,
        "updates_per_step": updates_per_step,
        "log_share": log_share,
        "anneal_steps": anneal,
        "exploration_noise": noise,
        "warmup": warmup,
        "turn": turn,
        "fresh": fresh or None,
    }
    given: dict[str, Any] = {name: value for name, value in online.items() if value is not None}
    if (env is None) == (log is None):
        raise TetherError("give one of --env ENV_ID, to learn in an environment, and --log FILE, to learn from a new log as well")
    if log is not None and given:
        flags = {"anneal_steps": "anneal", "exploration_noise": "noise"}
        named = ", ".join(f"--{flags.get(name, name).replace('_', '-')}" for name in given)
        raise TetherError(f"{named}: for learning in an environment (--env), not from a log")
    overrides = dict(settings.parse(text) for group in set for text in group)
    for name in ("training.steps", "evaluation.env_id"):
        if name in overrides and (env is not None or name == "training.steps"):
            raise TetherError(f"{name} is set by {'--steps' if name == 'training.steps' else '--env'} here")
    start = read_start(run, dataset, overrides)
    if env is not None:
        folder = run_dir or _beside(run, "from-nothing" if fresh else "online")
        _refuse_itself(run, folder)
        result = go_on_online(start, Wishes(env, steps, **given), folder, seed)
    else:
        assert log is not None
        folder = run_dir or _beside(run, f"with-{Path(log).stem.replace(':', '-')}")
        _refuse_itself(run, folder)
        result = go_on_with_log(start, log, steps, folder, seed)
    _print_scores(folder, result, start.step)


def _beside(run: Path, what: str) -> Path:
    """`runs/hopper-online` of `runs/hopper`; of one of several seeds, `runs/hopper/s0`, it is `runs/hopper-online/s0`."""
    import re

    whole = run if run.name not in ("", "..") else run.resolve()
    if re.fullmatch(r"s\d+", whole.name):
        return whole.parent.with_name(f"{whole.parent.name}-{what}") / whole.name
    return whole.with_name(f"{whole.name}-{what}")


def _refuse_itself(run: Path, folder: Path) -> None:
    from tether.errors import TetherError

    if run.resolve() == folder.resolve():
        raise TetherError(f"--run-dir is {folder}, the run to go on from; that one is left as it is, so choose another")


def _print_scores(folder: Path, result: dict, start_step: int) -> None:
    import numpy as np

    from tether.runs.reading import read_run

    done = read_run(folder)
    if result["score"] is None:
        print("not evaluated: there is no environment to do it in; name one with --set evaluation.env_id=ENV_ID")
        return
    steps, scores = done.scores() or done.returns()
    unit = "score" if result["score_unit"] == "normalised" else "return"
    means = {int(step): float(np.mean(episodes)) for step, episodes in zip(steps, scores, strict=True)}
    later = {step: mean for step, mean in means.items() if step > start_step}
    if done.config.get("start") and start_step in means and later:
        lowest = min(later, key=lambda step: later[step])
        since = f"lowest since {later[lowest]:.1f} (step {lowest:,}); now {later[max(later)]:.1f}"
        print(f"{unit} at the start {means[start_step]:.1f}; {since}")
    else:
        print(f"{unit} now {means[max(means)]:.1f}")
    print(f"the run is in {folder}")

"""`tether collect`: make a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Literal


def collect(
    env_id: str,
    /,
    out: Path,
    level: Literal["random", "medium", "medium-replay", "medium-expert", "mixed"] = "medium",
    transitions: int | None = None,
    seed: int = 0,
    target_return: float | None = None,
    expert_return: float | None = None,
    online_steps: int = 1_000_000,
    noise: float = 0.1,
    exploration_noise: float = 0.1,
    warmup: int = 10_000,
    evaluate_every: int = 5_000,
    episodes: int = 5,
    hidden_sizes: tuple[int, int] = (128, 128),
    batch_size: int = 128,
    compact: bool = False,
    work: Path | None = None,
    overwrite: bool = False,
) -> None:
    """Make a dataset by D4RL's recipe: train online, then record what the policies do.

    TD3 is trained, or DQN where actions are discrete.

    Levels:
        random         uniform actions, no training
        medium         the first policy that reaches a third of the expert's return
        medium-replay  everything the training saw until then
        medium-expert  half medium, half the first policy that reaches 0.9 of the expert's return
        mixed          a third each: the first policies that reach a quarter, half and all of medium's return

    The training is kept in a folder. Stopped, the same command goes on with it; done, other levels use it by --work.

    Examples:
        tether collect Hopper-v5 --out hopper-medium.hdf5
        tether collect Hopper-v5 --out hopper-medium-replay.hdf5 --level medium-replay --work hopper-medium.hdf5.work
        tether collect CartPole-v1 --out cartpole.hdf5 --target-return 200 --transitions 20000 --noise 0.02 --warmup 1000
        tether collect Pusher-v5 --out pusher.hdf5 --target-return -60 --transitions 100000 --compact

    Args:
        env_id: A Gymnasium environment: vectors as observations and bounded vectors or choices (Discrete) as actions, or MinAtar.
        out: The HDF5 file to write, in the D4RL layout.
        level: How good the recorded policies are.
        transitions: Rows to record; 1,000,000 if not given. medium-replay has as many as the training took.
        seed: Of everything random.
        target_return: The evaluated return that makes a policy medium; a third of D4RL's expert if not given.
        expert_return: The same for expert; 0.9 of D4RL's expert if not given, or the best policy where no reference is known.
        online_steps: The most steps that training may take.
        noise: Standard deviation of the noise on recorded actions, in half action ranges; the share of random choices.
        exploration_noise: The same while training.
        warmup: Steps of uniform actions before training starts.
        evaluate_every: Steps between evaluations, each of which keeps the policy and saves the training.
        episodes: Episodes of each evaluation.
        hidden_sizes: Hidden layers of the online agent's networks.
        batch_size: Rows of each of its gradient steps.
        compact: Leave out next_observations, for about half the size; readers take the next row's observation instead.
        work: The folder that keeps the training; the name of the file with .work added if not given.
        overwrite: Replace the file if it is there.
    """
    import sys
    from dataclasses import replace

    from tether.collection.history import first_difference
    from tether.collection.levels import Recipe, collect_dataset, complete
    from tether.collection.online import OnlineSettings, online_agent
    from tether.data.files.attributes import read_provenance
    from tether.errors import TetherError

    agent = replace(online_agent(env_id), hidden_sizes=hidden_sizes, batch_size=batch_size)
    online = OnlineSettings(env_id, seed, warmup, exploration_noise, evaluate_every, episodes, agent)
    recipe = complete(Recipe(online, level, transitions, target_return, expert_return, online_steps, noise, compact))
    work = out.with_name(f"{out.name}.work") if work is None else work
    if out.is_file() and not overwrite:
        options = read_provenance(out).get("options")
        difference = "by other means" if options is None else first_difference(options, recipe)
        if difference:
            raise TetherError(f"{out} is there already, made {difference}; give another --out, or --overwrite")
        print(f"{out} is there already, made with these options; left as it is (--overwrite makes it anew)")
        return
    try:
        recording = collect_dataset(recipe, out, work)
    except KeyboardInterrupt:
        if work.is_dir():
            print(f"the training so far is kept in {work}; the same command goes on with it", file=sys.stderr)
        raise
    returns = recording.episode_returns
    print(f"{out}: {recording.size:,} transitions, {out.stat().st_size / 1e6:.1f} MB")
    print(f"{len(returns):,} episodes with a return of {returns.mean():,.1f} ± {returns.std():,.1f}")
    if level != "random":
        print(f"the training is in {work}: other levels can use it (--work), else delete it")

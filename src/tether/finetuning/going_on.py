"""The two ways to go on from a run, from what was asked for to the finished run. All that can be wrong is found out first."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tether.agents import AGENTS, check_actions, critic_steps
from tether.bonuses import ANCHOR
from tether.config import OnlineConfig, RunConfig, check
from tether.data import Located
from tether.data.provenance import recorded_parts
from tether.environments.making import make_environment
from tether.environments.vectors import environment_spec
from tether.errors import TetherError
from tether.finetuning.appended import append_log, same_task
from tether.finetuning.crew import Crew
from tether.finetuning.online import ACTOR, OnlineLesson
from tether.finetuning.start import Start, located, materialised
from tether.optimisation import restarted
from tether.training.preparing import Beginning, Materials
from tether.training.run import run
from tether.types import spell_actions

Say = Callable[[str], None]
NOISE = 0.1  # of exploration, where the policy does not draw its actions itself
TURN = 100  # steps of the environments before the updates for them, or the nearest that divides
WARMUP = 1_000


@dataclass(frozen=True)
class Wishes:
    """What was asked for of learning online; None is left to `online_config`."""

    env_id: str
    steps: int
    environments: int = 1
    updates_per_step: float = 1.0
    log_share: float = 0.5
    anneal_steps: int | None = None
    exploration_noise: float | None = None
    warmup: int | None = None
    turn: int | None = None
    fresh: bool = False  # from fresh weights, to compare with


def go_on_online(
    start: Start, wishes: Wishes, folder: Path, seed: int | None = None, show: bool = True, say: Say = print
) -> dict[str, Any]:
    """Learn in an environment from where the run is, the data still at hand. Gives the content of `result.json`."""
    _check_agent(start.config, wishes.fresh)
    _check_environment(start, wishes.env_id)
    config = online_config(start, wishes, seed)
    online = config.online
    assert online is not None
    if wishes.fresh:
        say("from fresh weights, to compare with: of the run only its settings, data and scale of rewards are used")
    before = start.config.evaluation.env_id or start.data.env_id
    if before not in (online.env_id, "none", None) and not wishes.fresh:
        say(f"note: evaluations until step {start.step:,} were in {before}; from there on they are in {online.env_id}")
    say(
        f"{online.warmup + online.steps:,} steps in {online.env_id}, {online.environments} at a time; "
        f"{online.log_share:.0%} of each batch is from {start.data.name}; "
        f"the bonus weights fall to 0 over {online.anneal_steps:,} steps"
    )

    def lesson(m: Materials) -> OnlineLesson:
        parts = recorded_parts(m.dataset.provenance)
        crew = Crew(online.env_id, m.dataset.spec, online.environments, online.turn, config.seed, parts)
        return OnlineLesson(config, online, folder, m.dataset, start.bonus.penalty, m.reward_scale, crew, say)

    beginning = Beginning(start.reward_scale, start.bonus, lesson=lesson)
    if not wishes.fresh:
        beginning = _from(start, beginning, config)
    return run(config, folder, show, say, located(materialised(start)), beginning=beginning)


def go_on_with_log(
    start: Start, log: str, steps: int, folder: Path, seed: int | None = None, show: bool = True, say: Say = print
) -> dict[str, Any]:
    """Learn on from the run's data and a new log behind it. Gives the content of `result.json`."""
    config, data, beginning = with_log(start, log, steps, seed, say)
    return run(config, folder, show, say, data, beginning=beginning)


def with_log(
    start: Start, log: str, steps: int, seed: int | None = None, say: Say = print
) -> tuple[RunConfig, Located, Beginning]:
    """What is to be run on both logs, and where it begins.

    The bonus is fitted anew, to both: one that was only fitted further would know the new pairs better than the old, and the
    optimiser of its fit is gone. So the bonus, and what was held out of it, is that of a run on both logs from the start.
    """
    config = replace(_longer(start, steps, seed), start=start.section(log))
    check(config)
    data = located(append_log(materialised(start), log, start.reward_scale, say))
    # Of the fit before, nothing is said in the new run: its own has lines of the same numbers.
    records = tuple(record for record in start.records if "fit_step" not in record)
    beginning = _from(start, Beginning(start.reward_scale), config)
    return config, data, replace(beginning, records=records)


def online_config(start: Start, wishes: Wishes, seed: int | None = None) -> RunConfig:
    """All that decides what is computed, checked."""
    draws = hasattr(start.config.agent.policies(start.state, start.bonus.penalty)[ACTOR], "sample")
    warmup = WARMUP if wishes.warmup is None else wishes.warmup
    anneal = wishes.steps // 2 if wishes.anneal_steps is None else wishes.anneal_steps
    noise = (0.0 if draws else NOISE) if wishes.exploration_noise is None else wishes.exploration_noise
    updates = wishes.steps * wishes.updates_per_step
    if not float(updates).is_integer():
        raise TetherError(
            f"{wishes.steps:,} steps with {wishes.updates_per_step:g} critic steps for each make no whole number of them"
        )
    longer = _longer(start, int(updates), seed, fresh=wishes.fresh)
    online = OnlineConfig(
        env_id=wishes.env_id,
        steps=wishes.steps,
        warmup=warmup,
        environments=wishes.environments,
        turn=wishes.turn or _turn(longer, wishes),
        updates_per_step=wishes.updates_per_step,
        log_share=wishes.log_share,
        anneal_steps=0 if wishes.fresh and wishes.anneal_steps is None else anneal,
        exploration_noise=noise,
    )
    evaluation = replace(longer.evaluation, env_id=wishes.env_id)
    config = replace(longer, evaluation=evaluation, online=online, start=None if wishes.fresh else start.section())
    check(config)
    return config


def _longer(start: Start, steps: int, seed: int | None, fresh: bool = False) -> RunConfig:
    """The run's settings, for so many critic steps more."""
    if steps < 1:
        raise TetherError(f"--steps is {steps}; it must be at least 1")
    training = replace(start.config.training, steps=steps if fresh else start.step + steps)
    return replace(start.config, training=training, seed=start.config.seed if seed is None else seed)


def _turn(config: RunConfig, wishes: Wishes) -> int:
    """The number of steps nearest to `TURN` that makes whole turns in every way; where none does, `check` refuses `TURN`."""
    period, epoch = critic_steps(config.agent), config.epoch_steps
    turns = []
    for updates in range(period, epoch + 1, period):
        turn = updates / wishes.updates_per_step if wishes.updates_per_step > 0 else 0.5
        if epoch % updates == 0 and turn.is_integer() and turn % wishes.environments == 0:
            turns.append(int(turn))
    return min(turns, key=lambda turn: abs(math.log(turn / TURN)), default=TURN)


def _from(start: Start, beginning: Beginning, config: RunConfig) -> Beginning:
    # Of the stretch that a schedule has the length of: the last one, where the run itself went on from another.
    before = 0 if start.config.start is None else start.config.start.step
    share = (config.training.steps - start.step) / (start.step - before)
    return replace(beginning, state=restarted(start.state, share), step=start.step, records=start.records)


def _check_agent(config: RunConfig, fresh: bool) -> None:
    traits = config.agent.traits
    if not traits.annealed:
        able = ", ".join(name for name, kind in AGENTS.items() if kind.traits.annealed)
        raise TetherError(
            f"{type(config.agent).__name__} does not go on online: it has no bonus weights that could fall, or needs more of its "
            f"rows than an environment gives; runs of {able} do. With a new log (--log) every agent goes on"
        )
    if fresh and ANCHOR in traits.requires:
        raise TetherError(
            f"--fresh: {type(config.agent).__name__} starts at what the log did, whatever its weights are, so that would not be "
            "from nothing; compare with a fresh run of td3 (tether finetune RUN_OF_TD3 --fresh)"
        )
    if config.training.reward_penalty > 0:
        raise TetherError("the run subtracts bonuses from recorded rewards (training.reward_penalty); steps that come have none")


def _check_environment(start: Start, env_id: str) -> None:
    """Refuse an environment that is not the run's own: same sizes are not enough, HalfCheetah and Walker2d have them."""
    named = [name for name in (start.data.env_id, start.config.evaluation.env_id) if name not in (None, "", "none")]
    if named and not any(same_task(str(name), env_id) for name in named):
        raise TetherError(f"{env_id} is another task: {start.folder} learnt {named[0]}")
    with closing(make_environment(env_id, start.spec)) as environment:
        here = environment_spec(environment)
    check_actions(start.config.agent, here)
    within = zip(here.action_low, start.spec.action_low, start.spec.action_high, here.action_high, strict=True)
    if not all(lowest <= low and high <= highest for lowest, low, high, highest in within):
        raise TetherError(
            f"{env_id} takes actions of {spell_actions(here)}; the policy of {start.folder} gives {spell_actions(start.spec)}"
        )

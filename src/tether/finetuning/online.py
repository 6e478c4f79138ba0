"""Acting and learning in turns: so many steps of the environments, then the updates for them as one compiled program.

Everything that is drawn comes from the number of the step or of the turn, and the rows from the environments are on disk before
an epoch ends. So a run that was stopped goes on exactly.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tether import storage
from tether.agents import Agent, critic_steps
from tether.bonuses import FrozenBonus
from tether.collection.online import chooser, generator
from tether.collection.recording import Choose, Recording, joined, noisy, uniform
from tether.config import OnlineConfig, RunConfig
from tether.data.dataset import Dataset
from tether.data.rewards import RewardScale
from tether.errors import TetherError
from tether.finetuning.annealing import Annealed, AnnealedState
from tether.finetuning.crew import Crew
from tether.policies import Policy
from tether.training.lesson import MOMENT_ROWS, policy_of
from tether.training.loop import Epoch, agent_epoch, fresh_state, learn, run_keys
from tether.training.sources import Replay, Rows
from tether.types import Batch, Key, Problem

FOLDER = "online"  # of a run: what its environments gave, one file an epoch
ACTOR = "online"  # the policy that acts: the one that learns, and no average of it


class OnlineLesson:
    """A lesson from data and environments. `dataset` has its rewards scaled, by `scale`; so are those that come."""

    def __init__(
        self,
        config: RunConfig,
        online: OnlineConfig,
        folder: Path,
        dataset: Dataset,
        penalty: FrozenBonus,
        scale: RewardScale,
        crew: Crew,
        say: Callable[[str], None] = print,
    ) -> None:
        self.agent: Agent = config.agent
        self.dataset, self.steps, self.penalty = dataset, config.training.steps, penalty
        self._config, self._online, self._folder = config, online, folder / FOLDER
        self._scale, self._crew, self._say = scale, crew, say
        self._first_step = 0 if config.start is None else config.start.step
        self._key_init, self._key = run_keys(config.seed)
        self._rows = Rows(dataset.transitions)
        log = dataset.transitions if online.log_share > 0 else None
        if log is not None and self._rows.streamed:
            raise TetherError(
                f"{dataset.name} does not fit on the device, and learning online draws from it as from memory; take a part of it "
                "(tether data subsample), or --log-share 0"
            )
        self._replay = Replay(online.warmup + online.steps, dataset.spec, log, online.log_share)
        self._turn_steps = round(online.turn * online.updates_per_step)  # critic steps of a turn
        self._learner = Annealed(self.agent, self._first_step, round(online.anneal_steps * online.updates_per_step))
        self._seconds = {"collecting": 0.0, "learning": 0.0}
        self._turns = 0  # of this sitting, from the first that learns on

    def fresh(self) -> Any:
        problem = Problem(self.dataset.spec, self._rows.sample(MOMENT_ROWS), self.steps)
        return fresh_state(self.agent, self._key_init, problem)

    def epochs(self, state: Any, start: int, epoch_steps: int) -> Iterator[Epoch]:
        online, step = self._online, start
        learning = AnnealedState(state, jnp.asarray(start, jnp.int32))
        if step > self._first_step:
            self._restore(step)
        else:
            self._crew.begin()
        while step < self.steps:
            recordings: list[Recording] = []
            metrics: list[dict[str, Any]] = []
            returns: list[float] = []
            while self._replay.size < online.warmup:
                recordings.append(self._collect(learning.agent, returns))
            for _ in range(epoch_steps // self._turn_steps):
                recordings.append(self._collect(learning.agent, returns))
                epoch = self._learn(learning, step)
                learning, step = epoch.state, epoch.step
                metrics.append(epoch.metrics)
            self._save(joined(recordings))
            means = {name: float(np.mean([each[name] for each in metrics])) for name in metrics[0]}
            means["online/environment_steps"] = float(self._replay.size)
            if returns:
                means["online/episode_return"] = float(np.mean(returns))
            yield Epoch(step, learning.agent, means)

    def policy(self, state: Any, name: str, step: int, env_id: str | None) -> Policy:
        return policy_of(self, state, name, step, env_id)

    def account(self) -> dict[str, Any]:
        """Seconds are of the last sitting, without its first turn, which compiles."""
        facts: dict[str, Any] = {"environment_steps": self._replay.size, "episodes": self._crew.episodes}
        return {"online": facts | {f"{what}_seconds": seconds for what, seconds in self._seconds.items()}}

    def close(self) -> None:
        self._rows.close()
        self._crew.close()

    def _learn(self, learning: AnnealedState, step: int) -> Epoch:
        began = time.perf_counter()
        (epoch,) = learn(
            self._learner,
            learning,
            self._replay,
            self._key,
            start=step,
            end=step + self._turn_steps,
            epoch_steps=self._turn_steps,
            stride=critic_steps(self.agent),
            given=(self.penalty,),
            compiled=agent_epoch,
        )
        self._turns += 1
        self._spent("learning", began)
        return epoch

    def _collect(self, state: Any, returns: list[float]) -> Recording:
        """One turn of the environments, into the replay."""
        began, at = time.perf_counter(), self._replay.size
        recording, ended = self._crew.turn(self._choose(state, at))
        self._replay.append(self._as_learnt(recording))
        returns += ended
        self._spent("collecting", began)
        return recording

    def _choose(self, state: Any, at: int) -> Choose:
        """How to act in the turn that begins after `at` steps. A policy that draws its actions explores by drawing."""
        random, spec = generator(self._config.seed, "turn", at), self.dataset.spec
        if self._config.start is None and at < self._online.warmup:
            return uniform(random, spec)
        policy = self.agent.policies(state, self.penalty)[ACTOR]
        choose = chooser(policy)
        if hasattr(policy, "sample"):
            keys = iter(jax.random.split(jax.random.key(int(random.integers(2**31))), self._online.turn))
            choose = lambda observations: np.asarray(_drawn(policy, observations, next(keys)))  # noqa: E731
        return noisy(choose, random, self._online.exploration_noise, spec)

    def _as_learnt(self, recording: Recording) -> Batch:
        rows = recording.transitions
        return rows._replace(reward=self._scale.apply(rows.reward))

    def _save(self, recording: Recording) -> None:
        columns = storage.flatten_tree(recording)
        storage.write_tensors(self._file(self._replay.size), columns, {"steps": str(self._replay.size)})

    def _restore(self, step: int) -> None:
        """The replay and the environments as they were at `step`. Files of steps after it are made again."""
        steps = self._online.warmup + round((step - self._first_step) / self._online.updates_per_step)
        files = [path for path in sorted(self._folder.glob("*.safetensors")) if int(path.stem) <= steps]
        recordings = []
        for path in files:
            tensors, _ = storage.read_tensors(path)
            columns = Batch(*(tensors[f"transitions/{name}"] for name in Batch._fields))
            recordings.append(Recording(columns, tensors["truncated"]))
        recording = joined(recordings) if recordings else None
        if recording is None or recording.size != steps:
            have = 0 if recording is None else recording.size
            raise TetherError(
                f"{self._folder} has {have:,} of the {steps:,} steps that the run had made; it cannot go on from there"
            )
        self._replay.append(self._as_learnt(recording))
        self._crew.restore(recording, self._say)

    def _file(self, steps: int) -> Path:
        return self._folder / f"{steps:09}.safetensors"

    def _spent(self, what: str, began: float) -> None:
        if self._turns > 1:
            self._seconds[what] += time.perf_counter() - began


@jax.jit
def _drawn(policy: Any, observation: jax.Array, key: Key) -> jax.Array:
    return policy.sample(observation, key)

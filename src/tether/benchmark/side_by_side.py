"""Updates per second of several processes at once, each on cores of its own: how should a machine's cores be shared out?

A process is `python -m tether.benchmark.side_by_side JOB`. It compiles, then answers each line of its standard input with what
it measured, so that processes begin each turn together, and two ways to share the cores can take turns.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from tether.cores import available_cores, pin, thread_limits
from tether.errors import TetherError

SEVERAL_SEEDS = (("td3", "cvae"), ("td3", "none"), ("td3-bc", "none"), ("bc", "none"), ("dqn", "none"))
EPOCH, SHORT_EPOCH = 100, 20  # steps; even, for agents of two critic steps an update
LARGE_STEP = 1e9  # operations of a step, from which on epochs are short: turns are of whole epochs
ROWS = 100_000


@dataclass(frozen=True)
class Sharing:
    """One method, measured with the cores together and apart."""

    agent: str
    bonus: str
    cores: int
    together: list[float] = field(default_factory=list)  # steps/s of one process with every core, round by round
    apart: list[float] = field(default_factory=list)  # of a process for each core, in total
    together_cpu: list[float] = field(default_factory=list)  # steps a second that a core is busy with it
    apart_cpu: list[float] = field(default_factory=list)

    @property
    def gain(self) -> float:
        """Of apart over together: the median of the rounds' ratios."""
        return _median_ratio(self.apart, self.together)

    @property
    def cpu_gain(self) -> float:
        """The same for a second of a busy core. What else runs on the machine hardly matters to it. Time in which a thread sleeps
        until another is done is not counted, so that more may be gained."""
        return _median_ratio(self.apart_cpu, self.together_cpu)


def every_agent() -> list[tuple[str, str]]:
    """With its usual bonus, by name; and td3 without one."""
    from tether.agents import AGENTS

    return [("td3", "none"), *((name, kind().traits.usual_bonus) for name, kind in AGENTS.items())]


def compare(methods: Iterable[tuple[str, str]], rounds: int, seconds: float) -> Iterator[Sharing]:
    """Each method as soon as it is measured."""
    cores = available_cores()
    for agent, bonus in methods:
        found = Sharing(agent, bonus, len(cores))
        job = {"agent": {"name": agent}, "bonus": {"name": bonus}, "seconds": seconds}
        with measuring(job, [cores]) as together, measuring(job, [[core] for core in cores]) as apart:
            for _ in range(rounds):
                for measure, rates, cpu in (
                    (together, found.together, found.together_cpu),
                    (apart, found.apart, found.apart_cpu),
                ):
                    answers = measure()
                    rates.append(sum(answer["steps_per_second"] for answer in answers))
                    cpu.append(statistics.mean(answer["steps_per_cpu_second"] for answer in answers))
        yield found


@dataclass(frozen=True)
class Seeds:
    """One method on one core: a run, and a program of several seeds (`training/together.py`)."""

    agent: str
    bonus: str
    seeds: int
    alone: list[float] = field(default_factory=list)  # steps a second that the core is busy, round by round
    together: list[float] = field(default_factory=list)  # the same, of all seeds in total

    @property
    def gain(self) -> float:
        """Of together over alone: the median of the rounds' ratios."""
        return _median_ratio(self.together, self.alone)


def compare_seeds(seeds: int, rounds: int, seconds: float) -> Iterator[Seeds]:
    """Each method as soon as it is measured; the two take turns on one core."""
    core = available_cores()[:1]
    for agent, bonus in SEVERAL_SEEDS:
        found = Seeds(agent, bonus, seeds)
        job = {"agent": {"name": agent}, "bonus": {"name": bonus}, "seconds": seconds}
        with measuring(job, [core]) as alone, measuring(job | {"together": seeds}, [core]) as together:
            for _ in range(rounds):
                found.alone.append(alone()[0]["steps_per_cpu_second"])
                found.together.append(seeds * together()[0]["steps_per_cpu_second"])
        yield found


@contextmanager
def measuring(job: dict[str, Any], cores: Sequence[Sequence[int]]) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """A process for each group of cores; a call measures in all of them at the same time."""
    with ExitStack() as stack:
        processes = []
        for group in cores:
            process = subprocess.Popen(
                [sys.executable, "-m", "tether.benchmark.side_by_side", json.dumps(job | {"cores": list(group)})],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=os.environ | thread_limits(len(group)),
            )
            processes.append(stack.enter_context(process))
            stack.callback(process.kill)
        for process in processes:
            _answer(process)  # compiled and ready

        def measure() -> list[dict[str, Any]]:
            for process in processes:
                print("go", file=process.stdin, flush=True)
            return [_answer(process) for process in processes]

        yield measure


def _median_ratio(over: list[float], under: list[float]) -> float:
    return statistics.median(one / other for one, other in zip(over, under, strict=True))


def _answer(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise TetherError(f"a process that measures speed ended with code {process.wait()}")
    return json.loads(line)


def _serve(job: dict[str, Any]) -> None:
    pin(job["cores"])
    began = time.perf_counter()

    import jax

    from tether.agents import AGENTS, critic_steps, with_known
    from tether.benchmark import flops
    from tether.benchmark.speed import SPEC, awake
    from tether.bonuses import BONUSES, FrozenBonus
    from tether.data.columns import with_blank_columns
    from tether.settings import from_named
    from tether.training.loop import Learner, agent_epoch, fresh_state, learn, run_keys
    from tether.training.sources import Rows
    from tether.training.together import Together
    from tether.types import Problem, discrete_spec, spec_from_json

    agent, bonus = awake(from_named(job["agent"], AGENTS, "agent")), from_named(job["bonus"], BONUSES, "bonus")
    continuous = "continuous" in agent.traits.actions
    spec = spec_from_json(job["spec"]) if "spec" in job else SPEC if continuous else discrete_spec(SPEC.observation_size, 6)
    rows = Rows(with_blank_columns(_random_rows(spec), agent.traits.columns))
    key_init, key = run_keys(0)
    key_bonus, key_fit = run_keys(1)
    problem = Problem(spec, rows.sample())
    penalty = FrozenBonus(bonus, bonus.frozen(fresh_state(bonus, key_bonus, problem)), spec)
    rows = Rows(with_known(agent, rows.transitions, penalty))
    epoch_steps = EPOCH if flops.agent_step(agent, bonus, spec) < LARGE_STEP else SHORT_EPOCH
    learner: Learner = agent
    if job.get("together"):
        learner = Together(agent, job["together"])
        key_init, key = (jax.random.split(key, learner.seeds) for key in (key_init, key))
    loops = {
        "steps_per_second": learn(
            learner,
            fresh_state(learner, key_init, problem),
            rows,
            key,
            end=2**31 - 1,
            epoch_steps=epoch_steps,
            stride=critic_steps(agent),
            given=(penalty,),
            compiled=agent_epoch,
        )
    }
    if bonus.steps and job.get("fit"):
        fresh = fresh_state(bonus, run_keys(2)[0], problem)
        fitted_to = Rows(with_blank_columns(_random_rows(spec), bonus.traits.columns))
        loops["fit_steps_per_second"] = learn(bonus, fresh, fitted_to, key_fit, end=2**31 - 1, epoch_steps=epoch_steps)
    for loop in loops.values():
        next(loop)  # compiles
    print(json.dumps({"start_seconds": time.perf_counter() - began}), flush=True)
    for _ in sys.stdin:
        answer: dict[str, float] = {}
        for name, loop in loops.items():
            answer |= _rates(name, loop, epoch_steps, job["seconds"])
        print(json.dumps(answer), flush=True)


def _rates(name: str, loop: Iterator[Any], epoch_steps: int, seconds: float) -> dict[str, float]:
    """Steps a second, over at least so many seconds. Metrics come to the host after each epoch, so all of it is done."""
    began, busy, epochs = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - began < seconds:
        next(loop)
        epochs += 1
    steps = epochs * epoch_steps
    rates = {name: steps / (time.perf_counter() - began)}
    return rates | {name.replace("per_second", "per_cpu_second"): steps / (time.process_time() - busy)}


def _random_rows(spec: Any) -> Any:
    """What is in the rows does not matter to the speed."""
    import numpy as np

    from tether.types import Batch, row_shapes

    random = np.random.default_rng(0)
    columns = [random.random((ROWS, *shape), dtype=np.float32) for shape in row_shapes(spec)]
    rows = Batch(*columns)._replace(terminated=np.zeros(ROWS, np.float32))
    if spec.discrete:
        rows = rows._replace(action=np.eye(spec.action_size, dtype=np.float32)[random.integers(spec.action_size, size=ROWS)])
    return rows


if __name__ == "__main__":
    _serve(json.loads(sys.argv[1]))

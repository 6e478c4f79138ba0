"""How long a sweep will take here, from speeds measured on this machine with as many processes side by side as it will have.

One run of each kind is measured: the same agent and bonus, and products of about the same size. Others of its kind are slower or
faster by the size of theirs. What was measured is kept in the cache folder, by machine, versions and number of workers; but not
while another sweep has some of the cores.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tether import storage
from tether.agents import AGENTS
from tether.bonuses import BONUSES
from tether.config import RunConfig
from tether.cores import claimed
from tether.data import load_dataset
from tether.environments.making import make_environment
from tether.environments.tasks import find_task
from tether.errors import TetherError
from tether.runs.result import versions
from tether.settings import to_named
from tether.sweep.bundles import bundles_of
from tether.sweep.expansion import PlannedRun
from tether.sweep.head import Sweep, is_to_do
from tether.sweep.workers import Slots
from tether.types import Spec, spec_to_json

SECONDS = 3.0  # of one measurement
EPISODE = 1_000  # steps, where an environment does not say how many it allows


@dataclass(frozen=True)
class Speed:
    """Of one process among those side by side."""

    steps_per_second: float
    start_seconds: float  # to import and compile
    fit_steps_per_second: float | None = None
    busy: float = 1.0  # the share of a second that its cores are at work for it: less where the machine has other work, too


@dataclass(frozen=True)
class Simulation:
    """Of one environment."""

    steps_per_second: float
    episode: int  # the most steps of one


@dataclass(frozen=True)
class Estimate:
    """What is left of a sweep."""

    runs: float  # seconds in training, over all processes
    fits: float
    evaluations: float
    starts: float
    slots: Slots
    busy: float = 0.0  # seconds of busy cores, of all of it
    processes: int = 1  # one for each run, or for several as one program

    @property
    def total(self) -> float:
        return self.runs + self.fits + self.evaluations + self.starts

    @property
    def seconds(self) -> float:
        """From now to the end, if the workers that there is work for are busy all the time."""
        return self.total / max(1, min(self.slots.workers, self.processes))

    @property
    def core_hours(self) -> float:
        """Of cores that are busy with it, which hardly depend on what else the machine is doing."""
        return self.busy / 3600


class Speedometer:
    """Speeds from the cache; those that are not there are measured, or unknown where `measure` is false."""

    def __init__(self, slots: Slots, measure: bool = True, say: Callable[[str], None] = print) -> None:
        self._slots, self._measure, self._say = slots, measure, say
        machine = [platform.node(), platform.machine(), _processor(), slots.workers, slots.threads, versions()]
        name = hashlib.sha256(json.dumps(machine).encode()).hexdigest()[:16]
        self._place = storage.cache_root() / "speeds" / f"{name}.json"
        self._found: dict[str, Any] = storage.read_json(self._place) if self._place.exists() else {}
        self._shared = slots.shared() if measure else ""
        self._told = False

    def speed(self, config: RunConfig, spec: Spec) -> Speed | None:
        """Of a run. Measured on one of its kind, and made slower or faster by the size of its products."""
        agent, bonus = to_named(config.agent, AGENTS), to_named(config.bonus, BONUSES)
        update, fit = cost(config, spec)
        kind = f"{agent['name']} {bonus['name']} {round(math.log2(max(update, 1.0)))}"
        found = self._found.get(kind)
        if found is None:
            if not self._measure:
                return None
            if self._shared and not self._told:
                self._told = True
                self._say(f"{self._shared}: speeds are those beside it, and are not kept")
            self._say(f"measuring the speed of {agent['name']} with {bonus['name']}: {self._slots.workers} at once …")
            found = _measure(agent, bonus, spec, self._slots) | {"update_cost": update, "fit_cost": fit}
            self._keep(kind, found)
        scaled = found["update_cost"] / update if update else 1.0
        fit_rate = found.get("fit_steps_per_second")
        if fit_rate is not None:
            fit_rate *= found["fit_cost"] / fit if fit else 1.0
        by_cpu = found.get("steps_per_cpu_second")
        busy = found["steps_per_second"] / by_cpu if by_cpu else float(self._slots.threads)
        return Speed(found["steps_per_second"] * scaled, found["start_seconds"], fit_rate, busy)

    def simulation(self, env_id: str, spec: Spec) -> Simulation | None:
        """Of an environment; None too where it cannot be made here."""
        kind = f"environment {env_id}"
        if kind not in self._found and self._measure:
            try:
                self._keep(kind, asdict(_simulate(env_id, spec)))
            except TetherError as error:
                self._say(f"episodes in {env_id} are not counted: {error}")
                self._found[kind] = None
        found = self._found.get(kind)
        return Simulation(**found) if found else None

    def _keep(self, kind: str, found: dict[str, Any]) -> None:
        self._found[kind] = found
        if not self._shared:
            storage.write_json(self._place, self._found)


def estimate(
    sweep: Sweep,
    slots: Slots,
    measure: bool = True,
    say: Callable[[str], None] = print,
    together: int = 1,
    retry: bool = False,
) -> Estimate | None:
    """What is left to do; None where a speed is unknown, or the sizes in data that is not there and nothing is to be measured.

    Final runs that are not decided yet are counted too. Up to `together` seeds are one program, which starts once and else is
    taken to be no faster than they are one by one.
    """
    speeds = Speedometer(slots, measure, say)
    made = {run.fit for run in sweep.runs if sweep.known[run.name].step}  # a run that trains, or has, had its fit
    left = [run for run in sweep.runs if is_to_do(sweep.known[run.name], retry)]
    starting = {bundle.runs[0].name for bundle in bundles_of(left, together)}
    todo = [(run, sweep.known[run.name].step, run.name in starting) for run in left]
    if sweep.plan.final_seeds and sweep.winners is None:
        first = {(run.method, run.data.name): run for run in reversed(sweep.runs)}
        todo += [(run, 0, number % together == 0) for run in first.values() for number in range(len(sweep.plan.final_seeds))]
    parts = {"runs": 0.0, "fits": 0.0, "evaluations": 0.0, "starts": 0.0}
    busy = 0.0
    for run, step, starts in todo:
        if run.data.missing and not measure and find_task(run.data.env_id) is None:
            return None
        spec = spec_of(run)
        speed = speeds.speed(run.config, spec)
        if speed is None:
            return None
        training, before = run.config.training, sum(parts.values())
        parts["runs"] += (training.steps - step) / speed.steps_per_second
        parts["starts"] += speed.start_seconds * starts
        if run.fit and run.fit not in made and speed.fit_steps_per_second:
            made.add(run.fit)
            parts["fits"] += run.config.bonus.steps / speed.fit_steps_per_second
        env_id = run.config.evaluation.env_id or run.data.env_id
        simulation = speeds.simulation(env_id, spec) if env_id not in (None, "none") else None
        if simulation is not None:
            number = -(-training.steps // training.evaluate_every) - step // training.evaluate_every
            episodes = number * run.config.evaluation.episodes * len(run.config.agent.traits.policies)
            parts["evaluations"] += episodes * simulation.episode / simulation.steps_per_second
        busy += speed.busy * (sum(parts.values()) - before)
    return Estimate(**parts, slots=slots, busy=busy, processes=sum(starts for _, _, starts in todo))


def spec_of(run: PlannedRun) -> Spec:
    """Sizes: of the task, where the data is of one; else of the data, which is then read."""
    task = find_task(run.data.env_id)
    if task is not None:
        limits = (task.action_limit,) * task.action_size
        return Spec(task.observation_size, tuple(-limit for limit in limits), limits)
    return _spec_of_file(run.data.source)


@cache
def _spec_of_file(source: str) -> Spec:
    return load_dataset(source, on_disk=None).spec


def cost(config: RunConfig, spec: Spec) -> tuple[float, float]:
    """Floating-point operations of a step and of a step of the fit. No number that is not whole has a say in them."""
    shapes = json.dumps([_whole(to_named(config.agent, AGENTS)), _whole(to_named(config.bonus, BONUSES)), spec_to_json(spec)])
    if shapes not in _COSTS:
        from tether.benchmark import flops

        _COSTS[shapes] = flops.agent_step(config.agent, config.bonus, spec), flops.fit_step(config.bonus, spec)
    return _COSTS[shapes]


_COSTS: dict[str, tuple[float, float]] = {}  # tracing takes a second, and a grid has hundreds of runs alike


def _whole(values: Any) -> Any:
    if isinstance(values, dict):
        return {name: _whole(value) for name, value in values.items() if not isinstance(value, float)}
    return values


def _measure(agent: dict[str, Any], bonus: dict[str, Any], spec: Spec, slots: Slots) -> dict[str, float]:
    from tether.benchmark.side_by_side import measuring

    job = {"agent": agent, "bonus": bonus, "spec": spec_to_json(spec), "seconds": SECONDS, "fit": True}
    began = time.perf_counter()
    with ExitStack() as stack:
        cores = [
            stack.enter_context(claimed(slots.threads, own)) for own in slots.cores
        ]  # another sweep may be on the slots' own
        measure = stack.enter_context(measuring(job, cores))
        start = time.perf_counter() - began
        answers = measure()
    return {name: statistics.mean(answer[name] for answer in answers) for name in answers[0]} | {"start_seconds": start}


def _simulate(env_id: str, spec: Spec) -> Simulation:
    """Steps of random actions for a second."""
    with closing(make_environment(env_id, spec)) as environment:
        environment.reset(seed=0)
        environment.action_space.seed(0)
        began, steps = time.perf_counter(), 0
        while time.perf_counter() - began < 1.0:
            _, _, terminated, truncated, _ = environment.step(environment.action_space.sample())
            steps += 1
            if terminated or truncated:
                environment.reset()
        most = getattr(environment.spec, "max_episode_steps", None)
        return Simulation(steps / (time.perf_counter() - began), int(most or EPISODE))


def _processor() -> str:
    """The kind of processor, as Linux names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")

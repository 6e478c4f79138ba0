"""The measurements of `tether bench`. The machine's limit is measured beside each, since machines are shared and noisy."""

from __future__ import annotations

import gc
import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tether.agents import AGENTS, Agent, critic_steps, refresh_period, with_known
from tether.agents.td3 import TD3
from tether.benchmark import flops
from tether.bonuses import BONUSES, NO_BONUS, Bonus, FrozenBonus, NoBonus
from tether.bonuses.cvae import CVAE
from tether.config import make_config
from tether.data.columns import with_blank_columns
from tether.runs.result import versions
from tether.settings import to_named
from tether.training.fit import bonus_of_rows
from tether.training.loop import Learner, agent_epoch, epoch, fresh_state, learn, run_keys
from tether.training.sources import Rows
from tether.types import Batch, Problem, Spec

SPEC = Spec(17, (-1.0,) * 6, (1.0,) * 6)  # halfcheetah and walker2d
CHOICES = Spec(17, (0.0,) * 6, (1.0,) * 6, discrete=True)  # as wide, for agents that choose
PRODUCT_SIZE = 2048
ROWS = 100_000
PAIRS = 1_000_000  # whose bonus is computed
ROW_COUNTS = (10_000, 100_000, 1_000_000, 10_000_000)


@dataclass(frozen=True)
class Measurement:
    name: str
    steps_per_second: float  # of the fastest repetition
    gflop_per_step: float
    gflop_per_second: float
    limit_gflop_per_second: float  # of the product, measured between the repetitions
    share_of_limit: float
    compile_seconds: float
    rows: int = ROWS
    all_steps_per_second: list[float] = field(default_factory=list)
    # The same by the processor time of all threads, which other work on the machine hardly changes.
    steps_per_busy_second: float = 0.0
    limit_gflop_per_busy_second: float = 0.0
    share_of_limit_busy: float = 0.0
    all_steps_per_busy_second: list[float] = field(default_factory=list)


def number_of_measurements(row_counts: tuple[int, ...]) -> int:
    return 2 + number_of_bonus_measurements() + len(row_counts)


def number_of_bonus_measurements() -> int:
    """A fit, where there is one, and scores."""
    bonuses = bonuses_to_measure().values()
    return sum(bonus.steps > 0 for bonus in bonuses) + len(bonuses)


def measure_all(steps: int, repetitions: int, row_counts: tuple[int, ...] = ROW_COUNTS) -> Iterator[Measurement]:
    """Each measurement as soon as it is there."""
    data = random_transitions(ROWS)
    yield measure_agent("TD3-CVAE", TD3(), CVAE(), data, steps, repetitions)
    yield measure_agent("TD3, no bonus", TD3(), NoBonus(), data, steps, repetitions)
    yield from measure_bonuses(steps, repetitions)
    for rows in row_counts:
        del data
        gc.collect()
        data = random_transitions(rows)
        yield measure_agent(f"TD3, no bonus, {rows:.0e} rows".replace("e+0", "e"), TD3(), NoBonus(), data, steps, repetitions)


def measure_bonuses(steps: int, repetitions: int) -> Iterator[Measurement]:
    """The fits of all, then their scores."""
    data, bonuses = random_transitions(ROWS), bonuses_to_measure()
    for label, bonus in bonuses.items():
        if bonus.steps:
            yield measure_fit(f"fit of {label}", bonus, data, steps, repetitions)
    for label, bonus in bonuses.items():
        yield measure_novelty(f"bonus of {label}, pairs", bonus, data, PAIRS)


def bonuses_to_measure() -> dict[str, Bonus]:
    """Every bonus with its own settings, and the default agent's as that has it."""
    found = {name: kind() for name, kind in BONUSES.items() if name != NO_BONUS}
    preset = make_config("")
    agent, bonus = (to_named(part, kinds)["name"] for part, kinds in ((preset.agent, AGENTS), (preset.bonus, BONUSES)))
    return {**found, f"{bonus} of {agent}": preset.bonus}


def measure_agents(steps: int, repetitions: int) -> Iterator[Measurement]:
    """Each of `agents_to_measure`, as soon as it is there."""
    rows = {spec: random_transitions(ROWS, spec) for spec in (SPEC, CHOICES)}
    for label, agent, bonus in agents_to_measure():
        spec = SPEC if "continuous" in agent.traits.actions else CHOICES
        # What looks at all rows from time to time is measured from one look to the next.
        yield measure_agent(label, agent, bonus, rows[spec], refresh_period(agent) or steps, repetitions, spec)


def agents_to_measure() -> list[tuple[str, Agent, Bonus]]:
    """Every agent with its own settings and its usual bonus, and td3 as `tether train` has it too."""
    preset = make_config("", agent="td3")
    found: list[tuple[str, Agent, Bonus]] = [("td3, density, preset tether", preset.agent, preset.bonus)]
    for name, kind in AGENTS.items():
        agent = kind()
        bonus = agent.traits.usual_bonus
        found.append((name if bonus == NO_BONUS else f"{name}, {bonus}", agent, BONUSES[bonus]()))
    return found


def awake(agent: Agent) -> Agent:
    """Without the steps in which its actor waits: they are the first, and cost less than the others."""
    return replace(agent, warm_up_steps=0) if hasattr(agent, "warm_up_steps") else agent  # type: ignore[type-var]


def measure_agent(
    name: str, agent: Agent, bonus: Bonus, data: Batch, steps: int, repetitions: int, spec: Spec = SPEC
) -> Measurement:
    key_bonus, _ = run_keys(1)
    agent, penalty = awake(agent), FrozenBonus(bonus, bonus.frozen(bonus.init(key_bonus, Problem(spec, data))), spec)
    flop, data = flops.agent_step(agent, bonus, spec), with_blank_columns(data, agent.traits.columns)
    data = with_known(agent, data, penalty)
    return _measure_loop(name, agent, data, steps, repetitions, flop, critic_steps(agent), (penalty,), agent_epoch, spec)


def measure_fit(name: str, bonus: Bonus, data: Batch, steps: int, repetitions: int) -> Measurement:
    data = with_blank_columns(data, bonus.traits.columns)
    return _measure_loop(name, bonus, data, steps, repetitions, flops.fit_step(bonus, SPEC))


def _measure_loop(
    name: str,
    learner: Learner,
    data: Batch,
    steps: int,
    repetitions: int,
    flop: float,
    stride: int = 1,
    given: tuple[Any, ...] = (),
    compiled: Any = epoch,
    spec: Spec = SPEC,
) -> Measurement:
    key_init, key = run_keys(0)
    state = fresh_state(learner, key_init, Problem(spec, data))
    end = steps * (repetitions + 1)
    epochs = learn(learner, state, Rows(data), key, end=end, epoch_steps=steps, stride=stride, given=given, compiled=compiled)
    return _measure(name, lambda: jax.block_until_ready(next(epochs).state), steps, flop, repetitions, len(data.reward))


def measure_novelty(name: str, bonus: Bonus, data: Batch, pairs: int) -> Measurement:
    """Pairs a second, from NumPy to NumPy, as `FittedBonus.novelty` does it."""
    key_init, key = run_keys(0)
    state = bonus.frozen(bonus.init(key_init, Problem(SPEC, data)))
    times = -(-pairs // len(data.reward))
    observation, action = (np.tile(column, (times, 1))[:pairs] for column in (data.observation, data.action))

    def compute() -> None:
        bonus_of_rows(bonus, state, observation, action, key)

    return _measure(name, compute, pairs, flops.novelty(bonus, SPEC), repetitions=1, rows=pairs)


def product_limit(repetitions: int = 3) -> float:
    """GFLOP/s of the fastest of a few float32 products of two 2048 x 2048 matrices."""
    return product_limits(repetitions)[0]


def product_limits(repetitions: int = 3) -> tuple[float, float]:
    """The same, and in seconds of processor time."""
    matrix = jnp.ones((PRODUCT_SIZE, PRODUCT_SIZE), jnp.float32)
    taken = [_timed(lambda: _product(matrix).block_until_ready()) for _ in range(repetitions)]
    wall, busy = (min(times) for times in zip(*taken, strict=True))
    return 2 * PRODUCT_SIZE**3 / wall / 1e9, 2 * PRODUCT_SIZE**3 / busy / 1e9


def _timed(once: Callable[[], object]) -> tuple[float, float]:
    """Seconds, and those in which threads of this process were busy."""
    began, busy = time.perf_counter(), time.process_time()
    once()
    return time.perf_counter() - began, max(time.process_time() - busy, 1e-9)


def random_transitions(rows: int, spec: Spec = SPEC) -> Batch:
    """What is in the rows does not matter to the speed; that they are different rows does."""
    random = np.random.default_rng(0)
    column = lambda *shape: jnp.asarray(random.standard_normal(shape, dtype=np.float32))  # noqa: E731
    observation, action = column(rows, spec.observation_size), jnp.clip(column(rows, spec.action_size), -1.0, 1.0)
    if spec.discrete:
        action = jax.nn.one_hot(jnp.argmax(action, axis=-1), spec.action_size)
    reward, next_observation = jnp.asarray(random.random(rows, dtype=np.float32)), column(rows, spec.observation_size)
    return Batch(observation, action, reward, next_observation, jnp.zeros(rows))


def surroundings() -> dict[str, Any]:
    device = jax.devices()[0]
    return {"device": device.device_kind, "platform": device.platform, "devices": jax.device_count(), "versions": versions()}


def peak_memory_bytes() -> int:
    """Of the process, since its start."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


@jax.jit
def _product(matrix: jax.Array) -> jax.Array:
    return matrix @ matrix


def _measure(name: str, once: Callable[[], object], steps: int, flop_per_step: float, repetitions: int, rows: int) -> Measurement:
    product_limit(1)  # compiles
    first, _ = _timed(once)
    limits, taken = [product_limits()], []
    for _ in range(repetitions):
        taken.append(_timed(once))
        limits.append(product_limits())
    rates, busy_rates = ([steps / seconds for seconds in times] for times in zip(*taken, strict=True))
    limit, busy_limit = (max(column) for column in zip(*limits, strict=True))
    gflop = flop_per_step / 1e9
    achieved = max(rates) * gflop
    return Measurement(
        name=name,
        steps_per_second=max(rates),
        gflop_per_step=gflop,
        gflop_per_second=achieved,
        limit_gflop_per_second=limit,
        share_of_limit=achieved / limit,
        compile_seconds=max(0.0, first - steps / max(rates)),
        rows=rows,
        all_steps_per_second=rates,
        steps_per_busy_second=max(busy_rates),
        limit_gflop_per_busy_second=busy_limit,
        share_of_limit_busy=max(busy_rates) * gflop / busy_limit,
        all_steps_per_busy_second=busy_rates,
    )

"""What layer norm costs an agent: ours, the same as JAX's means and autodiff make it, and none at all, in turns in one process.

    PYTHONPATH=src:benchmarks taskset -c 0 python benchmarks/layer_norm.py --out mine.json

Steps are counted in seconds of processor time, which other work on the machine hardly changes. Without layer norm an agent learns
something else: that turn says only how much there is to gain.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from against_others import ROWS, measure

from tether.agents import AGENTS, critic_steps, with_known
from tether.benchmark.speed import SPEC, awake, random_transitions, surroundings
from tether.bonuses import BONUSES, FrozenBonus
from tether.data.columns import with_blank_columns
from tether.networks import LayerNorm
from tether.training.loop import AGENT_LOOP, _epoch, _jit, fresh_state, learn, run_keys
from tether.training.sources import Rows
from tether.types import Batch, Problem

STEPS = 100


def by_means(norm: LayerNorm, x: jax.Array) -> jax.Array:
    centred = x - jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean(jnp.square(centred), axis=-1, keepdims=True)
    return centred * jax.lax.rsqrt(variance + 1e-5) * norm.scale[None, :] + norm.offset[None, :]


NORMS: dict[str, Any] = {"ours": LayerNorm.__call__, "by means": by_means, "none": lambda norm, x: x}


def turn_of(name: str, norm: Any, data: Batch) -> Callable[[], None]:
    agent = awake(AGENTS[name]())
    bonus = BONUSES[agent.traits.usual_bonus]()
    key_init, key = run_keys(0)
    penalty = FrozenBonus(bonus, bonus.frozen(bonus.init(key_init, Problem(SPEC, data))), SPEC)
    data = with_known(agent, with_blank_columns(data, agent.traits.columns), penalty)

    def epoch(learner: Any, state: Any, rows: Any, drawn: Any, key: Any, step: Any, stride: int, given: Any) -> Any:
        LayerNorm.__call__ = norm  # while it is traced, which is once for each kind
        return _epoch(learner, state, rows, drawn, key, step, stride, given)

    state, stride = fresh_state(agent, key_init, Problem(SPEC, data)), critic_steps(agent)
    compiled = _jit(epoch, compiler_options=AGENT_LOOP)
    epochs = learn(
        agent, state, Rows(data), key, end=10**9, epoch_steps=STEPS, stride=stride, given=(penalty,), compiled=compiled
    )
    return lambda: jax.block_until_ready(next(epochs).state)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--agents", nargs="+", default=["tethered", "rebrac"])
    parser.add_argument("--out", type=Path, help="write the JSON here")
    given = parser.parse_args()
    data, found = random_transitions(ROWS), {}
    for name in given.agents:
        print(name, flush=True)
        found[name] = measure({kind: turn_of(name, norm, data) for kind, norm in NORMS.items()}, given.rounds, STEPS)
    if given.out:
        report = {**surroundings(), "rows": ROWS, "steps_of_a_turn": STEPS, "agents": found}
        given.out.write_text(json.dumps(report, indent=1) + "\n")
    print("\n| agent | ours, steps a busy second, median | by means | none | ours is faster by, quartiles of the rounds |")
    print("|---|---:|---:|---:|---:|")
    for name, result in found.items():
        rates = result["steps_per_busy_second"]
        each = [mine / other for mine, other in zip(rates["ours"], rates["by means"], strict=True)]
        low, middle, high = statistics.quantiles(each, n=4, method="inclusive")
        medians = " | ".join(f"{statistics.median(rates[kind]):.0f}" for kind in NORMS)
        print(f"| {name} | {medians} | {low:.2f}, **{middle:.2f}**, {high:.2f} |")


if __name__ == "__main__":
    main()

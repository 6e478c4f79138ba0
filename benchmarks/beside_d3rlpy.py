"""Gradient steps per second of Tether's baselines beside d3rlpy's: one process, in turns, at the same sizes.

d3rlpy asks for a Gymnasium older than ours; `tests/agents/test_beside_d3rlpy.py` says how both are installed. Then

    PYTHONPATH=src:benchmarks python benchmarks/beside_d3rlpy.py --out mine.json

On a busy machine give it one core (`taskset -c 0 python …`): the ratio of processor times then hardly depends on the rest.

Sizes are d3rlpy's defaults: two hidden layers of 256, its batches, its numbers of sampled actions, no layer norm. BCQ and BEAR of
d3rlpy fit their autoencoder in the same step; ours fit it before, so a turn of ours has as many steps of that fit too.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from against_others import ROWS, d3rlpy, measure

from tether.agents import AGENTS, Agent, critic_steps
from tether.benchmark import flops
from tether.benchmark.speed import CHOICES, SPEC, random_transitions, surroundings
from tether.bonuses import Bonus, FrozenBonus, NoBonus
from tether.bonuses.cvae import CVAE
from tether.data.columns import with_blank_columns
from tether.training.loop import agent_epoch, fresh_state, learn, run_keys
from tether.training.sources import Rows
from tether.types import Batch, Problem, Spec

WIDE = {"hidden_sizes": (256, 256)}
GENERATOR_OF_BCQ = CVAE(hidden_sizes=(256, 256), latent_size=0)
GENERATOR_OF_BEAR = CVAE(hidden_sizes=(256, 256), latent_size=0, batch_size=256)


@dataclass(frozen=True)
class Pair:
    agent: Agent
    theirs: str  # d3rlpy's name for it
    generator: CVAE | None = None  # of actions, where there is one
    spec: Spec = SPEC
    steps: int = 100  # of one turn: about as long for each

    @property
    def gflop(self) -> float:
        """Of a step, and of one of the generator's fit."""
        step = flops.agent_step(self.agent, self.generator or NoBonus(), self.spec)
        return (step + (flops.fit_step(self.generator, self.spec) if self.generator else 0)) / 1e9


PAIRS = {
    "bc": Pair(AGENTS["bc"](batch_size=100, **WIDE), "BC", steps=1_000),
    "td3": Pair(AGENTS["td3"](**WIDE), "TD3"),
    "td3-bc": Pair(AGENTS["td3-bc"](**WIDE), "TD3PlusBC"),
    "sac": Pair(AGENTS["sac"](batch_size=256, critic_norm="none", **WIDE), "SAC"),
    "iql": Pair(AGENTS["iql"](**WIDE), "IQL"),
    "rebrac": Pair(AGENTS["rebrac"](critic_norm="none", **WIDE), "ReBRAC"),
    "cql": Pair(AGENTS["cql"](**WIDE), "CQL", steps=40),
    "bcq": Pair(AGENTS["bcq"](samples=100, batch_size=100, **WIDE), "BCQ", GENERATOR_OF_BCQ, steps=40),
    "bear": Pair(AGENTS["bear"](batch_size=256, compared_actions=4, **WIDE), "BEAR", GENERATOR_OF_BEAR, steps=40),
    "dqn": Pair(AGENTS["dqn"](batch_size=32, **WIDE), "DoubleDQN", spec=CHOICES, steps=1_000),
}


def ours(pair: Pair, data: Batch) -> Callable[[], None]:
    agent, generator, spec, steps = pair.agent, pair.generator, pair.spec, pair.steps
    key_init, key = run_keys(0)
    bonus: Bonus = generator or NoBonus()
    fitting = fresh_state(bonus, key_init, Problem(spec, data)) if generator else ()
    penalty = FrozenBonus(bonus, jax.tree.map(np.array, bonus.frozen(fitting)) if generator else (), spec)
    rows = with_blank_columns(data, agent.traits.columns)
    state = fresh_state(agent, key_init, Problem(spec, rows))
    stride, end = critic_steps(agent), steps * 10**6
    epochs = learn(
        agent, state, Rows(rows), key, end=end, epoch_steps=steps, stride=stride, given=(penalty,), compiled=agent_epoch
    )
    fits = learn(bonus, fitting, Rows(data), key, end=end, epoch_steps=steps) if generator else None

    def turn() -> None:
        jax.block_until_ready(next(epochs).state)
        if fits is not None:
            jax.block_until_ready(next(fits).state)

    return turn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="two or more")
    parser.add_argument("--only", nargs="+", choices=PAIRS, default=list(PAIRS))
    parser.add_argument("--out", type=Path, help="write the JSON here")
    given = parser.parse_args()
    found = {}
    for name in given.only:
        pair = PAIRS[name]
        print(name, flush=True)
        data = random_transitions(ROWS, pair.spec)
        turns = {"tether": ours(pair, data), "d3rlpy": d3rlpy(data, pair.theirs, pair.steps, pair.spec.discrete)}
        result = measure(turns, given.rounds, pair.steps)
        found[name] = {"gflop_per_step": pair.gflop, "steps_of_a_turn": pair.steps, **result}
        if given.out:  # as soon as it is there: the rest may take long
            report = {**surroundings(), "rows": ROWS, "agents": found}
            given.out.write_text(json.dumps(report, indent=1) + "\n")
    print(f"\n| {' | '.join(COLUMNS)} |\n|---|{'---:|' * (len(COLUMNS) - 1)}")
    for name, result in found.items():
        print(f"| {name} | {' | '.join(cells(result))} |")


COLUMNS = (
    "agent",
    "GFLOP a step",
    "tether, steps a busy second",
    "d3rlpy",
    "limit",
    "share of the limit",
    "d3rlpy's",
    "Tether is faster by",
    "could be faster by",
)


def cells(result: dict[str, Any]) -> list[str]:
    """By processor time: medians over the rounds, and quartiles of their ratios."""
    gflop, busy = result["gflop_per_step"], result["steps_per_busy_second"]
    limit = statistics.median(result["limit_gflop_per_busy_second"])
    mine, other = (statistics.median(busy[who]) for who in ("tether", "d3rlpy"))
    each = [one / two for one, two in zip(busy["tether"], busy["d3rlpy"], strict=True)]
    low, middle, high = statistics.quantiles(each, n=4, method="inclusive")
    shares = [f"{rate * gflop / limit:.0%}" for rate in (mine, other)]
    faster = f"{low:.2f}, **{middle:.2f}**, {high:.2f}"
    return [f"{gflop:.2g}", f"{mine:,.0f}", f"{other:,.0f}", f"{limit:.0f}", *shares, faster, f"{limit / gflop / other:.1f}"]


if __name__ == "__main__":
    main()

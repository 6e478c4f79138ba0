"""Gradient steps per second of Tether's baselines beside d3rlpy's: one process, in turns, at the same sizes.

d3rlpy asks for a Gymnasium older than ours; `tests/agents/test_beside_d3rlpy.py` says how both are installed. Then

    PYTHONPATH=src:benchmarks python benchmarks/beside_d3rlpy.py --out mine.json

On a busy machine give it one core (`taskset -c 0 python …`): the ratio of processor times then hardly depends on the rest.

Sizes are d3rlpy's defaults: two hidden layers of 256, its batches, its numbers of sampled actions. BCQ and BEAR of d3rlpy fit
their autoencoder in the same step; ours fit it before, so a turn of ours has as many steps of that fit too.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
from against_others import ROWS, STEPS, d3rlpy, measure

from tether.agents import AGENTS, Agent, critic_steps
from tether.benchmark.speed import SPEC, random_transitions, surroundings
from tether.bonuses import Bonus, FrozenBonus, NoBonus
from tether.bonuses.cvae import CVAE
from tether.data.columns import with_blank_columns
from tether.training.loop import agent_epoch, fresh_state, learn, run_keys
from tether.training.sources import Rows
from tether.types import Batch, Problem

WIDE = {"hidden_sizes": (256, 256)}
GENERATOR = CVAE(hidden_sizes=(256, 256), latent_size=0, batch_size=256)
# Ours, d3rlpy's name for it, and the generator of actions where there is one.
PAIRS: dict[str, tuple[Agent, str, CVAE | None]] = {
    "td3-bc": (AGENTS["td3-bc"](**WIDE), "TD3PlusBC", None),
    "iql": (AGENTS["iql"](**WIDE), "IQL", None),
    "cql": (AGENTS["cql"](**WIDE), "CQL", None),
    "bcq": (AGENTS["bcq"](samples=100, batch_size=100, **WIDE), "BCQ", CVAE(hidden_sizes=(256, 256), latent_size=0)),
    "bear": (AGENTS["bear"](batch_size=256, compared_actions=4, **WIDE), "BEAR", GENERATOR),
}


def ours(agent: Agent, generator: CVAE | None, data: Batch, steps: int = STEPS) -> Callable[[], None]:
    key_init, key = run_keys(0)
    bonus: Bonus = generator or NoBonus()
    fitting = fresh_state(bonus, key_init, Problem(SPEC, data)) if generator else ()
    penalty = FrozenBonus(bonus, jax.tree.map(np.array, bonus.frozen(fitting)) if generator else (), SPEC)
    rows = with_blank_columns(data, agent.traits.columns)
    state = fresh_state(agent, key_init, Problem(SPEC, rows))
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
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=STEPS, help="of one turn")
    parser.add_argument("--only", nargs="+", choices=PAIRS, default=list(PAIRS))
    parser.add_argument("--out", type=Path, help="write the JSON here")
    given = parser.parse_args()
    data = random_transitions(ROWS)
    found = {}
    for name in given.only:
        agent, other, generator = PAIRS[name]
        print(name, flush=True)
        turns = {"tether": ours(agent, generator, data, given.steps), "d3rlpy": d3rlpy(data, other, given.steps)}
        found[name] = measure(turns, given.rounds, given.steps)
        if given.out:  # as soon as it is there: the rest may take long
            report = {**surroundings(), "rows": ROWS, "steps_of_a_turn": given.steps, "agents": found}
            given.out.write_text(json.dumps(report, indent=1) + "\n")
    print(
        "\n| agent | tether, steps a busy second, median | d3rlpy | Tether is faster by, quartiles of the rounds | by the clock |"
    )
    print("|---|---:|---:|---:|---:|")
    for name, result in found.items():
        busy, clock = (result[f"steps_per_{kind}"] for kind in ("busy_second", "second"))
        medians = " | ".join(f"{statistics.median(busy[who]):.0f}" for who in ("tether", "d3rlpy"))
        low, middle, high = ratios(busy)
        print(f"| {name} | {medians} | {low:.2f}, **{middle:.2f}**, {high:.2f} | {ratios(clock)[1]:.2f} |")


def ratios(rates: dict[str, list[float]]) -> list[float]:
    """Quartiles over the rounds."""
    each = [mine / other for mine, other in zip(rates["tether"], rates["d3rlpy"], strict=True)]
    return statistics.quantiles(each, n=4, method="inclusive")


if __name__ == "__main__":
    main()

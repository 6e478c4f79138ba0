"""What a step of an agent spends its time on, by JAX's profiler: its matrix products, or what lies between them.

    PYTHONPATH=src:benchmarks taskset -c 0 python benchmarks/where_time_goes.py td3-bc iql tethered --out mine.json

Sizes are the agent's own. Shares of the time hardly depend on what else the machine does; the times do, and are not told.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
from collections import Counter
from pathlib import Path

import jax

from tether.agents import AGENTS, Agent
from tether.benchmark.speed import ROWS, measure_agent, random_transitions, surroundings
from tether.bonuses import BONUSES

STEPS = 200
# By the beginning of the compiled operation's name; the first that fits. What runs other operations is not one itself.
CONTAINERS = ("while", "call", "conditional", "async", "ThunkExecutor", "end: ")
KINDS = {
    "products": ("dot", "custom-call"),
    "sums": ("reduce", "wrapped_reduce"),
    "copies": ("copy", "wrapped_copy", "transpose", "wrapped_transpose", "bitcast", "slice", "dynamic"),
}
REST = "elementwise"
PROGRAM = "jit__epoch"


def shares(agent: Agent) -> dict[str, float]:
    """Of the time in compiled operations."""

    def run() -> None:
        measure_agent("", agent, BONUSES[agent.traits.usual_bonus](), random_transitions(ROWS), STEPS, repetitions=1)

    run()  # compiles
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            run()
        (trace,) = Path(folder).rglob("*.trace.json.gz")
        events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    taken: Counter[str] = Counter()
    for event in events:
        # Compiled operations carry the name of their program.
        if event.get("args", {}).get("hlo_module") == PROGRAM and not event["name"].startswith(CONTAINERS):
            taken[kind_of(event["name"])] += event["dur"]
    return {kind: taken[kind] / taken.total() for kind in (*KINDS, REST)}


def kind_of(name: str) -> str:
    return next((kind for kind, names in KINDS.items() if name.startswith(names)), REST)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "agents", nargs="+", choices=[name for name, kind in AGENTS.items() if "continuous" in kind.traits.actions]
    )
    parser.add_argument("--out", type=Path, help="write the JSON here")
    given = parser.parse_args()
    found = {}
    print(f"| agent | {' | '.join((*KINDS, REST))} |\n|---|{'---:|' * (len(KINDS) + 1)}")
    for name in given.agents:
        found[name] = shares(AGENTS[name]())
        print(f"| {name} | {' | '.join(f'{share:.0%}' for share in found[name].values())} |", flush=True)
    if given.out:
        given.out.write_text(json.dumps({**surroundings(), "rows": ROWS, "steps": STEPS, "shares": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Gradient steps per second of Tether's TD3 beside other libraries' TD3+BC: one process, in turns, at the same sizes.

The others are not dependencies of Tether. In an environment of their own:

    pip install -r requirements.lock && pip install flax distrax omegaconf pydantic tqdm d3rlpy && pip install --no-deps -e .
    for name in EmptyJackson/unifloral nissymori/JAX-CORL tinkoff-ai/CORL; do git clone https://github.com/$name; done
    python benchmarks/against_others.py --unifloral unifloral --jax-corl JAX-CORL --corl CORL --d3rlpy --out mine.json

Every library trains as its own script does, at its own defaults, which agree on what costs time: two hidden layers of 256,
batches of 256, one actor step in two critic steps. A step here is one critic step. What differs: Tether has the paper's tanh and
elu where the others have relu; JAX-CORL has layer norm in its critics; TD3+BC's cloning term costs next to nothing.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import jax
import numpy as np

from tether.agents import critic_steps
from tether.agents.td3 import TD3
from tether.benchmark.speed import SPEC, product_limits, random_transitions, surroundings
from tether.bonuses import FrozenBonus, NoBonus
from tether.training.loop import agent_epoch, fresh_state, learn, run_keys
from tether.training.sources import Rows
from tether.types import Batch, Problem

ROWS = 100_000
STEPS = 400  # of one turn
UNUSED = ("d4rl", "gym", "wandb", "pyrallis")  # imported by the scripts for data, evaluation, logging and their command line


def tether(data: Batch) -> Callable[[], None]:
    agent, (key_init, key) = TD3(), run_keys(0)
    state = fresh_state(agent, key_init, Problem(SPEC, data))
    given, stride = (FrozenBonus(NoBonus(), (), SPEC),), critic_steps(agent)
    epochs = learn(
        agent, state, Rows(data), key, end=2**31 - STEPS, epoch_steps=STEPS, stride=stride, given=given, compiled=agent_epoch
    )
    return lambda: jax.block_until_ready(next(epochs).state)


def unifloral(data: Batch, clone: Path) -> Callable[[], None]:
    script = load_script(clone / "algorithms" / "td3_bc.py")
    args, dataset = script.Args(), script.Transition(*data)
    moments = dataset.obs.mean(axis=0), dataset.obs.std(axis=0)
    actor, critics = script.DeterministicTanhActor(SPEC.action_size, *moments), script.DualQNetwork(*moments)
    pair = [np.zeros(SPEC.observation_size), np.zeros(SPEC.action_size)]
    key = jax.random.PRNGKey(0)
    networks = [(actor, pair[:1]), (actor, pair[:1]), (critics, pair), (critics, pair)]
    carry = key, script.AgentTrainState(*(script.create_train_state(args, key, *network) for network in networks))
    step = script.make_train_step(args, actor.apply, critics.apply, dataset)

    def turn() -> None:
        nonlocal carry
        carry, _ = jax.lax.scan(step, carry, None, STEPS // args.num_critic_updates_per_step)
        jax.block_until_ready(carry[1].actor.params)

    return turn


def jax_corl(data: Batch, clone: Path) -> Callable[[], None]:
    script = load_script(clone / "algos" / "td3bc.py")
    config, dataset = script.TD3BCConfig(), script.Transition(*data)
    state = script.create_td3bc_train_state(jax.random.PRNGKey(0), dataset.observations[0], dataset.actions[0], config)
    update = jax.jit(script.TD3BC().update_n_times, static_argnums=(3,))
    key = jax.random.PRNGKey(1)

    def turn() -> None:
        nonlocal state, key
        for _ in range(STEPS // config.n_jitted_updates):
            key, key_update = jax.random.split(key)
            state, _ = update(state, dataset, key_update, config)
        jax.block_until_ready(state.actor.params)

    return turn


def corl(data: Batch, clone: Path) -> Callable[[], None]:
    import torch

    script = load_script(clone / "algorithms" / "offline" / "td3_bc.py")
    buffer = script.ReplayBuffer(SPEC.observation_size, SPEC.action_size, ROWS)
    names = ("observations", "actions", "rewards", "next_observations", "terminals")
    buffer.load_d4rl_dataset({name: np.array(column) for name, column in zip(names, data, strict=True)})
    networks = [script.Actor(SPEC.observation_size, SPEC.action_size, 1.0)]
    networks += [script.Critic(SPEC.observation_size, SPEC.action_size) for _ in range(2)]
    optimisers = [torch.optim.Adam(network.parameters(), lr=3e-4) for network in networks]
    trainer = script.TD3_BC(1.0, *(each for pair in zip(networks, optimisers, strict=True) for each in pair))

    def turn() -> None:
        for _ in range(STEPS):
            trainer.train(buffer.sample(256))

    return turn


def d3rlpy(data: Batch, name: str = "TD3PlusBC", steps: int = STEPS, discrete: bool = False) -> Callable[[], None]:
    import logging

    import d3rlpy as library
    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))  # it tells of every fit
    ends = np.zeros(ROWS, np.float32)
    ends[999::1000] = 1.0
    columns = [np.asarray(column) for column in (data.observation, data.action, data.reward)]
    if discrete:
        columns[1] = np.argmax(columns[1], axis=1)[:, None]
    kind = library.ActionSpace.DISCRETE if discrete else library.ActionSpace.CONTINUOUS
    dataset = library.dataset.MDPDataset(*columns, terminals=np.zeros(ROWS, np.float32), timeouts=ends, action_space=kind)
    algorithm = getattr(library.algos, f"{name}Config")().create(device="cpu:0")
    algorithm.build_with_dataset(dataset)

    def turn() -> None:
        logger = library.logging.NoopAdapterFactory()
        algorithm.fit(dataset, n_steps=steps, n_steps_per_epoch=steps, show_progress=False, logger_adapter=logger)

    return turn


def load_script(path: Path) -> ModuleType:
    """The functions of a training script. Its simulators are left out: no step of training calls them."""
    specification = importlib.util.spec_from_file_location(path.stem, path)
    if specification is None or specification.loader is None or not path.is_file():
        sys.exit(f"{path}: no such script; give the folder of a clone")
    module = importlib.util.module_from_spec(specification)
    absent = [name for name in UNUSED if name not in sys.modules]
    sys.modules.update({name: mock.MagicMock() for name in absent})
    try:
        with mock.patch.object(sys, "argv", [path.name]):
            specification.loader.exec_module(module)
    finally:
        for name in absent:
            del sys.modules[name]
    return module


def measure(turns: dict[str, Callable[[], None]], rounds: int, steps: int = STEPS) -> dict[str, Any]:
    """Every turn's rate, by the clock and by the processor time of all threads, which other work hardly changes."""
    for turn in turns.values():
        turn()  # compiles
    product_limits(1)
    rates: dict[str, list[float]] = {name: [] for name in turns}
    busy_rates: dict[str, list[float]] = {name: [] for name in turns}
    limits: list[float] = []
    busy_limits: list[float] = []
    for number in range(1, rounds + 1):
        for name, turn in turns.items():
            began, busy = time.perf_counter(), time.process_time()
            turn()
            rates[name].append(steps / (time.perf_counter() - began))
            busy_rates[name].append(steps / (time.process_time() - busy))
        for column, limit in zip((limits, busy_limits), product_limits(), strict=True):
            column.append(limit)
        latest = "  ".join(f"{name} {column[-1]:.0f}" for name, column in rates.items())
        print(f"round {number}/{rounds}: {latest} steps/s  limit {limits[-1]:.0f} GFLOP/s", flush=True)
    return {
        "steps_per_second": rates,
        "steps_per_busy_second": busy_rates,
        "limit_gflop_per_second": limits,
        "limit_gflop_per_busy_second": busy_limits,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unifloral", type=Path, metavar="CLONE")
    parser.add_argument("--jax-corl", type=Path, metavar="CLONE")
    parser.add_argument("--corl", type=Path, metavar="CLONE")
    parser.add_argument("--d3rlpy", action="store_true", help="the installed library")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--out", type=Path, help="write the JSON here")
    given = parser.parse_args()
    data = random_transitions(ROWS)
    turns = {"tether": tether(data)}
    if given.unifloral:
        turns["unifloral"] = unifloral(data, given.unifloral)
    if given.jax_corl:
        turns["jax-corl"] = jax_corl(data, given.jax_corl)
    if given.corl:
        turns["corl"] = corl(data, given.corl)
    if given.d3rlpy:
        turns["d3rlpy"] = d3rlpy(data)
    result = measure(turns, given.rounds)
    rates = result["steps_per_second"]
    print("\n| | steps/s, median | fastest | Tether is faster by, median of rounds |\n|---|---:|---:|---:|")
    for name, column in rates.items():
        ratio = statistics.median(ours / theirs for ours, theirs in zip(rates["tether"], column, strict=True))
        print(f"| {name} | {statistics.median(column):.0f} | {max(column):.0f} | {ratio:.2f} |")
    if given.out:
        given.out.write_text(json.dumps({**surroundings(), "rows": ROWS, "steps_of_a_turn": STEPS, **result}, indent=1) + "\n")


if __name__ == "__main__":
    main()

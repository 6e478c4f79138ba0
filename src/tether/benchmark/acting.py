"""How long an action takes: JAX, NumPy and onnxruntime in turns, for one observation and for many, each with one thread.

With several, threads of one wait for those of another and for whatever else the machine does: NumPy's products then take up to
eighty times as long.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tether.benchmark.speed import SPEC
from tether.bonuses import BONUSES, FrozenBonus, frozen_template
from tether.export.model import INPUT, open_session, write_model
from tether.networks import Layers
from tether.policies import Policy
from tether.policies.deterministic import make_deterministic
from tether.runtime import Experience, load_policy
from tether.runtime.experience import quantiles
from tether.settings import to_named
from tether.storage import flatten_tree
from tether.types import Spec

SIZES = (1, 256)
BONUS = "rnd-film"
HIDDEN = (256, 256)
RUNNERS = {
    "JAX": "from tether import load_policy",
    "NumPy": "from tether.runtime import load_policy",
}


def make_policy(spec: Spec = SPEC, hidden: tuple[int, ...] = HIDDEN, **settings: Any) -> Policy:
    """TD3's actor with a bonus of usual sizes. Its weights are made up: they do not matter to the speed."""
    random = np.random.default_rng(0)
    bonus = BONUSES[BONUS](**settings)

    def made_up(leaf: Any) -> np.ndarray:
        return np.asarray(random.uniform(0.5, 1.0, leaf.shape) / max(np.sqrt(np.prod(leaf.shape[:-1])), 1.0), leaf.dtype)

    frozen: FrozenBonus = jax.tree.map(made_up, frozen_template(bonus, spec))
    observation = random.normal(size=(1_000, spec.observation_size)).astype(np.float32)
    action = random.uniform(-1.0, 1.0, (1_000, spec.action_size)).astype(np.float32)
    values, shares = quantiles(random.gamma(2.0, size=10_000))
    known = (values, shares, 10_000, 10, observation.min(axis=0), observation.max(axis=0), observation, action)
    experience = Experience(to_named(bonus, BONUSES), flatten_tree(frozen.state), *known)
    return Policy(make_deterministic(jax.random.key(0), spec, Layers(hidden)), spec, {}, experience)


def measure(folder: Path, rounds: int, calls: int, policy: Policy | None = None) -> list[dict[str, Any]]:
    """Each runner in turns, so that what else the machine does meets all: microseconds a call, medians and 99th percentiles."""
    policy = policy or make_policy()
    file, model = folder / "policy.safetensors", folder / "policy.onnx"
    policy.save(file)
    plain = load_policy(file)
    write_model(plain, model)
    session = open_session(model, threads=1)
    alone = folder / "alone.onnx"
    write_model(type(plain)(plain.actor, plain.spec), alone)
    actions_only = open_session(alone, threads=1)
    known = policy.experience
    assert known is not None
    found = []
    for size in SIZES:
        rows = np.resize(known.observation, (size, policy.spec.observation_size))
        asked = rows[0] if size == 1 else rows
        ways: dict[tuple[str, bool], Callable[[], Any]] = {
            ("JAX", False): partial(policy, asked),
            ("NumPy", False): partial(plain, asked),
            ("onnxruntime", False): partial(actions_only.run, None, {INPUT: rows}),
            ("JAX", True): partial(policy.act, asked, with_familiarity=True),
            ("NumPy", True): partial(plain.act, asked, with_familiarity=True),
            ("onnxruntime", True): partial(session.run, None, {INPUT: rows}),
        }
        times: dict[tuple[str, bool], list[float]] = {way: [] for way in ways}
        for call in ways.values():
            call()  # compiles
        for _ in range(rounds):
            for way, call in ways.items():
                for _ in range(calls):
                    began = time.perf_counter()
                    call()
                    times[way].append(time.perf_counter() - began)
        for (runner, familiarity), taken in times.items():
            middle, slow = np.quantile(taken, (0.5, 0.99)) * 1e6
            facts = {"runner": runner, "rows": size, "familiarity": familiarity, "calls": len(taken)}
            found.append(facts | {"microseconds_median": float(middle), "microseconds_p99": float(slow)})
    return found


def measure_start(file: Path, rounds: int) -> dict[str, list[float]]:
    """Seconds from a new process to its first action, Python's own start taken off, by runner."""
    found: dict[str, list[float]] = {name: [] for name in RUNNERS}
    for _ in range(rounds):
        empty = _seconds("pass")
        for name, imported in RUNNERS.items():
            script = f"{imported}\npolicy = load_policy({str(file)!r})\npolicy([0.0] * policy.spec.observation_size)"
            found[name].append(_seconds(script) - empty)
    return found


def _seconds(script: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", script], check=True)
    return time.perf_counter() - began

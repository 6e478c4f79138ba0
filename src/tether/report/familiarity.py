"""What familiarity makes of recorded pairs, of the policy's own actions, and of observations that move away from the data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tether.errors import TetherError
from tether.report.figures import COLOURS, GREY, save_figure, style
from tether.runtime.acting import experience_of
from tether.runtime.experience import UNUSUAL
from tether.runtime.file import Policy

SHIFTS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)  # standard deviations by which one column is moved
LEVELS = np.linspace(0.0, 1.0, 201)


def measure(policy: Policy, observation: np.ndarray, action: np.ndarray) -> dict[str, Any]:
    """Plain numbers: familiarity of the recorded pairs, of the policy's and of random actions, and of shifted observations.

    `shifted` has for each shift, over rows of which one column at random was moved: the quantiles of the policy's own actions.
    """
    experience, spec = experience_of(policy), policy.spec
    if observation.shape[1] != spec.observation_size or action.shape[1] != spec.action_size:
        raise TetherError(
            f"the data has {observation.shape[1]} numbers in an observation and {action.shape[1]} in an action, the policy "
            f"{spec.observation_size} and {spec.action_size}; it is of another task"
        )
    random = np.random.default_rng(0)

    def familiarity(rows: np.ndarray, actions: np.ndarray) -> np.ndarray:
        return experience.familiarity(policy.novelty(rows, actions))

    other = random.uniform(spec.action_low, spec.action_high, action.shape).astype(np.float32)
    if spec.discrete:
        other = np.eye(spec.action_size, dtype=np.float32)[random.integers(spec.action_size, size=len(action))]
    kinds = {
        "recorded": familiarity(observation, action),
        "policy": familiarity(observation, policy.rows_to_actions(observation)),
        "random": familiarity(observation, other),
    }
    spread = observation.std(axis=0, dtype=np.float64)
    rows, columns = np.arange(len(observation)), random.integers(spec.observation_size, size=len(observation))
    signs = random.choice([-1.0, 1.0], len(observation))
    unit = np.where(spread < 1e-6, 1.0, spread)[columns] * signs
    shifted = []
    for shift in SHIFTS:
        moved = np.array(observation, np.float32)
        moved[rows, columns] += shift * unit
        found = familiarity(moved, policy.rows_to_actions(moved))
        low, middle, high = np.quantile(found, (0.1, 0.5, 0.9))
        facts = {"p10": low, "median": middle, "p90": high, "unusual": np.mean(found < UNUSUAL)}
        shifted.append({"shift": shift, **{name: float(value) for name, value in facts.items()}})
    return {
        "bonus": experience.bonus.get("name"),
        "held_out_pairs": experience.pairs,
        "held_out_episodes": experience.episodes,
        "pairs": len(observation),
        "share_below": {
            kind: {str(level): float(np.mean(found <= level)) for level in (0.01, 0.05, 0.1, 0.5, 0.9)}
            for kind, found in kinds.items()
        },
        "curves": {kind: [float(np.mean(found <= level)) for level in LEVELS] for kind, found in kinds.items()},
        "shifted": shifted,
    }


def draw_familiarity(measured: Mapping[str, dict[str, Any]], path: Path) -> None:
    """Left: the share of pairs below each level, which for recorded ones is the diagonal. Right: what a shift does."""
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(13, 5.4), layout="constrained")
        left, right = figure.subplots(1, 2)
        left.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=":", label="calibrated")
        lines = {"recorded": "-", "policy": "--"}
        words = {"recorded": "recorded pairs", "policy": "the policy's actions"}
        for colour, (name, found) in zip(COLOURS, measured.items(), strict=False):
            for kind, line in lines.items():
                left.plot(LEVELS, found["curves"][kind], line, color=colour, label=f"{name}: {words[kind]}")
            shifts = [entry["shift"] for entry in found["shifted"]]
            right.plot(shifts, [entry["median"] for entry in found["shifted"]], "-o", color=colour, label=f"{name}: median")
            bounds = ([entry[end] for entry in found["shifted"]] for end in ("p10", "p90"))
            right.fill_between(shifts, *bounds, color=colour, alpha=0.15, linewidth=0)
        left.set(xlabel="familiarity", ylabel="share of pairs at or below it", xlim=(0, 1), ylim=(0, 1))
        left.set_title("data that nothing was fitted to")
        right.set(xlabel="one column moved by so many standard deviations", ylabel="familiarity", yscale="log")
        right.set_title("observations that leave the data (10% to 90%)")
        right.axhline(UNUSUAL, color=GREY, linewidth=1, linestyle=":")
        left.legend(loc="upper left", fontsize=9)
        right.legend(loc="lower left", fontsize=10)
        save_figure(figure, path)

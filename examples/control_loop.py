"""A policy file back in a control loop: NumPy alone, sensors by name, and the motor off where the policy knows nothing.

    python examples/control_loop.py policy.safetensors --out loop.png

The plant is that of examples/messy_log.py. It runs ten seconds as it was logged, and then ten seconds with a speed sensor that
shows three times as much. Below the threshold of familiarity the motor is off.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from matplotlib.figure import Figure
from messy_log import hand_tuned

from tether.runtime import OutsideRange, load_policy

RUNS = {"as it was logged": 1.0, "speed sensor shows three times as much": 3.0}


def sensors(observation: np.ndarray, gain: float) -> dict[str, float]:
    """What the bench measures, by the names of its log."""
    cos, sin, speed = map(float, observation)
    return {"Drehzahl [mrad/s]": 1000.0 * gain * speed, "Winkel sin": sin, "Winkel cos": cos}  # in any order


def drive(policy: Any, seed: int, gain: float, threshold: float) -> dict[str, np.ndarray]:
    """One run of ten seconds; without a policy, of the controller that made the log, without its noise."""
    plant = gymnasium.make("Pendulum-v1")
    observation, _ = plant.reset(seed=seed)
    rows, stopped = [], False
    while not stopped:
        seen = sensors(observation, gain)
        if policy is None:
            action, familiarity = [hand_tuned(seen["Winkel cos"], seen["Winkel sin"], seen["Drehzahl [mrad/s]"] / 1000.0)], 1.0
        else:
            action, familiarity = policy.act(seen, with_familiarity=True)
        off = bool(familiarity < threshold)
        torque = 0.0 if off else float(action[0])
        upright = np.degrees(np.arctan2(observation[1], observation[0]))
        observation, reward, _, stopped, _ = plant.step(np.array([torque], np.float32))
        rows.append((upright, torque, float(familiarity), off, float(reward)))
    plant.close()
    return dict(zip(("angle", "torque", "familiarity", "off", "reward"), np.array(rows).T, strict=True))


def draw(found: dict[str, dict[str, np.ndarray]], threshold: float) -> Figure:
    figure = Figure(figsize=(10.0, 6.0), layout="constrained")
    panels = figure.subplots(3, len(found), sharex=True, sharey="row", squeeze=False)
    for column, (name, run) in enumerate(found.items()):
        time = 0.05 * np.arange(len(run["angle"]))
        angle, torque, familiarity = panels[:, column]
        angle.plot(time, run["angle"], ".", markersize=3, color="#0072B2")
        angle.set_title(f"{name}\nreturn {run['reward'].sum():.0f}, motor off {run['off'].mean():.0%} of the time", fontsize=11)
        torque.plot(time, run["torque"], color="#D55E00", linewidth=1.0)
        familiarity.semilogy(time, run["familiarity"], color="#009E73", linewidth=1.0)
        familiarity.axhline(threshold, color="grey", linestyle="--", linewidth=1.0)
        familiarity.set_xlabel("seconds")
        for axes in panels[:, column]:
            axes.fill_between(time, 0, 1, where=run["off"] > 0, transform=axes.get_xaxis_transform(), color="grey", alpha=0.2)
    for axes, label in zip(panels[:, 0], ("degrees from upright", "torque [Nm]", "familiarity"), strict=True):
        axes.set_ylabel(label)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("policy", type=Path)
    parser.add_argument("--out", type=Path, default=Path("loop.png"))
    parser.add_argument("--threshold", type=float, default=0.01)
    parser.add_argument("--runs", type=int, default=20, help="of each kind, for the mean return")
    arguments = parser.parse_args()
    policy = load_policy(arguments.policy)
    print(f"{arguments.policy}: {', '.join(policy.about['columns']['observation'])} -> {policy.about['columns']['action'][0]}")
    shown = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutsideRange)  # it says so at every step
        for name, gain in RUNS.items():
            runs = [drive(policy, 9_000 + seed, gain, arguments.threshold) for seed in range(arguments.runs)]
            returns = np.array([run["reward"].sum() for run in runs])
            taken = np.mean([run["off"].mean() for run in runs])
            low = np.mean([np.mean(run["familiarity"] <= 0.05) for run in runs])
            unfamiliar = f"familiarity at most 0.05 in {low:.0%} of the steps, the motor off in {taken:.0%}"
            former = np.array([drive(None, 9_000 + seed, gain, 0.0)["reward"].sum() for seed in range(arguments.runs)])
            print(f"{name}, the hand-tuned controller: return {former.mean():.0f} ± {former.std():.0f}")
            print(f"{name}: return {returns.mean():.0f} ± {returns.std():.0f}, {unfamiliar}")
            shown[name] = runs[0]
    draw(shown, arguments.threshold).savefig(arguments.out, dpi=120)
    print(arguments.out)


if __name__ == "__main__":
    main()

"""Make a log such as a test bench writes: a Parquet file a shift, with units, a block written twice, a dropout and a pause.

    python examples/pendulum_log.py logs/

The bench is Gymnasium's Pendulum-v1: a motor swings an arm up and holds it there. A hand-tuned controller runs it, with a good
deal of trial and error in its torque. docs/data.md imports the files and trains on them.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta
from pathlib import Path

import gymnasium
import numpy as np
import pyarrow
import pyarrow.parquet

PERIOD = timedelta(milliseconds=50)  # Pendulum-v1 has 20 steps a second
UNITS = {"arm_cos": "1", "arm_sin": "1", "arm_speed": "rad/s", "motor_torque": "N m", "reward": "1"}


def hand_tuned(observation: np.ndarray, random: np.random.Generator) -> float:
    """Pump energy in until the arm is nearly up, then hold it; with noise."""
    cos, sin, speed = observation
    if cos > 0.9:
        torque = -8.0 * np.arctan2(sin, cos) - 2.0 * speed
    else:
        energy = 0.5 * speed**2 + 15.0 * (cos - 1.0)  # 0 where it stands upright at rest
        torque = -0.4 * energy * np.sign(speed)
    return float(np.clip(torque + random.normal(0.0, 0.7), -2.0, 2.0))


def record(shift: int, runs: int) -> pyarrow.Table:
    """The rows of one shift as a logger would have them."""
    environment = gymnasium.make("Pendulum-v1")
    random = np.random.default_rng(shift)
    clock = datetime(2026, 3, 2 + shift, 6, tzinfo=UTC)
    rows: list[dict[str, object]] = []
    for run in range(runs):
        observation, _ = environment.reset(seed=1000 * shift + run)
        stopped = False
        while not stopped:
            torque = hand_tuned(observation, random)
            following, reward, _, stopped, _ = environment.step(np.array([torque], np.float32))
            rows.append(
                {
                    "time": clock,
                    "run": f"s{shift}r{run}",
                    "arm_cos": float(observation[0]),
                    "arm_sin": float(observation[1]),
                    "arm_speed": float(observation[2]),
                    "motor_torque": torque,
                    "reward": float(reward),
                    "stopped": stopped,
                }
            )
            observation, clock = following, clock + PERIOD
        clock += timedelta(minutes=2)
    environment.close()
    spoil(rows)
    table = pyarrow.Table.from_pylist(rows)
    fields = [field.with_metadata({"unit": UNITS[field.name]}) if field.name in UNITS else field for field in table.schema]
    return table.cast(pyarrow.schema(fields))


def spoil(rows: list[dict[str, object]]) -> None:
    """What happens to real logs: a sensor drops out, an operator pauses a run, a block is written twice."""
    for row in rows[250:253]:
        row["arm_speed"] = None
    for row in rows[520:600]:  # the rest of its run comes three seconds late
        row["time"] = row["time"] + timedelta(seconds=3)  # type: ignore[operator]
    rows[900:900] = [dict(row) for row in rows[880:900]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shifts", type=int, default=5)
    parser.add_argument("--runs", type=int, default=20, help="runs of ten seconds in each shift")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for shift in range(arguments.shifts):
        path = arguments.folder / f"shift_{shift}.parquet"
        pyarrow.parquet.write_table(record(shift, arguments.runs), path)
        print(path)


if __name__ == "__main__":
    main()

"""Make a log as a German test bench writes it: three CSV files, in three encodings, with all the mess of real ones.

    python examples/messy_log.py logs/

The bench is Gymnasium's Pendulum-v1: a motor swings an arm up and holds it there. A hand-tuned controller runs it, with a good
deal of trial and error in its torque. The clock shows local time, and one night summer time ends in the middle of a run. Its
angular speed is in mrad/s, so that columns differ in size by thousands. docs/your-log.md goes from these files to a controller.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import gymnasium
import numpy as np

PERIOD = timedelta(milliseconds=50)  # Pendulum-v1 has 20 steps a second
ZONE = ZoneInfo("Europe/Berlin")
HEADER = ["Zeit", "Lauf", "Winkel cos", "Winkel sin", "Drehzahl [mrad/s]", "Moment [Nm]", "Güte", "Ende"]
# The night of 25 to 26 October 2025: at 03:00 the clock went back to 02:00. That was 01:00 in UTC, within the third run.
SHIFTS = {
    "bank_freitag.csv": (datetime(2025, 10, 24, 4, 0, tzinfo=UTC), "cp1252", ";"),
    "bank_nacht.csv": (datetime(2025, 10, 26, 0, 55, 35, tzinfo=UTC), "utf-16", ";"),
    "bank_montag.csv": (datetime(2025, 10, 27, 5, 0, tzinfo=UTC), "utf-8-sig", "\t"),
}


def hand_tuned(cos: float, sin: float, speed: float) -> float:
    """Pump energy in until the arm is nearly up, then hold it. Speed is in rad/s."""
    if cos > 0.9:
        torque = -8.0 * np.arctan2(sin, cos) - 2.0 * speed
    else:
        energy = 0.5 * speed**2 + 15.0 * (cos - 1.0)  # 0 where it stands upright at rest
        torque = -0.4 * energy * np.sign(speed)
    return float(np.clip(torque, -2.0, 2.0))


def record(shift: int, start: datetime, runs: int) -> list[list[str]]:
    """The rows of one shift, as text."""
    environment, random, clock = gymnasium.make("Pendulum-v1"), np.random.default_rng(shift), start
    rows: list[list[str]] = []
    for run in range(runs):
        observation, _ = environment.reset(seed=1000 * shift + run)
        stopped = False
        while not stopped:
            cos, sin, speed = map(float, observation)
            torque = float(np.clip(hand_tuned(cos, sin, speed) + random.normal(0.0, 0.7), -2.0, 2.0))
            observation, reward, _, stopped, _ = environment.step(np.array([torque], np.float32))
            numbers = [german(value, 4) for value in (cos, sin)] + [
                german(1000.0 * speed, 1),
                german(torque, 4),
                german(float(reward), 5),
            ]
            rows.append([spell(clock), f"S{shift}-{run:03}", *numbers, "ja" if stopped else "nein"])
            clock += PERIOD
        clock += timedelta(minutes=2)
    environment.close()
    return rows


def german(value: float, digits: int) -> str:
    """`-1234.5` as `-1.234,5`."""
    return f"{value:,.{digits}f}".translate(str.maketrans(",.", ".,"))


def spell(moment: datetime) -> str:
    """What a clock in Berlin shows, without its zone."""
    return moment.astimezone(ZONE).strftime("%d.%m.%Y %H:%M:%S,%f")[:-3]


def spoil(rows: list[list[str]]) -> None:
    """A sensor drops out, a block is written twice, and some rows are written again with a corrected reward."""
    for row in rows[250:253]:
        row[4] = ""
    rows[900:900] = [list(row) for row in rows[880:900]]
    for row in rows[700:705]:
        row[6] = german(-99.0, 5)
    corrected = [[*row[:6], german(-1.0, 5), row[7]] for row in rows[700:705]]
    rows[705:705] = corrected


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=40, help="runs of ten seconds in each shift")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for shift, (name, (start, encoding, delimiter)) in enumerate(SHIFTS.items()):
        rows = record(shift, start, arguments.runs)
        spoil(rows)
        lines = [delimiter.join(line) for line in (HEADER, *rows)]
        if shift == 0:
            lines[0:0] = ["# Prüfstand 7, Firmware 1.2", "# Regler: von Hand eingestellt"]
            lines[600:600] = ["# 06:12 Lager geschmiert"]
        if shift == 1:
            lines[-1] = lines[-1][:25]  # the power went off
        (arguments.folder / name).write_bytes("\r\n".join(lines).encode(encoding))
        print(arguments.folder / name)


if __name__ == "__main__":
    main()

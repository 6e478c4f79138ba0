"""Two logs as `tether serve --log` writes them, of the held-out episodes: one as it is, and one with two drifts planted.

    python planted_drift.py held-out.hdf5

From row 6,000 (counted from 0) column 3 moves by three standard deviations within 500 rows; from row 8,000 column 11 is four
times as large. There are no actions in the logs, so that the policy's own are judged.
"""

import json
import sys

import h5py
import numpy as np

with h5py.File(sys.argv[1]) as file:
    rows = file["observations"][:]
moved = np.array(rows)
moved[6000:, 3] += 3.0 * rows[:, 3].std() * np.minimum(np.arange(len(rows) - 6000) / 500.0, 1.0)
moved[8000:, 11] *= 4.0
for name, found in {"same.jsonl": rows, "drift.jsonl": moved}.items():
    with open(name, "w") as file:
        for number, row in enumerate(found):
            file.write(json.dumps({"time": 1763356800 + 0.05 * number, "observation": row.tolist()}) + "\n")

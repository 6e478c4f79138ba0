"""Runs of a plan whose processes do nothing but what a line of Python says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tether.sweep import workers
from tether.sweep.expansion import PlannedRun, expand, find_data
from tether.sweep.plan import read_plan
from tether.sweep.workers import Slots

TWO = Slots(2, 1, ((0,), (1,)))
DONE = 'print(\'{"run": 0, "outcome": "done"}\')'


def planned(folder: Path, variants: str) -> list[PlannedRun]:
    path = folder / "plan.toml"
    path.write_text(f'out = "{folder}/runs"\ndatasets = ["halfcheetah-mixed-tether"]\n{variants}')
    plan = read_plan(path)
    return expand(plan, find_data(plan))


def scripted(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What the process of a variant does: a line of Python. All that are not named are done at once."""
    scripts: dict[str, str] = {}

    def start(job: dict[str, Any], threads: int, log: Any) -> subprocess.Popen[str]:
        script = scripts.get(Path(job["runs"][0]["folder"]).parent.name, DONE)
        given = [sys.executable, "-S", "-c", script, json.dumps(job)]
        return subprocess.Popen(given, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)

    monkeypatch.setattr(workers, "start_worker", start)
    return scripts

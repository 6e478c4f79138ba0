"""The process of one run, or of several seeds as one program: `python -m tether.sweep.worker JOB`, with the job as JSON.

It is started by the head and ends with it: standard input is a pipe that the head never writes to, so its end means that the
head has asked to stop, or is dead. The runs are then saved after the epoch under way, as by Ctrl-C.
Standard output carries a line of JSON for each run as it ends, its outcome; whatever else is printed goes to standard error,
which is the log.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tether.cores import pin

DONE, BUSY, INTERRUPTED, FAILED = "done", "busy", "interrupted", "failed"
SECONDS_TO_SAVE = 600.0  # after which a worker whose head is gone ends without saving; an epoch takes less on any machine


def main(text: str) -> None:
    report = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    threading.Thread(target=_end_with_the_head, daemon=True).start()
    job = json.loads(text)
    if "runs" not in job:  # by a head that was started before an upgrade: of one run alone
        job["runs"] = [{"seed": job["config"]["seed"], "folder": job["folder"]}]
    pin(job["cores"])
    told: set[int] = set()

    def tell(number: int, outcome: dict[str, Any]) -> None:
        told.add(number)
        print(json.dumps({"run": number, **outcome}), file=report, flush=True)

    outcome = _train(job, tell)
    for number in range(len(job["runs"])):
        if number not in told:
            tell(number, outcome)


def _end_with_the_head() -> None:
    # A bare read: sys.stdin has a lock, which the end of the interpreter would wait for.
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(SECONDS_TO_SAVE)
    os.kill(os.getpid(), signal.SIGKILL)


def _train(job: dict[str, Any], tell: Callable[[int, dict[str, Any]], None]) -> dict[str, Any]:
    """Make the runs, and tell how each ended; what is given back is how all ended that nothing was told of."""
    from tether.config import from_json
    from tether.training.group import run_together
    from tether.training.run import run

    runs = job["runs"]
    try:
        configs = [replace(from_json(job["config"]), seed=one["seed"]) for one in runs]
        folders = [Path(one["folder"]) for one in runs]
        if len(runs) == 1:
            run(configs[0], folders[0], wandb=job.get("wandb"))
        else:
            run_together(configs, folders, lambda number, error: tell(number, _outcome(error)))
        return {"outcome": DONE}
    except (Exception, KeyboardInterrupt) as error:
        outcome = _outcome(error)
        if outcome.get("kind") == "crash" and len(runs) > 1:
            outcome["reason"] += f" ({len(runs)} seeds in one program; a smaller --together needs less memory)"
        return outcome


def _outcome(error: BaseException | None) -> dict[str, Any]:
    """How a run ended, and in the log what only a developer can use."""
    from tether import storage
    from tether.errors import TetherError
    from tether.training.divergence import Diverged

    if error is None:
        return {"outcome": DONE}
    if isinstance(error, storage.Busy):
        return {"outcome": BUSY}
    if isinstance(error, KeyboardInterrupt):
        return {"outcome": INTERRUPTED}
    if isinstance(error, TetherError):
        print(f"error: {error}", file=sys.stderr)
        return {"outcome": FAILED, "kind": "diverged" if isinstance(error, Diverged) else "error", "reason": str(error)}
    traceback.print_exception(error)  # a defect of ours, or no memory: the others go on
    return {"outcome": FAILED, "kind": "crash", "reason": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    main(sys.argv[1])

"""The process of one run: `python -m tether.sweep.worker JOB`, with the job as JSON.

It is started by the head and ends with it: standard input is a pipe that the head never writes to, so its end means that the
head has asked to stop, or is dead. The run is then saved after the epoch under way, as by Ctrl-C.
Standard output carries one line of JSON, the outcome; whatever else is printed goes to standard error, which is the log.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
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
    pin(job["cores"])
    outcome = _train(job["config"], Path(job["folder"]), job.get("wandb"))
    print(json.dumps(outcome), file=report, flush=True)


def _end_with_the_head() -> None:
    # A bare read: sys.stdin has a lock, which the end of the interpreter would wait for.
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(SECONDS_TO_SAVE)
    os.kill(os.getpid(), signal.SIGKILL)


def _train(config: dict[str, Any], folder: Path, wandb: str | None) -> dict[str, Any]:
    """Make the run, and say how it ended."""
    from tether import storage
    from tether.config import from_json
    from tether.errors import TetherError
    from tether.training.divergence import Diverged
    from tether.training.run import run

    try:
        run(from_json(config), folder, wandb=wandb)
        return {"outcome": DONE}
    except storage.Busy:
        return {"outcome": BUSY}
    except KeyboardInterrupt:
        return {"outcome": INTERRUPTED}
    except TetherError as error:
        print(f"error: {error}", file=sys.stderr)
        return {"outcome": FAILED, "kind": "diverged" if isinstance(error, Diverged) else "error", "reason": str(error)}
    except Exception as error:  # a defect of ours, or no memory: the others go on
        traceback.print_exc()
        return {"outcome": FAILED, "kind": "crash", "reason": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    main(sys.argv[1])

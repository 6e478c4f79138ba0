"""Who is at work: locks on files, which end with the process that holds them, however that ends."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from tether.errors import TetherError

SECONDS_BETWEEN_TRIES = 0.1


def is_held(folder: Path) -> bool:
    """Whether another process is inside `storage.exclusive(folder)`. It keeps nobody out, but for the moment of asking."""
    try:
        import fcntl

        with open(folder / ".lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (ImportError, OSError):
        return False
    return False


@contextmanager
def one_at_a_time(path: Path, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
    """Let one process after the other into the block, by the lock file `path`. However a process ends, the next one gets in.

    `on_wait` is called again and again while another is inside; it may raise. Where files cannot be locked, nobody is kept out.
    The file is there only while somebody is inside, or was and died.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = open(path, "a")  # noqa: SIM115 -- held open for the whole of the block
        except OSError as error:
            raise TetherError(f"cannot write {path}: {error.strerror or error}") from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if on_wait is not None:
                    on_wait()
                time.sleep(SECONDS_BETWEEN_TRIES)
                continue
            except OSError:  # a network mount without locks
                pass
            if not _is_at(lock, path):  # it was opened before whoever held it removed it: nobody else would see this one
                continue
            try:
                yield
            finally:
                with suppress(OSError):
                    path.unlink()
            return


def _is_at(file: IO[str], path: Path) -> bool:
    """Whether the open file is the one of that name now."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False

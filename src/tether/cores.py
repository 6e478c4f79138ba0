"""Which cores a process may use, and how a process that it starts is held to some of them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path


def available_cores() -> list[int]:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def thread_limits(threads: int) -> dict[str, str]:
    """Environment variables for a process of so many threads. Its cores alone do not say it to every library."""
    names = ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    limits = dict.fromkeys(names, str(threads))
    if threads == 1:  # no pool of threads at all, where there would be one in it
        limits["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
    return limits


def pin(cores: Sequence[int]) -> None:
    """Hold this process to these cores, where the system can. Before JAX is imported: it counts them once."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)


@contextmanager
def claimed(number: int, preferred: Sequence[int] = ()) -> Iterator[tuple[int, ...]]:
    """So many cores that nobody on this machine has claimed, if they are free the preferred; too few: some that others have too.

    For workers of several sweeps, or whose head is on another machine: no head knows by itself which cores are free here. A
    claim ends with its process.
    """
    cores = [*preferred, *(core for core in available_cores() if core not in preferred)]
    with ExitStack() as stack:
        free: list[int] = []
        for core in cores:
            if len(free) == number:
                break
            if _claim(core, stack):
                free.append(core)
        others = [core for core in cores if core not in free]
        yield tuple(free + others[: max(0, number - len(free))])


def unclaimed() -> int:
    """How many cores nobody on this machine has claimed now."""
    with ExitStack() as stack:
        return sum(_claim(core, stack) for core in available_cores())


def _claim(core: int, stack: ExitStack) -> bool:
    """Whether it was free; it is ours until the stack is closed. Where there is no way to claim cores, every core is free."""
    try:
        import fcntl
    except ImportError:
        return True
    folder = Path(tempfile.gettempdir()) / f"tether-cores-{os.getuid()}"
    try:
        folder.mkdir(exist_ok=True)
        lock = os.open(folder / str(core), os.O_CREAT | os.O_RDWR)
        stack.callback(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # no place for the lock
        return True
    return True

"""Which cores a process may use, and how a process that it starts is held to some of them."""

from __future__ import annotations

import os
from collections.abc import Sequence


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

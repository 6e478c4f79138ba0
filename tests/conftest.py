"""Settings and fixtures for every test: strict JAX, the shared data where it is there, a cache of the test's own."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tether.runs.reading import Run

os.environ.setdefault("JAX_NUMPY_RANK_PROMOTION", "raise")
os.environ.setdefault("JAX_DEBUG_KEY_REUSE", "true")  # a key used twice is an error, where it can be seen

# A shell that runs the tests in the background lets them, and all they start, ignore Ctrl-C; tests of it would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Small programs, of which each is run a little: most of the suite's time is compiling. Unoptimised code saves a third of it, the
# older way of making code for fused operations a third of the rest, and code in one piece a little more.
QUICKLY = (
    "--xla_backend_optimization_level=0",
    "--xla_cpu_use_fusion_emitters=false",
    "--xla_cpu_parallel_codegen_split_count=1",
)
os.environ.setdefault("XLA_FLAGS", " ".join(QUICKLY))

# What one process has compiled, the next one reads: tests that kill a run start it again and again, and both halves of the
# suite compile much of the same.
COMPILED = tempfile.mkdtemp(prefix="tether-compiled-")
atexit.register(shutil.rmtree, COMPILED, ignore_errors=True)
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", COMPILED)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.05")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The development data beside the repository. Users do not have it."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("needs ../shared/data, which is not part of the repository")
    return folder


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fits go to a folder that all tests share and no user does, so that a fit is made once a session."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TETHER_CACHE", str(tmp_path_factory.getbasetemp() / "tether-cache"))
        yield


@pytest.fixture(scope="session")
def pendulum_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty short episodes of InvertedDoublePendulum-v5 as a D4RL file."""
    from pendulum import write_episodes

    return write_episodes(tmp_path_factory.mktemp("data") / "pendulum.hdf5")


@pytest.fixture(scope="session")
def finished_run(pendulum_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small run of TD3-CVAE that nothing interrupted. Tests look at it and leave it as it is."""
    from pendulum import quietly, small_config

    folder = tmp_path_factory.mktemp("runs") / "unbroken"
    quietly(small_config(pendulum_file), folder)
    return folder


@pytest.fixture(scope="session")
def interrupted_run(pendulum_file: Path, finished_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the same run, interrupted after its first epoch. Tests copy it before they change it."""
    from pendulum import interrupting, quietly, small_config

    folder = tmp_path_factory.mktemp("runs") / "interrupted"
    say, _ = interrupting("bonus:")
    with pytest.raises(KeyboardInterrupt):
        quietly(small_config(pendulum_file), folder, say)
    return folder


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Run]:
    """Write a run folder small enough to check by eye, and read it."""
    from small_runs import write_and_read

    return partial(write_and_read, tmp_path)

"""Sweeps on Ray. What needs no cluster is tested without one; the slow test pulls the plugs of a simulated one."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import pytest
from pendulum import small_config, snapshot
from test_losing_nothing import PATIENCE, started, statuses, wait_for, workers_in, write_plan

from tether import cli, storage
from tether.config import to_json
from tether.errors import TetherError
from tether.runs.reading import find_runs
from tether.sweep.on_ray import RayWorker, Runner, check_reachable, connected, passed_on, room
from tether.sweep.records import last_step


def test_there_is_room_for_as_many_runs_as_each_machine_has_cores_and_gpus_for():
    def machine(cores: float, gpus: float = 0.0, alive: bool = True) -> dict[str, Any]:
        return {"Alive": alive, "Resources": {"CPU": cores, "GPU": gpus, "memory": 1e9}}

    machines = [machine(3), machine(4, gpus=1), machine(64, alive=False), {"Alive": True, "Resources": {}}]
    assert room(machines, 1, 0.0) == 7
    assert room(machines, 2, 0.0) == 3  # a core of the first is left over
    assert room(machines, 1, 0.25) == 4  # four share the one GPU
    assert room(machines, 1, 0.1) == 4  # ten would, but there are four cores beside it
    assert room([], 1, 0.0) == 0


def test_workers_have_the_heads_settings_of_jax_and_their_share_of_a_gpus_memory():
    head = {"JAX_PLATFORMS": "cpu", "HOME": "/home/me", "XLA_FLAGS": "--x"}
    assert passed_on(head, 0.0) == passed_on(head, 1.0) == {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--x"}
    assert passed_on({}, 0.25) == {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.225"}  # a tenth is left for what is not JAX's
    assert passed_on({"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.5"}, 0.25) == {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.5"}


def job_for(folder: Path, data: Path, **changes: Any) -> dict[str, Any]:
    config = to_json(small_config(data, training__steps=400, training__evaluate_every=400))
    job = {
        "config": config,
        "runs": [{"seed": 0, "folder": str(folder / "run")}],
        "log": str(folder / "log"),
        "sees": str(folder),
        "cwd": str(folder),
    }
    return job | {"threads": 1, "version": version("tether-rl"), "environment": {}} | changes


def test_a_machine_that_does_not_fit_refuses_with_the_reason(tmp_path: Path, pendulum_file: Path):
    for changes, reason in (
        ({"version": "0.0.1"}, f" has tether {version('tether-rl')} and the head 0.0.1; all machines need the same"),
        ({"sees": "/nowhere/runs"}, " does not see /nowhere/runs; runs and data are in folders that all machines share"),
    ):
        answer = json.loads(Runner().run(json.dumps(job_for(tmp_path, pendulum_file, **changes))))
        outcome = json.loads(answer["report"])
        assert (outcome["outcome"], outcome["kind"]) == ("failed", "error")
        assert outcome["reason"].endswith(reason)
    assert not (tmp_path / "run").exists()


def test_an_actor_that_was_asked_to_save_before_its_process_is_there_makes_no_run(tmp_path: Path, pendulum_file: Path):
    runner = Runner()
    runner.save()
    answer = json.loads(runner.run(json.dumps(job_for(tmp_path, pendulum_file))))
    assert answer["code"] == -signal.SIGTERM or json.loads(answer["report"])["outcome"] == "interrupted"
    assert not (tmp_path / "run" / "result.json").exists()


class Answer:
    """What an actor was asked for; not there before it is said."""

    def __init__(self, value: Any = None) -> None:
        self.value = value


class RayOfOneActor:
    """As much of Ray as the head needs for the actor of two runs, of which one has ended."""

    class exceptions:  # noqa: N801 -- Ray's module of that name
        class RayError(Exception):
            pass

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.lines_answer = Answer(['{"run": 1, "outcome": "failed"}\n'])

    def __getattr__(self, name: str) -> Any:
        def remote(*given: Any) -> Answer:
            self.asked.append(name)
            return self.lines_answer if name == "lines" else Answer()

        return type("Method", (), {"remote": staticmethod(remote)})

    def wait(self, answers: list[Answer], timeout: float) -> tuple[list[Answer], list[Answer]]:
        there = [answer for answer in answers if answer.value is not None]
        return there, [answer for answer in answers if answer.value is None]

    def get(self, answer: Answer) -> Any:
        if isinstance(answer.value, Exception):
            raise answer.value
        return answer.value


def test_the_head_hears_of_a_run_of_a_program_before_the_others_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tether.sweep.on_ray.SECONDS_BETWEEN_COUNTS", 0.0)
    ray = RayOfOneActor()
    two = RayWorker(ray, ray, {"runs": [{}, {}]})
    assert [*two.lines()] == []  # it is asked, and nobody waits for the answer
    assert [*two.lines()] == ['{"run": 1, "outcome": "failed"}\n']
    assert two.ended() is None
    ray.lines_answer = Answer(ray.exceptions.RayError("its machine is gone"))
    assert [*two.lines(), *two.lines()] == ['{"run": 1, "outcome": "failed"}\n'] * 2  # what was heard stays
    one = RayWorker(ray, ray, {"runs": [{}]})
    ray.asked.clear()
    assert [*one.lines()] == [*one.lines()] == []
    assert "lines" not in ray.asked  # there is nothing to hear of one run before its end


def test_a_machine_that_refuses_says_so_of_every_run_of_a_program(tmp_path: Path, pendulum_file: Path):
    runs = [{"seed": seed, "folder": str(tmp_path / f"s{seed}")} for seed in (0, 1)]
    answer = json.loads(Runner().run(json.dumps(job_for(tmp_path, pendulum_file, runs=runs, version="0.0.1"))))
    assert [json.loads(line)["run"] for line in answer["report"].splitlines()] == [0, 1]
    assert answer["report"].count("all machines need the same") == 2


@pytest.mark.parametrize("flags", [["--address", "auto"], ["--gpus", "1"]])
def test_flags_of_ray_are_refused_for_processes(flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert cli.main(["sweep", str(tmp_path / "plan.toml"), "--backend", "processes", *flags]) == 2
    assert capsys.readouterr().err == (
        f"error: {flags[0]} is for --backend ray; processes on this machine take --workers and --threads\n"
    )


@pytest.mark.parametrize("address", ["ray://10.0.0.1:10001", "10.0.0.1", ":6379"])
def test_an_address_that_is_none_is_refused(address: str):
    with pytest.raises(TetherError, match=rf"^--address is '{address}'; it takes auto, or HOST:PORT"):
        check_reachable(address)


def test_an_address_where_nobody_answers_is_refused_at_once():
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(TetherError, match=r"^nobody answers at 127.0.0.1:\d+: Connection refused; `ray start --head` says"):
            check_reachable(f"127.0.0.1:{taken.getsockname()[1]}")


def test_without_the_package_it_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setitem(sys.modules, "ray", None)
    (tmp_path / "plan.toml").write_text(f'out = "{tmp_path}/runs"\ndatasets = ["halfcheetah-mixed-tether"]\n')
    assert cli.main(["sweep", str(tmp_path / "plan.toml"), "--backend", "ray"]) == 2
    assert "needs the package ray; pip install 'tether-rl[ray]' brings it" in capsys.readouterr().err


class RayThatIsSlow:
    """As much of Ray as its start needs: the first `failures` fail as on a busy machine, and leave a process behind."""

    def __init__(self, failures: int, error: type[Exception] = Exception) -> None:
        self.left, self.error = failures, error
        self.inits: list[dict[str, Any]] = []
        self.processes: list[subprocess.Popen[bytes]] = []

    def init(self, **options: Any) -> None:
        self.inits.append(options)
        if self.left:
            self.left -= 1
            self.processes.append(subprocess.Popen(["sleep", "600"]))
            raise self.error("The current node timed out during startup.\nMore.")

    def shutdown(self) -> None:
        pass

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": {"CPU": 2.0}}]


@pytest.fixture
def rays_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that those which a start sets are gone after the test."""
    for name in ("RAY_USAGE_STATS_ENABLED", "RAY_gcs_server_port_wait_time_s", "RAY_kill_child_processes_on_worker_exit"):
        monkeypatch.setenv(name, os.environ.get(name, ""))
        monkeypatch.delenv(name)


@pytest.mark.usefixtures("rays_settings")
def test_a_ray_that_starts_too_slowly_is_started_again_and_nothing_of_it_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ray, said = RayThatIsSlow(2), []
    monkeypatch.setitem(sys.modules, "ray", ray)
    with connected(None, tmp_path, say=said.append) as backend:
        assert str(backend) == "Ray with room for 2 workers of 1 thread each"
    # One of our own, also where this machine belongs to a cluster: Ray would take that one, and then refuse to be told of cores.
    assert [options["address"] for options in ray.inits] == ["local"] * 3
    assert said == [
        f"Ray did not start: Exception: The current node timed out during startup. Try {number} of 3" for number in (2, 3)
    ]
    assert [process.wait(PATIENCE) for process in ray.processes] == [-signal.SIGTERM] * 2


@pytest.mark.usefixtures("rays_settings")
@pytest.mark.parametrize(
    ("error", "tries", "told"),
    [
        (Exception, 3, ("Ray did not start on this machine, tried 3 times: Exception: ", "leave out --backend ray")),
        (OSError, 1, ("Ray cannot be started on this machine: OSError: ",)),
    ],
)
def test_a_ray_that_never_starts_is_an_error_that_says_what_would_do(
    error: type[Exception],
    tries: int,
    told: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    ray = RayThatIsSlow(9, error)
    monkeypatch.setitem(sys.modules, "ray", ray)
    (tmp_path / "plan.toml").write_text(f'out = "{tmp_path}/runs"\ndatasets = ["halfcheetah-mixed-tether"]\n')
    assert cli.main(["sweep", str(tmp_path / "plan.toml"), "--backend", "ray"]) == 2
    err = capsys.readouterr().err
    assert all(words in err for words in told)
    assert len(ray.inits) == tries
    assert all(process.wait(PATIENCE) for process in ray.processes)
    assert not (tmp_path / "runs").exists()


@pytest.mark.usefixtures("rays_settings")
def test_a_cluster_that_does_not_let_us_in_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ray = RayThatIsSlow(1)
    monkeypatch.setitem(sys.modules, "ray", ray)
    with pytest.raises(TetherError, match=r"^no Ray cluster at auto that lets us in: .* takes RAY_AUTH_MODE=token"):
        connected("auto", tmp_path).__enter__()
    ray.processes[0].kill()
    ray.processes[0].wait()


# A real cluster


def needs_ray() -> None:
    if find_spec("ray") is None:  # not imported here: it starts threads, and warns
        pytest.skip("needs the package ray")


@contextmanager
def simulated(machines: int) -> Iterator[tuple[str, Any]]:
    """The address of a cluster of so many machines, and a function that tells it what to do."""
    needs_ray()
    command = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("cluster.py")), str(machines)]
    environment = os.environ | {"RAY_USAGE_STATS_ENABLED": "0"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin: IO[str] = process.stdin
        stdout: IO[str] = process.stdout

        def tell(what: str) -> str:
            if what:
                print(what, file=stdin, flush=True)
            while (line := stdout.readline()) and not line.startswith(("address ", "did it")):
                pass
            return line.split()[-1]

        try:
            yield tell(""), tell
        finally:
            stdin.close()
            timer = threading.Timer(60, process.kill)
            timer.start()
            process.wait()
            timer.cancel()


@pytest.mark.slow
def test_machines_go_workers_die_the_head_is_killed_and_nothing_is_lost(
    pendulum_file: Path, tmp_path: Path, finished_run: Path, capsys: pytest.CaptureFixture[str]
):
    steps = 200_000  # a minute on the fastest machine so far: both must still be at work when the second machine has come
    plan = write_plan(tmp_path, pendulum_file, "[0, 1]", training__steps=steps)
    folders = [tmp_path / "runs" / "pendulum" / "td3-cvae" / f"s{seed}" for seed in (0, 1)]

    def at_work(least: int) -> list[Path]:
        return [folder for folder in folders if least <= last_step(folder) < steps and str(folder) in workers_in(tmp_path)]

    with simulated(2) as (address, tell):
        with started(plan, "--address", address) as (head, said):
            # A machine goes, with a run on it.
            wait_for(lambda: len(at_work(200)) == 2, head)
            tell("remove")
            wait_for(lambda: "lost     " in said.read_text(), head)
            assert "; it is started again\n" in said.read_text()
            # Another comes, and takes a run.
            tell("add")
            wait_for(lambda: len(workers_in(tmp_path)) == 2, head)
            # The process of a run is killed.
            victim = wait_for(lambda: at_work(200), head)[0]
            os.kill(workers_in(tmp_path)[str(victim)], signal.SIGKILL)
            wait_for(lambda: "by SIGKILL; it is started again\n" in said.read_text(), head)
            wait_for(lambda: at_work(200), head)
            head.kill()
        wait_for(lambda: not workers_in(tmp_path))  # the head takes its workers along, wherever they are
        before = {folder: last_step(folder) for folder in folders}
        assert any(before.values())
        done = {folder: snapshot(folder) for folder in folders if (folder / "result.json").exists()}

        # The same command finishes what is missing.
        with started(plan, "--address", address) as (head, said):
            head.wait(timeout=5 * PATIENCE)
        assert head.returncode == 0, said.read_text()
    results = {run.path: run.result or {} for run in find_runs([tmp_path / "runs"])}
    assert set(results) == set(folders)
    assert all(result["resumed_from_step"] for result in results.values())
    for folder, content in done.items():
        assert snapshot(folder) == content  # finished runs are never made again
    assert "plan: 2 done; not running" in statuses(plan, capsys)


@pytest.mark.slow
def test_rays_own_cores_of_this_machine_and_ctrl_c(pendulum_file: Path, tmp_path: Path, finished_run: Path):
    needs_ray()
    plan = write_plan(tmp_path, pendulum_file, "[0]", training__steps=100_000)
    folder = tmp_path / "runs" / "pendulum" / "td3-cvae" / "s0"
    with started(plan, "--backend", "ray", "--workers", "1") as (head, said):
        wait_for(lambda: last_step(folder) >= 200, head)
        head.send_signal(signal.SIGINT)
        head.wait(timeout=PATIENCE)
    out = said.read_text()
    assert head.returncode == 130, out
    assert "to do by Ray with room for 1 worker of 1 thread each\n" in out
    assert "interrupted: the run under way saves its state; the same command goes on from there\n" in out
    wait_for(lambda: not workers_in(tmp_path))
    assert last_step(folder) == int(storage.read_tensors(folder / "checkpoint.safetensors")[1]["step"])


def test_ray_is_not_started_where_nothing_is_to_do(
    tmp_path: Path,
    pendulum_file: Path,
    finished_run: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr("tether.sweep.on_ray.connected", None)  # calling it would fail
    plan = write_plan(tmp_path, pendulum_file, "[0]", training__steps=3000, training__evaluate_every=1000)
    place = tmp_path / "runs" / "pendulum" / "td3-cvae" / "s0"
    place.parent.mkdir(parents=True)
    place.symlink_to(finished_run)
    assert cli.main(["sweep", str(plan), "--backend", "ray"]) == 0
    assert capsys.readouterr().out == f"plan: the run is done; tether report {tmp_path}/runs\n"


LATE = """import pathlib, sys, time
first = pathlib.Path(__file__).with_name("first")
if any(word.endswith("runtime_env/agent/main.py") for word in sys.orig_argv) and first.exists():
    first.unlink()
    time.sleep(60)
"""
START = """import pathlib
from tether.sweep.on_ray import connected
with connected(None, pathlib.Path.cwd()) as backend:
    print(backend)
"""


@pytest.mark.slow
def test_rays_own_processes_come_too_late_and_it_is_started_again(tmp_path: Path):
    needs_ray()
    (tmp_path / "sitecustomize.py").write_text(LATE)  # Python reads it whenever it starts
    (tmp_path / "first").touch()
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-W", "ignore", "-c", START]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=3 * PATIENCE)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Ray did not start: Exception: The current node timed out during startup.")
    assert lines[0].endswith(" Try 2 of 3")
    assert lines[-1].startswith("Ray with room for ")
    assert not (tmp_path / "first").exists()

"""Which runs are one program, and what the pool does with such programs: processes that only end as they are told to."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scripted import TWO, planned, scripted

from tether import storage
from tether.sweep.bundles import bundle_with, bundles_of
from tether.sweep.expansion import PlannedRun
from tether.sweep.pool import Pool
from tether.sweep.records import FAILED, RUNNING, Records
from tether.sweep.workers import Processes, Slots
from tether.training.interrupt import StopRequest

ONE = Slots(1, 1, ((0,),))
THREE = "seeds = [0, 1, 2]\n[variants.a]\n"


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    return scripted(monkeypatch)


def put_at(step: int, run: PlannedRun) -> None:
    """A checkpoint, as far as anybody looks at it."""
    storage.write_tensors(run.folder / "checkpoint.safetensors", {"step": np.asarray(step)}, {"step": str(step)})


def seeds(runs: list[PlannedRun], most: int) -> list[list[str]]:
    return [["/".join(run.name.split("/")[-2:]) for run in bundle.runs] for bundle in bundles_of(runs, most)]


def test_runs_that_differ_in_the_seed_alone_are_one_program(tmp_path: Path):
    text = 'seeds = [0, 1, 2]\n[variants.a]\n[variants.b]\n"agent.discount" = 0.9\n'
    runs = planned(tmp_path, text)
    assert seeds(runs, 1) == [["a/s0"], ["a/s1"], ["a/s2"], ["b/s0"], ["b/s1"], ["b/s2"]]
    assert seeds(runs, 2) == [["a/s0", "a/s1"], ["a/s2"], ["b/s0", "b/s1"], ["b/s2"]]
    assert seeds(runs, 9) == [["a/s0", "a/s1", "a/s2"], ["b/s0", "b/s1", "b/s2"]]
    assert bundles_of(runs, 9)[0].name == "halfcheetah-mixed-tether/tethered-density/a/s0, s1, s2"


def test_runs_that_stand_at_different_steps_or_cannot_be_read_are_apart(tmp_path: Path):
    runs = planned(tmp_path, "seeds = [0, 1, 2, 3, 4]\n[variants.a]\n")
    put_at(100, runs[0])
    put_at(200, runs[1])
    put_at(100, runs[2])
    assert seeds(runs, 9) == [["a/s0", "a/s2"], ["a/s1"], ["a/s3", "a/s4"]]
    (runs[0].folder / "checkpoint.safetensors").write_bytes(b"no checkpoint")
    assert seeds(runs, 9) == [["a/s0"], ["a/s1"], ["a/s2"], ["a/s3", "a/s4"]]


def test_another_seed_of_the_bonus_is_another_fit_and_so_another_program(tmp_path: Path):
    first = planned(tmp_path, "[variants.a]\n")[0]
    second = planned(tmp_path, 'seeds = [1]\n[variants.a]\n"bonus.seed" = 1\n')[0]
    assert first.folder.parent == second.folder.parent
    assert bundle_with(first, [second], 9).runs == (first,)


def carry_out(runs: list[PlannedRun], folder: Path, together: int, slots: Slots = ONE) -> tuple[list[str], Records]:
    said: list[str] = []
    records = Records(folder / "runs")
    Pool(records, Processes(slots), StopRequest(), said.append, show=False, together=together).carry_out(runs, "test")
    return said, records


def outcome(number: int, what: str, **more: str) -> str:
    return f"print({json.dumps(json.dumps({'run': number, 'outcome': what, **more}))}, flush=True)"


def test_each_run_of_a_program_has_its_own_end(tmp_path: Path, processes: dict[str, str]):
    runs = planned(tmp_path, THREE)
    lines = [outcome(1, "failed", kind="diverged", reason="critic/loss is nan"), outcome(0, "done"), outcome(2, "done")]
    processes["a"] = "; ".join(lines)
    said, records = carry_out(runs, tmp_path, together=3)
    place = runs[0].name.removesuffix("/s0")
    assert said[0] == f"started  {place}/s0, s1, s2 as one program"
    assert said[1] == f"failed   {place}/s1: critic/loss is nan"
    assert [line.split(" in ")[0] for line in said[2:]] == [f"done     {place}/s0", f"done     {place}/s2"]
    known = records.look(runs[1])
    assert (known.state, known.kind, known.reason) == (FAILED, "diverged", "critic/loss is nan")
    assert known.log == str(tmp_path / "runs" / "_sweep" / "logs" / f"{place}/s0-and-2-more.log")


def test_it_is_said_from_which_checkpoint_a_program_goes_on(tmp_path: Path, processes: dict[str, str]):
    runs = planned(tmp_path, "seeds = [0, 1]\n[variants.a]\n")
    processes["a"] = f"{outcome(0, 'done')}; {outcome(1, 'done')}"
    for run in runs:
        put_at(1000, run)
        (run.folder / "metrics.jsonl").write_text('{"step": 1700}\n')  # it was killed there, and those 700 are made again
    said, _ = carry_out(runs, tmp_path, together=2)
    assert said[0] == f"started  {runs[0].name}, s1 as one program, from step 1,000"


def test_a_failure_is_known_while_the_others_of_the_program_go_on(tmp_path: Path, processes: dict[str, str]):
    runs = planned(tmp_path, THREE)
    seen_enough = tmp_path / "seen-enough"  # until then the others go on
    wait = f"[time.sleep(0.05) for _ in range(6000) if not os.path.exists({str(seen_enough)!r})]"
    lines = [outcome(1, "failed", kind="diverged", reason="nan"), "import os, time", wait]
    processes["a"] = "; ".join([*lines, outcome(0, "done"), outcome(2, "done")])
    records = Records(tmp_path / "runs")
    seen: list[tuple[str, ...]] = []

    def say(line: str) -> None:
        seen.append((line.split()[0],))

    class Looking(StopRequest):
        """Asked all the time by the pool, so that this test can look at what is on disk meanwhile."""

        @property  # type: ignore[override]
        def asked(self) -> bool:
            place = records.folder / "now.json"
            if ("failed",) in seen and ("done",) not in seen and place.exists():
                running = json.loads(place.read_text())["running"]
                states = [records.look(run, running) for run in runs]
                seen.append(("states", *(known.state for known in states), *states[0].with_runs))
                if states[0].with_runs == (runs[2].name,):
                    seen_enough.touch()
            return False

        @asked.setter
        def asked(self, value: bool) -> None:
            pass

    Pool(records, Processes(ONE), Looking(), say, show=False, together=3).carry_out(runs, "test")
    assert ("states", RUNNING, FAILED, RUNNING, runs[2].name) in seen
    assert seen[0] == ("started",)
    assert seen[-1] == ("done",)


def test_a_killed_program_is_started_again_and_its_last_try_is_one_by_one(tmp_path: Path, processes: dict[str, str]):
    runs = planned(tmp_path, THREE)
    processes["a"] = f"import os; {outcome(0, 'done')}; os.kill(os.getpid(), 9)"
    said, records = carry_out(runs, tmp_path, together=3)
    place = runs[0].name.removesuffix("/s0")
    # The first is done, each time the first of those that there are; what was said before the death counts.
    assert [line.split(" in ")[0] for line in said] == [
        f"started  {place}/s0, s1, s2 as one program",
        f"done     {place}/s0",
        f"killed   {place}/s1, s2, by SIGKILL; they are started again",
        f"started  {place}/s1, s2 as one program",
        f"done     {place}/s1",
        f"killed   {place}/s2, by SIGKILL; it is started again",
        f"started  {place}/s2",
        f"done     {place}/s2",
    ]
    processes["a"] = "import os; os.kill(os.getpid(), 9)"
    said, records = carry_out(runs[:2], tmp_path, together=3)
    assert said[:-2] == [
        f"started  {place}/s0, s1 as one program",
        f"killed   {place}/s0, s1, by SIGKILL; they are started again",
        f"started  {place}/s0, s1 as one program",
        f"killed   {place}/s0, s1, by SIGKILL; they are started again, each alone",
        f"started  {place}/s0",
        said[5],
    ]
    assert said[5].startswith(f"failed   {place}/s0: its process was ended by SIGKILL 3 times")
    assert said[-1].startswith(f"failed   {place}/s1: its process was ended by SIGKILL 3 times")
    assert records.look(runs[1]).kind == "killed"


def test_a_program_is_counted_as_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    from test_estimate import write

    from tether import cli
    from tether.sweep import estimate as estimates
    from tether.sweep.estimate import Simulation, estimate
    from tether.sweep.head import open_sweep

    speeds = {"steps_per_second": 100.0, "fit_steps_per_second": 50.0, "start_seconds": 10.0}
    monkeypatch.setattr(estimates, "_measure", lambda *_: speeds)
    monkeypatch.setattr(estimates, "_simulate", lambda *_: Simulation(1000.0, 1000))
    monkeypatch.setenv("TETHER_CACHE", str(tmp_path / "cache"))
    plan = write(tmp_path, "[choose]\n[final]\nseeds = [10, 11, 12]\n")  # two variants of two seeds
    found = estimate(open_sweep(plan), TWO, together=2)
    assert found is not None
    assert (found.processes, found.starts) == (2 + 2, 40)  # of the final three, two are one program
    assert found.runs == 7 * 1000 / 100
    plan = write(tmp_path, "")
    one_program = estimate(open_sweep(plan), Slots(4, 1, ((0,), (1,), (0,), (1,))), together=2)
    assert one_program is not None
    assert one_program.seconds == one_program.total / 2  # there is work for two of the four
    assert cli.main(["sweep", str(plan), "--dry-run", "--workers", "1", "--threads", "1", "--together", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "programs: 2 of several seeds, 0 of one run" in lines
    assert "  halfcheetah-mixed-tether/td3-cvae/low/s0, s1" in lines
    assert lines[-1] == "  a program of several seeds is counted as its runs one by one; tether bench --seeds-together compares"

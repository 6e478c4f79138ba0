"""The pool, with processes that do nothing but end in the way that is asked of them: quick, and real all the same."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
from scripted import DONE, TWO, planned, scripted

from tether import cores, storage
from tether.config import to_json
from tether.locks import is_held
from tether.sweep import head, pool
from tether.sweep.bundles import Bundle
from tether.sweep.expansion import PlannedRun
from tether.sweep.pool import Pool
from tether.sweep.records import FAILED, WAITING, Records
from tether.sweep.workers import Processes, Slots, Worker
from tether.training.interrupt import StopRequest


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """Claims of cores are of this test alone: another sweep on this machine, or in a test beside, has its own."""
    monkeypatch.setattr(cores.tempfile, "gettempdir", lambda: str(tmp_path))
    return scripted(monkeypatch)


def carry_out(runs: list[PlannedRun], folder: Path, slots: Slots = TWO) -> tuple[list[str], Records]:
    said: list[str] = []
    records = Records(folder / "runs")
    Pool(records, Processes(slots), StopRequest(), said.append, show=False).carry_out(runs, "test")
    return said, records


def test_a_process_killed_three_times_is_given_up_and_the_others_are_done(tmp_path: Path, processes: dict[str, str]):
    first, second = planned(tmp_path, "[variants.hungry]\n[variants.other]\n")
    processes["hungry"] = "import os; os.kill(os.getpid(), 9)"
    said, records = carry_out([first, second], tmp_path)
    assert said.count(f"started  {first.name}") == 3
    assert said.count(f"killed   {first.name}, by SIGKILL; it is started again") == 2
    assert sum(line.startswith(f"done     {second.name} in ") for line in said) == 1
    known = records.look(first)
    assert (known.state, known.kind) == (FAILED, "killed")
    assert known.reason.startswith("its process was ended by SIGKILL 3 times (too little memory is the usual reason")
    assert records.look(second).state == WAITING  # what is done is told by the run's own folder, and this one made none


def test_a_process_that_ends_without_a_word_has_failed_with_the_last_of_its_log(tmp_path: Path, processes: dict[str, str]):
    (run,) = planned(tmp_path, "[variants.broken]\n")
    processes["broken"] = "import sys; print('no module named jax\\n', file=sys.stderr); sys.exit(3)"
    said, records = carry_out([run], tmp_path)
    assert said[1:] == [f"failed   {run.name}: its process ended with code 3: no module named jax"]
    assert json.loads(records.failure(run).read_text()) == {
        "run": run.name,
        "kind": "crash",
        "reason": "its process ended with code 3: no module named jax",
        "log": str(tmp_path / "runs" / "_sweep" / "logs" / f"{run.name}.log"),
        "config": to_json(run.config),
        "dataset_sha256": run.data.sha256,
    }
    del processes["broken"]
    carry_out([run], tmp_path)
    assert not records.failure(run).exists()  # it is done now


def test_a_run_that_would_wait_for_the_fit_of_another_comes_after_one_that_would_not(tmp_path: Path, processes: dict[str, str]):
    text = "[variants.a1]\n[variants.a2]\nagent.discount = 0.9\n[variants.b1]\nbonus.seed = 1\n"
    runs = planned(tmp_path, text)
    assert runs[0].fit == runs[1].fit != runs[2].fit
    processes |= {"a1": f"import time; time.sleep(0.5); {DONE}", "b1": f"import time; time.sleep(0.5); {DONE}"}
    said, _ = carry_out(runs, tmp_path)
    assert [line.split("/")[-2] for line in said if line.startswith("started")] == ["a1", "b1", "a2"]


def test_a_folder_that_another_process_holds_is_waited_for(tmp_path: Path, processes: dict[str, str]):
    first, second = planned(tmp_path, "[variants.held]\n[variants.free]\n")
    free = threading.Event()

    def hold() -> None:
        with storage.exclusive(first.folder):
            free.wait(300)

    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        if line.startswith(f"done     {second.name}"):
            free.set()

    holder = threading.Thread(target=hold)
    holder.start()
    while not is_held(first.folder):
        time.sleep(0.01)
    try:
        Pool(Records(tmp_path / "runs"), Processes(TWO), StopRequest(), say, show=False).carry_out([first, second], "test")
    finally:
        free.set()
        holder.join()
    words = [(line.split()[0], line.split(" in ")[0].split("/")[-2]) for line in said]
    assert words == [("started", "free"), ("done", "free"), ("started", "held"), ("done", "held")]


def test_each_worker_has_its_own_cores(tmp_path: Path, processes: dict[str, str]):
    runs = planned(tmp_path, "[variants.a]\n[variants.b]\n")
    script = f"import sys, json; print(json.loads(sys.argv[1])['cores'], file=sys.stderr); import time; time.sleep(0.3); {DONE}"
    processes |= {"a": script, "b": script}
    _, records = carry_out(runs, tmp_path)
    assert sorted(records.log(run.name).read_text() for run in runs) == ["[0]\n", "[1]\n"]


def test_a_terminal_has_a_line_for_each_run_under_way(tmp_path: Path, processes: dict[str, str], monkeypatch: pytest.MonkeyPatch):
    runs = planned(tmp_path, "[variants.fits]\n[variants.trains]\n[variants.waits]\n")
    wait = f"import sys, time; time.sleep(0.8); print(line, file=sys.stderr, flush=True); time.sleep(1.5); {DONE}"
    processes["fits"] = f"line = 'fitting the bonus: 3,000/9,000 steps  0:00:11  0:05:43 left'; {wait}"
    processes["trains"] = f"line = 's0: 12/60 steps  0:00:11  0:00:30 left  score 8.9'; {wait}"
    shown: list[tuple[str, list[str]]] = []

    class Terminal:
        def update(self, step: int, **fields: float | str) -> None:
            self.running = str(fields["running"])

        def show_parts(self, parts: list[str]) -> None:
            shown.append((self.running, parts))

        def set_total(self, total: int) -> None:
            pass

        def seconds_left(self) -> float:
            return 5400.0

    monkeypatch.setattr(pool, "progress", lambda *arguments, **more: nullcontext(Terminal()))
    monkeypatch.setattr(pool, "SECONDS_BETWEEN_STEPS", 0.2)
    Pool(Records(tmp_path / "runs"), Processes(TWO), StopRequest(), lambda line: None).carry_out(runs, "test")
    fits, trains, _ = (run.name for run in runs)
    assert shown[0] == ("2", [f"{name}: reading, or waiting for a fit" for name in (fits, trains)])
    lines = [f"{fits}: fitting the bonus 3,000/9,000, 0:05:43 left", f"{trains}: step 12/60, 0:00:30 left, score 8.9"]
    assert ("2 (1 fitting)", lines) in shown
    now = json.loads((tmp_path / "runs" / "_sweep" / "now.json").read_text())  # for whoever asks from elsewhere
    assert now["seconds_left"] == 5400.0
    assert 0 <= time.time() - now["said_at"] < 300


def test_what_has_failed_is_not_counted_as_still_to_be_made(
    tmp_path: Path, processes: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    runs = planned(tmp_path, "[variants.broken]\n[variants.other]\n")
    runs[0].folder.mkdir(parents=True)
    storage.append_jsonl(runs[0].folder / "metrics.jsonl", {"step": 40})  # before it broke
    processes["broken"] = "import sys; sys.exit(3)"
    processes["other"] = f"import time; time.sleep(1.5); {DONE}"
    told: list[tuple[int, int, str]] = []

    class Terminal:
        def set_total(self, total: int) -> None:
            self.total = total

        def update(self, step: int, **fields: float | str) -> None:
            told.append((step, self.total, str(fields.get("failed", "0"))))

        def show_parts(self, parts: list[str]) -> None:
            pass

        def seconds_left(self) -> None:
            return None

    monkeypatch.setattr(pool, "progress", lambda *arguments, **more: nullcontext(Terminal()))
    monkeypatch.setattr(pool, "SECONDS_BETWEEN_STEPS", 0.2)
    Pool(Records(tmp_path / "runs"), Processes(TWO), StopRequest(), lambda line: None).carry_out(runs, "test")
    steps = runs[0].config.training.steps
    assert told[0] == (40, 2 * steps, "0")
    assert (40, 40 + steps, "1") in told  # its 40 are made and count; the rest of its steps is not to come
    assert told[-1] == (40 + steps, 40 + steps, "1")


def test_long_times_are_told_in_days():
    assert [pool.clock(seconds) for seconds in (5_400, 172_799, 172_800, 41_826_784)] == [
        "1:30:00",
        "47:59:59",
        "2.0 days",
        "484.1 days",
    ]


def test_weights_that_were_chosen_on_other_tasks_are_said_once(tmp_path: Path, processes: dict[str, str], pendulum_file: Path):
    path = tmp_path / "plan.toml"
    own = "[variants.usual]\n[variants.own.agent]\nbonus_weight_actor = 1.0\n"
    path.write_text(f'out = "{tmp_path}/runs"\ndatasets = ["halfcheetah-mixed-tether", "{pendulum_file}"]\n{own}')
    said: list[str] = []
    sweep = head.open_sweep(path)
    assert [bool(run.notes) for run in sweep.runs] == [False, False, True, False]  # by dataset, then by variant
    head.carry_out(sweep, Processes(TWO), said.append, show=False)
    (line,) = (line for line in said if "chosen on locomotion" in line)
    assert line.startswith("pendulum: agent.bonus_weight_actor 0.003, chosen on locomotion;")


def starter(folder: Path, processes: dict[str, str]) -> Callable[[], Worker]:
    """Starts the next worker of a sweep whose only slot is on core 4, and which says what it has."""
    (run,) = planned(folder, "[variants.a]\n")
    processes["a"] = "import json, sys; print(json.loads(sys.argv[1])['cores'])"
    return lambda: Processes(Slots(1, 1, ((4,),))).start(Bundle((run,)), 0, folder / "log")


def cores_of(worker: Worker) -> str:
    while (ended := worker.ended()) is None:
        time.sleep(0.01)
    worker.end()
    return ended.report.strip()


def test_workers_of_two_sweeps_are_on_different_cores(tmp_path: Path, processes: dict[str, str], monkeypatch: pytest.MonkeyPatch):
    """Each would put its first worker on its first core, and both would run at half speed."""
    monkeypatch.setattr(cores, "available_cores", lambda: [4, 5])
    start = starter(tmp_path, processes)
    mine, other = start(), start()
    assert [cores_of(mine), cores_of(other)] == ["[4]", "[5]"]
    assert cores_of(start()) == "[4]"


def test_a_sweep_that_had_to_share_a_core_moves_to_one_that_is_free_by_now(
    tmp_path: Path, processes: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(cores, "available_cores", lambda: [4, 5])
    start = starter(tmp_path, processes)
    with cores.claimed(1, [4]):  # by a run of another sweep that goes on
        with cores.claimed(1, [5]):
            assert cores_of(start()) == "[4]"
        assert cores_of(start()) == "[5]"
    assert cores_of(start()) == "[4]"

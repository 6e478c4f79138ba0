"""A part of a plan: which runs are asked for, and what of the rest must be there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tether import cli
from tether.errors import TetherError
from tether.sweep.expansion import Data, expand
from tether.sweep.narrowing import asked_for
from tether.sweep.plan import read_plan

PLAN = """
out = "{folder}/runs"
datasets = ["{folder}/hopper-medium.hdf5", "{folder}/hopper-medium-replay.hdf5"]
seeds = [0, 1]
steps = 1000
[variants.cloning]
agent = "bc"
[variants.cloning-scaled]
agent = "bc"
"agent.normalise_observations" = true
[variants.td3-bc]
agent = "td3-bc"
seeds = [1]
"""


def write(folder: Path) -> Path:
    path = folder / "plan.toml"
    path.write_text(PLAN.format(folder=folder))
    return path


def asked(folder: Path, *only: str) -> list[str]:
    plan = read_plan(write(folder))
    runs = expand(plan, [Data(source, Path(source).stem, None) for source in plan.datasets])
    return [run.name for run in asked_for(runs, only)]


def test_runs_that_have_every_word_are_asked_for(tmp_path: Path):
    assert len(asked(tmp_path)) == 10  # two datasets, two seeds of cloning in two ways, one of td3-bc
    # A word is a whole part: hopper-medium-replay is not hopper-medium, and cloning-scaled not cloning.
    assert asked(tmp_path, "hopper-medium", "cloning") == [f"hopper-medium/bc-none/cloning/s{seed}" for seed in (0, 1)]
    assert asked(tmp_path, "cloning,td3-bc", "s1", "hopper-medium-replay") == [
        "hopper-medium-replay/bc-none/cloning/s1",
        "hopper-medium-replay/td3-bc-none/td3-bc/s1",
    ]
    scaled_or_not = [f"hopper-medium/bc-none/{name}/s0" for name in ("cloning", "cloning-scaled")]
    assert asked(tmp_path, "clon*", "*-medium", "s0") == scaled_or_not


def test_words_that_no_run_has_are_refused(tmp_path: Path):
    with pytest.raises(TetherError, match=r"^--only clonig: no run of the plan has that in its name; did you mean cloning or"):
        asked(tmp_path, "hopper-medium", "cloning,clonig")
    with pytest.raises(
        TetherError, match=r"^--only td3-bc s0: no run of the plan has all of these; of words with commas between"
    ):
        asked(tmp_path, "td3-bc", "s0")


def test_a_plan_without_any_of_its_data_can_be_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    plan = write(tmp_path)
    assert cli.main(["sweep", "status", str(plan)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("plan: 10 waiting; not running\ntime left: not known")
    assert out.endswith(f"missing: {tmp_path}/hopper-medium.hdf5: no such file; the same for hopper-medium-replay\n")
    assert cli.main(["sweep", str(plan), "--dry-run", "--only", "cloning"]) == 2  # which would measure
    assert capsys.readouterr().err == f"error: {tmp_path}/hopper-medium.hdf5: no such file\n"


def test_only_the_data_of_what_is_asked_for_must_be_there(
    tmp_path: Path, pendulum_file: Path, capsys: pytest.CaptureFixture[str]
):
    plan = write(tmp_path)
    shutil.copy(pendulum_file, tmp_path / "hopper-medium.hdf5")
    assert cli.main(["sweep", str(plan), "--dry-run"]) == 2
    assert "datasets[1]: " in capsys.readouterr().err
    assert cli.main(["sweep", "status", str(plan)]) == 0  # which only looks
    out = capsys.readouterr().out
    assert out.startswith("plan: 10 waiting; not running\n")
    assert out.endswith(f"missing: {tmp_path}/hopper-medium-replay.hdf5: no such file\n")
    assert cli.main(["sweep", "status", str(plan), "--only", "hopper-medium", "s0"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("plan: 2 waiting; not running\n")
    assert "missing" not in out
    assert cli.main(["sweep", str(plan), "--only", "hopper-medium-replay"]) == 2
    assert f"{tmp_path}/hopper-medium-replay.hdf5: no such file" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_finished_runs_do_not_need_their_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    command = ["sweep", str(write(tmp_path)), "--only", "hopper-medium-replay", "cloning"]
    runs = tmp_path / "runs" / "hopper-medium-replay" / "bc-none" / "cloning"
    for seed in (0, 1):
        assert cli.main(command) == 2  # while one of them is still to be made
        assert f"{tmp_path}/hopper-medium-replay.hdf5: no such file" in capsys.readouterr().err
        (runs / f"s{seed}").mkdir(parents=True)
        (runs / f"s{seed}" / "result.json").write_text("{}")
    assert cli.main(command) == 0
    said, done = capsys.readouterr().out.splitlines()
    left = "its runs are left as they are; whether they were of this data was not compared"
    assert said == f"hopper-medium-replay: {left}: {tmp_path}/hopper-medium-replay.hdf5: no such file"
    assert done.startswith("plan: the 2 runs asked for, of 10, are done")

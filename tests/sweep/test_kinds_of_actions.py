"""An agent that cannot take the data's kind of actions is found when the plan is opened, not run by run."""

from __future__ import annotations

import re
from pathlib import Path

import h5py
import numpy as np
import pytest

from tether import cli
from tether.errors import TetherError
from tether.sweep.expansion import find_data
from tether.sweep.head import open_sweep
from tether.sweep.plan import read_plan

CONTINUOUS = "halfcheetah-mixed-tether"


@pytest.fixture
def discrete(tmp_path: Path) -> Path:
    """A log of choices: whole numbers, one for each row."""
    path = tmp_path / "choices.hdf5"
    with h5py.File(path, "w") as file:
        file["observations"] = np.arange(8, dtype=np.float32).reshape(4, 2)
        file["actions"] = np.array([0, 1, 0, 1])
        file["rewards"] = np.ones(4, np.float32)
        file["terminals"] = np.array([False, True, False, True])
        file.attrs["num_actions"] = 2
    return path


def write(folder: Path, text: str) -> Path:
    path = folder / "plan.toml"
    path.write_text(f'out = "{folder}/runs"\n{text}')
    return path


def test_data_is_found_with_its_kind_of_actions(tmp_path: Path, discrete: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TETHER_DATA", str(tmp_path / "data"))
    plan = read_plan(write(tmp_path, f'datasets = ["{CONTINUOUS}", "{discrete}", "hopper-medium-v2", "{tmp_path}/none.hdf5"]'))
    found = find_data(plan, in_part=True)
    assert [data.discrete for data in found] == [False, True, False, None]  # D4RL's is known without its file


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ('datasets = ["{CONTINUOUS}"]\nagents = ["bc", "dqn"]', f"agents: {CONTINUOUS} has continuous actions, which DQN cannot"),
        ('datasets = ["{CONTINUOUS}"]\nvariants.a.agent = "dqn"', f"variants.a.agent: {CONTINUOUS} has continuous actions"),
        ('datasets = ["{discrete}"]', "agents: choices has discrete actions, which Tethered cannot learn; choose agent dqn"),
    ],
)
def test_an_agent_that_cannot_take_them_is_refused(
    tmp_path: Path, discrete: Path, text: str, refused: str, capsys: pytest.CaptureFixture[str]
):
    plan = write(tmp_path, text.format(CONTINUOUS=CONTINUOUS, discrete=discrete))
    for command in (["sweep", str(plan), "--dry-run"], ["sweep", str(plan)]):
        assert cli.main(command) == 2
        assert capsys.readouterr().err.startswith(f"error: {plan}: {refused}")
    assert not (tmp_path / "runs").exists()
    assert cli.main(["sweep", "status", str(plan)]) == 0  # which only looks
    assert re.search(rf"^blocked  \S+/s0: {refused}", capsys.readouterr().out, re.MULTILINE)


def test_a_part_without_them_can_be_made(tmp_path: Path, discrete: Path):
    plan = write(tmp_path, f'datasets = ["{CONTINUOUS}", "{discrete}"]\nagents = ["td3-bc", "dqn"]\nbonuses = ["none"]\n')
    open_sweep(plan, only=(CONTINUOUS, "td3-bc-none"))
    with pytest.raises(TetherError, match=f"agents: {CONTINUOUS} has continuous actions, which DQN cannot learn"):
        open_sweep(plan, only=("dqn-none",))

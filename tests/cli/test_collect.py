"""`tether collect` as typed: what it prints, and what it refuses before any work is done."""

from __future__ import annotations

import _thread
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from tether.cli import main
from tether.data import load_dataset

RANDOM = ["collect", "InvertedPendulum-v5", "--level", "random", "--transitions", "60"]


def test_it_says_what_it_made_and_info_reads_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "new" / "random.hdf5"
    assert main([*RANDOM, "--out", str(out)]) == 0
    assert f"{out}: 60 transitions" in capsys.readouterr().out
    assert [path.name for path in out.parent.iterdir()] == ["random.hdf5"]
    assert main(["data", "info", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "InvertedPendulum-v5" in shown
    assert "bounds of the environment" in shown


MODULE = """
import gymnasium, numpy

class Narrow(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))
    action_space = gymnasium.spaces.Box(-0.1, 0.3, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return numpy.zeros(1, numpy.float32), {}

    def step(self, action):
        return numpy.zeros(1, numpy.float32), REWARD, False, False, {}

gymnasium.register("Narrow-v0", Narrow, max_episode_steps=5)
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    """An environment of a module in the current folder, which gives the reward."""

    def made(reward: str) -> str:
        (tmp_path / "narrow_module.py").write_text(MODULE.replace("REWARD", reward))
        return "narrow_module:Narrow-v0"

    monkeypatch.chdir(tmp_path)
    yield made
    sys.modules.pop("narrow_module", None)
    gymnasium.registry.pop("Narrow-v0", None)


def test_bounds_of_an_environment_of_one_s_own_are_in_the_file(own, tmp_path: Path):
    assert main(["collect", own("1.0"), "--out", "narrow.hdf5", "--level", "random", "--transitions", "20"]) == 0
    gymnasium.registry.pop("Narrow-v0")  # whoever reads the file need not have the module
    dataset = load_dataset(tmp_path / "narrow.hdf5")
    assert (dataset.spec.action_low, dataset.spec.action_high) == ((np.float32(-0.1),), (np.float32(0.3),))
    assert dataset.notes.action_bounds == "recorded"


def test_a_reward_that_is_no_number_is_not_written(own, capsys: pytest.CaptureFixture[str]):
    assert main(["collect", own("float('nan')"), "--out", "narrow.hdf5", "--level", "random", "--transitions", "20"]) == 2
    assert "Narrow-v0 gave a reward of nan in row 0 of what is recorded" in capsys.readouterr().err
    assert not Path("narrow.hdf5").exists()


def test_a_file_that_is_there_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "random.hdf5"
    assert main([*RANDOM, "--out", str(out)]) == 0
    made = out.read_bytes()
    capsys.readouterr()
    assert main([*RANDOM, "--out", str(out)]) == 0
    assert "made with these options; left as it is" in capsys.readouterr().out
    assert main([*RANDOM, "--out", str(out), "--seed", "1"]) == 2
    assert "is there already, made with seed 0 (here 1); give another --out, or --overwrite" in capsys.readouterr().err
    assert out.read_bytes() == made
    assert main([*RANDOM, "--out", str(out), "--seed", "1", "--overwrite"]) == 0
    assert out.read_bytes() != made
    assert main([*RANDOM, "--out", str(out), "--overwrite"]) == 0
    assert out.read_bytes() == made  # the same command makes the same bytes


def test_a_foreign_file_is_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "notes.hdf5"
    out.write_text("mine")
    assert main([*RANDOM, "--out", str(out)]) == 2
    assert "is there already, made by other means" in capsys.readouterr().err
    assert out.read_text() == "mine"


@pytest.mark.parametrize(
    ("env_id", "message"),
    [
        ("Hoper-v5", "no environment 'Hoper-v5' in Gymnasium; did you mean Hopper-v5"),
        ("CarRacing-v3", "environment CarRacing-v3 has observations of Box(0, 255, (96, 96, 3), uint8); Tether needs vectors"),
    ],
)
def test_environments_that_do_not_fit(env_id: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["collect", env_id, "--out", str(tmp_path / "x.hdf5"), "--target-return", "1"]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_said_before_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "file"
    file.write_text("")
    assert main(["collect", "Hopper-v5", "--out", str(file / "x.hdf5")]) == 2
    assert f"error: cannot write {file / 'x.hdf5'}: {file} is not a folder\n" == capsys.readouterr().err
    assert main(["collect", "Hopper-v5", "--out", str(tmp_path)]) == 2
    assert f"error: cannot write {tmp_path}: it is a folder" in capsys.readouterr().err


# An interrupt may come between open() and the `with` around it: then the file is closed by the garbage collector, with a warning.
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_interrupted_it_says_that_the_training_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "medium.hdf5"

    def interrupt_after_the_first_block() -> None:
        while not (tmp_path / "medium.hdf5.work" / "agent.safetensors").exists():
            time.sleep(0.01)
        _thread.interrupt_main()

    threading.Thread(target=interrupt_after_the_first_block, daemon=True).start()
    endless = ["--target-return", "1e9", "--warmup", "1000000", "--evaluate-every", "100", "--hidden-sizes", "16", "16"]
    assert main(["collect", "InvertedPendulum-v5", "--out", str(out), *endless]) == 130
    assert f"the training so far is kept in {out}.work; the same command goes on with it\n" in capsys.readouterr().err
    assert not out.exists()


def test_an_unknown_level_is_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["collect", "Hopper-v5", "--out", str(tmp_path / "x.hdf5"), "--level", "expertish"]) == 2
    assert "medium-expert" in capsys.readouterr().err

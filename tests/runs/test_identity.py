"""A run is known by its settings and the content of its data; and folders from before the redesign are understood."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from pendulum import command, quietly, small_config, state_of, write_episodes

from tether.cli import main
from tether.config import RunConfig, from_json, make_config
from tether.errors import TetherError
from tether.policies import load_policy
from tether.runs.reading import read_run
from tether.storage import read_tensors

BEFORE = Path(__file__).parent / "written_before"
SIZES = {"td3-cvae": 9, "bc": 9, "dqn-count-exact": 4}
DATA = {"td3-cvae": "pendulum", "bc": "pendulum", "dqn-count-exact": "cartpole"}


def test_the_same_file_by_another_path_goes_on(pendulum_file: Path, interrupted_run: Path, finished_run: Path, tmp_path: Path):
    elsewhere = tmp_path / "other-name.hdf5"
    shutil.copy(pendulum_file, elsewhere)
    folder = tmp_path / "run"
    shutil.copytree(interrupted_run, folder)
    quietly(small_config(elsewhere), folder)
    assert state_of(folder)[0] == state_of(finished_run)[0]


def test_a_finished_run_is_found_by_another_path(pendulum_file: Path, finished_run: Path, tmp_path: Path):
    shutil.copy(pendulum_file, tmp_path / "moved.hdf5")
    said: list[str] = []
    quietly(small_config(tmp_path / "moved.hdf5"), finished_run, said.append)
    assert said == [f"{finished_run} is finished (3,000 steps); left as it is"]


@pytest.mark.parametrize("of", ["finished_run", "interrupted_run"])
def test_another_file_by_the_same_path_is_refused(pendulum_file: Path, of: str, tmp_path: Path, request):
    folder = tmp_path / "run"
    shutil.copytree(request.getfixturevalue(of), folder)
    changed = write_episodes(tmp_path / "pendulum.hdf5", reward=0.5)
    with pytest.raises(TetherError, match=r"holds a run of another config \(dataset: sha256 \w{12}… here, \w{12}… there\)"):
        quietly(small_config(changed), folder)


def test_a_typo_and_a_finished_run_are_found_before_data_is_read(
    pendulum_file: Path, finished_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
):
    def never(*_: object, **__: object) -> None:
        raise AssertionError("the data was read")

    monkeypatch.setattr("tether.data.files.d4rl.read_columns", never)
    assert main([*command(pendulum_file, tmp_path / "run"), "agent.discuont=0.9"]) == 2
    assert "no setting agent.discuont; did you mean agent.discount?" in capsys.readouterr().err
    assert main([*command(pendulum_file, tmp_path / "run"), "--dry-run"]) == 0
    assert "agent.discount = 0.99" in capsys.readouterr().out
    assert main(command(pendulum_file, finished_run)) == 0
    assert "is finished (3,000 steps); left as it is" in capsys.readouterr().out


# Written before the redesign


def config_of(name: str) -> RunConfig:
    return from_json(json.loads((BEFORE / name / "config.json").read_text()))


@pytest.mark.parametrize("name", SIZES)
def test_an_old_policy_acts_as_it_did(name: str):
    observation = np.linspace(-1, 1, 3 * SIZES[name], dtype=np.float32).reshape(3, SIZES[name])
    expected = json.loads((BEFORE / "actions.json").read_text())[name]
    np.testing.assert_allclose(load_policy(BEFORE / name)(observation), expected, rtol=1e-5)


@pytest.mark.parametrize("name", SIZES)
def test_an_old_run_is_read_evaluated_and_found_finished(name: str, tmp_path: Path, capsys):
    folder = tmp_path / name
    shutil.copytree(BEFORE / name, folder)
    run = read_run(folder)
    assert run.policy == "target"
    assert [record["step"] for record in run.evaluations] == [100, 200, 300]
    assert main(["evaluate", str(folder), "--episodes", "1", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["step"], shown["policy"]) == (300, "target")
    assert set(shown["policies"]) == set(config_of(name).agent.traits.policies)
    said: list[str] = []
    data = str(BEFORE / f"{DATA[name]}.hdf5")
    old = config_of(name)
    quietly(RunConfig(data, old.agent, old.bonus, old.training, old.evaluation, old.seed), folder, said.append)
    assert said == [f"{folder} is finished (300 steps); left as it is"]


@pytest.mark.slow  # old runs are read, and found finished, in the default suite
def test_an_old_run_that_was_interrupted_goes_on_to_the_end_it_had(tmp_path: Path):
    """In the same steps; to the bit only where the same program runs on the same machine."""
    folder = tmp_path / "run"
    shutil.copytree(BEFORE / "td3-cvae-interrupted", folder)
    old = config_of("td3-cvae-interrupted")
    overrides = {f"agent.{name}": value for name, value in (("hidden_sizes", "8,8"), ("batch_size", "16"))}
    overrides |= {"bonus.hidden_sizes": "8,8", "bonus.latent_size": "2", "bonus.steps": "300", "bonus.batch_size": "16"}
    overrides |= {f"training.{name}": "100" for name in ("log_every", "evaluate_every", "checkpoint_every")}
    overrides |= {"training.steps": "300", "evaluation.episodes": "2"}
    config = make_config(str(BEFORE / "pendulum.hdf5"), "InvertedDoublePendulum-v5", preset="paper", overrides=overrides)
    assert config.agent == old.agent
    said: list[str] = []
    result = quietly(config, folder, said.append)
    assert "going on from step 100" in said
    assert result["resumed_from_step"] == 100
    ended, unbroken = (read_tensors(place / "checkpoint.safetensors")[0] for place in (folder, BEFORE / "td3-cvae"))
    assert ended.keys() == unbroken.keys()
    for name, tensor in unbroken.items():
        np.testing.assert_allclose(ended[name], tensor, rtol=1e-3, atol=1e-4, err_msg=name)

"""`tether train`: what it prints, where it writes, and how each mistake ends: one line, exit code 2, nothing damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from pendulum import command, snapshot, write_episodes

from tether import cli, settings
from tether.agents import AGENTS
from tether.bonuses import BONUSES
from tether.config import TrainingConfig


@pytest.fixture
def pen_file(tmp_path: Path) -> Path:
    """Two rows with the sizes of Adroit's pen, whose bonus weights in the paper are 10 and 10."""
    path = tmp_path / "pen-expert.hdf5"
    with h5py.File(path, "w") as file:
        file["observations"] = file["next_observations"] = np.zeros((2, 45), np.float32)
        file["actions"] = np.zeros((2, 24), np.float32)
        file["rewards"] = np.array([0.0, 1.0])
        file["terminals"] = file["timeouts"] = np.array([False, True])
    return path


def settings_shown(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    assert cli.main([*arguments, "--dry-run"]) == 0
    lines = [line.split(" = ") for line in capsys.readouterr().out.splitlines() if " = " in line]
    return {name.strip(): value for name, value in lines}


# Settings


def test_a_dry_run_shows_every_setting_by_group_and_writes_nothing(
    pendulum_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", "--dataset", str(pendulum_file), "--preset", "quick", "--seed", "7", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if not line.startswith(" ")] == [
        "run:",
        "agent:",
        "bonus:",
        "training:",
        "evaluation:",
    ]
    for line in (f"dataset = {pendulum_file}", "seed = 7", "agent.name = td3", "bonus.name = cvae", "training.steps = 50000"):
        assert f"\n  {line}\n" in out
    assert list(tmp_path.iterdir()) == []


def test_help_lists_every_setting_with_its_default(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["train", "--help"]) == 0
    lines = {tuple(line.split()[:2]) for line in capsys.readouterr().out.splitlines()}
    for section, kinds in (("agent", AGENTS.values()), ("bonus", BONUSES.values()), ("training", [TrainingConfig])):
        for kind in kinds:
            for name, default, _ in settings.described(kind):
                assert (f"{section}.{name}", default) in lines


def test_flags_and_settings_win_over_the_preset(pendulum_file: Path, capsys: pytest.CaptureFixture[str]):
    arguments = ["train", "--dataset", str(pendulum_file), "--steps", "7000"]
    shown = settings_shown([*arguments, "--set", "agent.discount=0.9", "bonus.steps=5", "--set", "agent.layer_norm=yes"], capsys)
    assert (shown["training.steps"], shown["agent.discount"], shown["bonus.steps"]) == ("7000", "0.9", "5")
    assert shown["agent.layer_norm"] == "True"


@pytest.mark.parametrize("also", [[], ["--set", "evaluation.env_id=none"], ["--set", "evaluation.env_id=AdroitHandPen-v1"]])
def test_the_datas_task_decides_the_paper_s_bonus_weights(pen_file: Path, also: list[str], capsys: pytest.CaptureFixture[str]):
    shown = settings_shown(["train", "--dataset", str(pen_file), "--preset", "paper", *also], capsys)
    assert (shown["agent.bonus_weight_actor"], shown["agent.bonus_weight_critic"]) == ("10.0", "10.0")


# Runs


def test_weights_that_were_chosen_for_another_bonus_are_said_to_be(
    pen_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    class Stop(Exception):
        """Raised where training would begin."""

    def stop(*_: object, on_start: Callable[[], None], **__: object) -> None:
        on_start()
        raise Stop

    monkeypatch.setattr("tether.training.run.run", stop)

    def said(bonus: str, *arguments: str) -> list[str]:
        with pytest.raises(Stop):
            cli.main(["train", "--dataset", str(pen_file), "--preset", "paper", "--bonus", bonus, *arguments])
        return capsys.readouterr().out.splitlines()

    paper = "agent.bonus_weight_actor 10 and agent.bonus_weight_critic 10: the paper's for manipulation such as pen"
    other = "they were chosen for cvae; `tether bonus DATASET` tells what to multiply them by for others"
    assert said("cvae") == [paper]
    assert said("rnd") == [paper, other]
    assert said("rnd", "--set", "agent.bonus_weight_actor=40") == []
    assert said("none") == []


def test_a_log_of_another_task_is_told_once_that_weights_were_chosen_on_locomotion(
    pendulum_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Said by the first seed that begins, neither by a run that is refused nor by one that is finished."""
    few = ["training.steps=2", "bonus.steps=2", "bonus.hidden_sizes=8,8", "agent.hidden_sizes=8,8", "evaluation.env_id=none"]
    arguments = ["train", "--dataset", str(pendulum_file), "--set", *few]
    note = "agent.bonus_weight_actor 0.003: the preset's, chosen on locomotion;"
    assert cli.main([*arguments, "--run-dir", str(tmp_path), "--set", "evaluation.env_id=Nowhere-v0"]) == 2
    assert note not in capsys.readouterr().out
    assert cli.main([*arguments, "--run-dir", str(tmp_path / "runs"), "--seeds", "0,1"]) == 0
    said = capsys.readouterr().out
    assert said.count(note) == 1
    assert said.count("the fit leans to episodes with high returns (bonus.lean_to_best=6): a row of the best counts 403") == 2
    # Each says that two steps are too few for its critics to warm up in.
    assert said.count("warning: agent.warm_up_steps is 20,000 and the training has 2 steps: the policy will not have") == 2
    assert cli.main([*arguments, "--run-dir", str(tmp_path / "runs"), "--seeds", "0,1"]) == 0
    assert note not in capsys.readouterr().out
    assert cli.main([*arguments, "--run-dir", str(tmp_path / "runs"), "--seeds", "0,2"]) == 0
    assert capsys.readouterr().out.count(note) == 1


def test_a_finished_run_is_said_to_be_and_shown(finished_run: Path, pendulum_file: Path, capsys: pytest.CaptureFixture[str]):
    before = snapshot(finished_run)
    assert cli.main(command(pendulum_file, finished_run)) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"{finished_run} is finished (3,000 steps); left as it is\n")
    best = json.loads((finished_run / "result.json").read_text())["score"]["best"]
    assert f"{best['mean']:.1f} ± {best['std']:.1f} (step {best['step']:,})" in out
    assert "return, mean ± std over episodes" in out
    assert err == ""
    assert snapshot(finished_run) == before


def test_seeds_have_folders_of_their_own_and_one_fit(
    finished_run: Path, pendulum_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    arguments = command(pendulum_file, tmp_path / "runs", training__steps=200)
    assert cli.main([*arguments, "--seeds", "0,1"]) == 0
    out = capsys.readouterr().out
    results = [json.loads((tmp_path / "runs" / name / "result.json").read_text()) for name in ("s0", "s1")]
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["s0", "s1"]
    assert [result["config"]["seed"] for result in results] == [0, 1]
    assert results[0]["bonus"] == results[1]["bonus"]  # to the time it took
    assert results[0]["evaluations"] != results[1]["evaluations"]
    assert "all seeds" in out
    assert "mean ± std over the means of the seeds" in out


def test_data_without_an_environment_is_not_evaluated_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    write_episodes(tmp_path / "log.hdf5", env_id=None)
    settings = ["agent.hidden_sizes=16,16", "agent.batch_size=32", "training.log_every=100"]
    arguments = ["train", "--dataset", "log.hdf5", "--agent", "bc", "--bonus", "none", "--steps", "100", "--set", *settings]
    assert cli.main(arguments) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "not evaluated: there is no environment to do it in; name one with --set evaluation.env_id=ENV_ID"
    run = tmp_path / "runs" / "log-bc-none-s0"
    assert (run / "result.json").exists()
    # Too short a run to be judged unasked; one that is not, and was, says again what was found.
    assert not (run / "verdict.json").exists()
    (run / "verdict.json").write_text('{"advice": "do not use this policy", "findings": [["against", "it is a test"]]}')
    monkeypatch.setattr("tether.cli.train.LEAST_TO_JUDGE", 100)
    assert cli.main(arguments) == 0
    assert capsys.readouterr().out.endswith("without a simulator: do not use this policy\n  - it is a test\n")
    assert cli.main([*arguments, "--verdict", "no"]) == 0
    assert "do not use" not in capsys.readouterr().out


# Mistakes


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The message of a command that ends with exit code 2 and says nothing else."""
    assert cli.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err.removeprefix("error: ").rstrip("\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "agent.discuont=0.9"], "no setting agent.discuont; did you mean agent.discount?"),
        (["--set", "agent.discount=high"], "agent.discount is 'high'; it takes a number"),
        (["--set", "agent.discount"], "cannot read 'agent.discount' as a setting; write it as NAME=VALUE, such as "),
        (["--set", "agent.hidden_sizes=0,16"], "agent.hidden_sizes is 0; it must be at least 1"),
        (["--set", "evaluation.policy=onlien"], "evaluation.policy is 'onlien'; it takes online or target or ema"),
        (["--agent", "td33"], "no agent 'td33'; did you mean td3 or td3-bc?"),
        (["--bonus", "cvea"], "no bonus 'cvea'; did you mean cvae?"),
        (["--steps", "0"], "training.steps is 0; it must be at least 1"),
        (["--steps", "12345"], "training.steps 12,345, log_every 1,000, "),
        (["--seed", "-1"], "seed is -1; it must not be negative"),
        (["--seed", "99999999999999999999"], "seed is 99999999999999999999; it must be at least 0 and below 4294967296"),
        (["--seeds", "0,1,0"], "--seeds is '0,1,0'; a seed is named twice"),
        (["--seeds", "0-2"], "--seeds is '0-2'; it takes whole numbers with commas between, such as 0,1,2"),
        (["--seeds", ""], "--seeds is ''; it takes whole numbers with commas between, such as 0,1,2"),
        (["--set", "evaluation.env_id=Hopper-v5"], "environment Hopper-v5 has observations of 11 numbers, the dataset has 9"),
        (["--set", "evaluation.env_id=Hoper-v5"], "no environment 'Hoper-v5' in Gymnasium; did you mean "),
    ],
)
def test_a_wrong_setting_is_one_line_and_claims_no_folder(
    pendulum_file: Path, tmp_path: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
):
    folder = tmp_path / "run"
    shown = refused(["train", "--dataset", str(pendulum_file), "--run-dir", str(folder), *arguments], capsys)
    assert shown.startswith(message)
    assert not (folder / "config.json").exists()


def test_a_dataset_that_is_not_there_offers_the_nearest(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    shown = refused(["train", "--dataset", "halfcheetah-medium-tehter", "--run-dir", str(tmp_path / "run")], capsys)
    assert shown.startswith("no dataset named 'halfcheetah-medium-tehter'; did you mean halfcheetah-mixed-tether or ")
    assert refused(["train", "--dataset", str(tmp_path / "no.hdf5")], capsys) == f"{tmp_path / 'no.hdf5'}: no such file"
    assert list(tmp_path.iterdir()) == []


def test_a_dataset_that_is_damaged_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = write_episodes(tmp_path / "log.hdf5")
    with h5py.File(path, "a") as file:
        file["observations"][3, 0] = np.nan
    shown = refused(["train", "--dataset", str(path), "--run-dir", str(tmp_path / "run")], capsys)
    assert shown == "log.hdf5: observations has 1 NaN or Inf values, the first in row 3"
    assert not (tmp_path / "run").exists()


def test_a_folder_that_is_not_this_runs_is_one_line(
    interrupted_run: Path, pendulum_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "holiday.jpg").write_text("")
    before = snapshot(interrupted_run), snapshot(tmp_path)
    assert refused(command(pendulum_file, tmp_path), capsys).endswith("is not empty and holds no run; choose another --run-dir")
    assert refused(command(pendulum_file, tmp_path / "holiday.jpg" / "run"), capsys).startswith("cannot write to ")
    shown = refused([*command(pendulum_file, interrupted_run), "--seed", "1"], capsys)
    assert shown.endswith("holds a run of another config (seed: 1 here, 0 there); choose another --run-dir")
    assert (snapshot(interrupted_run), snapshot(tmp_path)) == before


def test_a_diverging_run_ends_in_one_line_that_says_what_is_left(
    finished_run: Path, pendulum_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert cli.main(command(pendulum_file, tmp_path / "run", training__value_limit="1e-9")) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("error: critic/q is ")
    assert "at step 100 (run run), past training.value_limit 1e-09: the critic is exploding; there is no checkpoint yet" in last

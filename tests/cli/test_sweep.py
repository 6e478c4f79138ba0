"""`tether sweep` on the command line: which command is meant, and how mistakes end."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from pendulum import SETTINGS

from tether import cli
from tether.sweep.head import open_sweep


def test_help_has_examples_and_says_what_a_second_time_does(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["sweep", "--help"]) == 0
    out = capsys.readouterr().out
    assert "tether sweep plans/quick.toml --dry-run" in out
    assert "Run the same command again and it makes what is missing" in out
    assert "tether sweep plans/paper-table.toml --together 3" in out
    assert cli.main(["sweep", "status", "--help"]) == 0
    assert "How far a sweep is" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["sweep"], ["sweep", "status"]])
def test_a_plan_that_is_not_there_ends_with_one_line(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert cli.main([*command, str(tmp_path / "none.toml")]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: there is no plan {tmp_path}/none.toml; ")
    assert error.count("\n") == 1


def test_data_that_is_not_here_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("TETHER_DATA", str(tmp_path / "data"))
    (tmp_path / "plan.toml").write_text(f'out = "{tmp_path}/runs"\ndatasets = ["hopper-medium-v2", "pen-human-v1"]\n')
    assert cli.main(["sweep", str(tmp_path / "plan.toml")]) == 2
    err = capsys.readouterr().err
    assert err.startswith(
        f"error: {tmp_path}/plan.toml: hopper-medium-v2 is not on this machine; tether data download hopper-medium-v2"
    )
    assert err.endswith("(and 1 more datasets)\n")
    assert [path.name for path in tmp_path.iterdir()] == ["plan.toml"]


def test_a_folder_with_a_run_of_other_settings_blocks_that_run_alone(
    tmp_path: Path, finished_run: Path, pendulum_file: Path, capsys: pytest.CaptureFixture[str]
):
    place = tmp_path / "runs" / "pendulum" / "td3-cvae" / "s0"
    place.parent.mkdir(parents=True)
    place.symlink_to(finished_run)
    plan = tmp_path / "plan.toml"
    plan.write_text(f'out = "{tmp_path}/runs"\ndatasets = ["{pendulum_file}"]\npreset = "paper"\nsteps = 5000\nseeds = [0, 1]\n')
    reason = f"{place} holds a run of another config ("
    advice = "); change the plan back, or choose another --out or another name"
    for command in (["sweep", str(plan)], ["sweep", str(plan), "--dry-run"]):
        assert cli.main(command) == 2
        err = capsys.readouterr().err
        assert err.startswith(f"error: {plan}: {reason}")
        assert " in the plan, " in err
        assert err.endswith(f"{advice}\n")
    assert cli.main(["sweep", "status", str(plan)]) == 0
    first, whole = capsys.readouterr().out.splitlines()[:2]
    assert first.startswith(f"blocked  pendulum/td3-cvae/s0: {reason}")
    assert first.endswith(advice)
    assert whole == "plan: 1 blocked, 1 waiting; not running"
    assert cli.main(["sweep", "status", str(plan), "--only", "s1"]) == 0
    assert capsys.readouterr().out.startswith("plan: 1 waiting; not running\n")
    open_sweep(plan, only=("s1",))  # that part can be made
    with pytest.raises(cli.TetherError, match="holds a run of another config"):
        open_sweep(plan, only=("s0",))


def test_no_advice_is_given_that_only_tether_train_can_follow(
    tmp_path: Path, finished_run: Path, pendulum_file: Path, capsys: pytest.CaptureFixture[str]
):
    """The same run with more steps: `tether train` would go on with --extend, which `tether sweep` has not."""
    lines = "\n".join(f'"{name}" = "{value}"' for name, value in (SETTINGS | {"training.steps": 4000}).items())
    plan = tmp_path / "plan.toml"
    plan.write_text(f'out = "{tmp_path}/runs"\ndatasets = ["{pendulum_file}"]\npreset = "paper"\n[settings]\n{lines}\n')
    place = tmp_path / "runs" / "pendulum" / "td3-cvae" / "s0"
    place.parent.mkdir(parents=True)
    place.symlink_to(finished_run)
    assert cli.main(["sweep", str(plan)]) == 2
    err = capsys.readouterr().err
    assert "(training.steps: 4000 in the plan, " in err
    assert "--extend" not in err
    assert "--run-dir" not in err


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--together", "0"], "--together is 0; it takes a whole number from 1 on"),
        (
            ["--together", "2", "--wandb", "mine"],
            "--wandb logs one run of a process, and --together makes several there; leave one",
        ),
    ],
)
def test_wrong_numbers_of_seeds_together_are_refused(
    flags: list[str], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert cli.main(["sweep", str(tmp_path / "plan.toml"), *flags]) == 2
    assert capsys.readouterr().err.startswith(f"error: {reason}")


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--gpus", "-1"], "--gpus is -1; it takes a number from 0 on, such as 0.25"),
        (["--gpus", "nan"], "--gpus is nan; it takes a number from 0 on, such as 0.25"),
        (["--workers", "0"], "--workers is 0; it takes a whole number from 1 on"),
        (["--threads", "0"], "--threads is 0; it takes a whole number from 1 on"),
    ],
)
def test_wrong_shares_of_a_cluster_are_refused_by_the_one_that_is_wrong(
    flags: list[str], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "plan.toml").write_text(f'out = "{tmp_path}/runs"\ndatasets = ["halfcheetah-mixed-tether"]\n')
    assert cli.main(["sweep", str(tmp_path / "plan.toml"), "--backend", "ray", *flags]) == 2
    assert capsys.readouterr().err == f"error: {reason}\n"


def test_without_a_login_there_weights_and_biases_is_refused_once_and_before_any_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    class NoKey(Exception):
        pass

    def login() -> bool:
        raise NoKey("api_key not configured (no-tty)")

    there = ModuleType("wandb")
    there.__spec__ = ModuleSpec("wandb", None)
    vars(there).update(login=login, errors=SimpleNamespace(Error=NoKey))
    monkeypatch.setitem(sys.modules, "wandb", there)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    plan = tmp_path / "plan.toml"
    plan.write_text(f'out = "{tmp_path}/runs"\ndatasets = ["halfcheetah-mixed-tether"]\n')
    made: list[str] = []
    monkeypatch.setattr("tether.sweep.head.carry_out", lambda sweep, *_, **__: made.append("runs") or sweep)
    advice = "wandb login keeps one here, and WANDB_MODE=offline keeps what is logged on this machine\n"
    assert cli.main(["sweep", str(plan), "--wandb", "mine"]) == 2
    assert capsys.readouterr().err == f"error: cannot log to Weights & Biases: api_key not configured (no-tty); {advice}"
    vars(there).update(login=lambda: False)
    assert cli.main(["sweep", str(plan), "--wandb", "mine"]) == 2
    assert capsys.readouterr().err == f"error: cannot log to Weights & Biases: there is no key on this machine; {advice}"
    assert not made
    vars(there).update(login=lambda: True)
    cli.main(["sweep", str(plan), "--wandb", "mine"])
    monkeypatch.setenv("WANDB_MODE", "offline")
    vars(there).update(login=login)
    cli.main(["sweep", str(plan), "--wandb", "mine"])
    assert made == ["runs"] * 2

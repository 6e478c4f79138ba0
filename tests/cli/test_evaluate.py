"""`tether evaluate`: any run that has a checkpoint, the same numbers for the same seed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pendulum import snapshot
from PIL import Image

from tether import cli, storage
from tether.errors import TetherError
from tether.evaluation.render import choose_backend


def evaluated(folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert cli.main(["evaluate", str(folder), "--episodes", "2", "--json", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.main(["evaluate", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err.removeprefix("error: ").rstrip("\n")


def test_every_policy_is_shown_and_the_runs_own_is_marked(finished_run: Path, capsys: pytest.CaptureFixture[str]):
    before = snapshot(finished_run)
    assert cli.main(["evaluate", str(finished_run), "--episodes", "2"]) == 0
    out = " ".join(capsys.readouterr().out.split())  # the title may be wrapped
    assert "at step 3,000: 2 episodes of InvertedDoublePendulum-v5 from seed 20,000, mean ± std over episodes" in out
    for text in ("online", "target (the run's)", "ema", "no reference"):
        assert text in out
    assert snapshot(finished_run) == before


def test_json_has_the_raw_returns(finished_run: Path, capsys: pytest.CaptureFixture[str]):
    found = evaluated(finished_run, capsys, "--seed", "10000")
    assert {name: found[name] for name in ("run", "step", "env_id", "seed", "policy")} == {
        "run": str(finished_run),
        "step": 3000,
        "env_id": "InvertedDoublePendulum-v5",
        "seed": 10000,
        "policy": "target",
    }
    # From the starts of the training's evaluations come the same episodes.
    last = json.loads((finished_run / "result.json").read_text())["evaluations"][-1]["evaluation"]
    assert list(found["policies"]) == ["online", "target", "ema"]
    for policy, facts in found["policies"].items():
        assert facts["returns"] == last[policy]["returns"]
        assert facts["lengths"] == last[policy]["lengths"]
        assert facts["return"]["mean"] == sum(facts["returns"]) / 2
        assert facts["score"] is None


def test_an_interrupted_run_is_evaluated_where_it_stands(interrupted_run: Path, capsys: pytest.CaptureFixture[str]):
    assert evaluated(interrupted_run, capsys)["step"] == 100


def test_the_same_seed_gives_the_same_and_another_gives_another(finished_run: Path, capsys: pytest.CaptureFixture[str]):
    first = evaluated(finished_run, capsys)
    assert evaluated(finished_run, capsys) == first
    other = evaluated(finished_run, capsys, "--seed", "20001")
    for policy, facts in other["policies"].items():
        assert {*facts["returns"]}.isdisjoint(first["policies"][policy]["returns"][:1])
        assert facts["returns"][0] == first["policies"][policy]["returns"][1]  # episode i starts from seed + i


def test_one_policy_can_be_named(finished_run: Path, capsys: pytest.CaptureFixture[str]):
    found = evaluated(finished_run, capsys, "--policy", "ema")
    assert list(found["policies"]) == ["ema"]
    assert found["policy"] == "ema"


def test_an_episode_is_recorded(finished_run: Path, tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MUJOCO_GL", "egl")  # restored afterwards
    monkeypatch.delenv("MUJOCO_GL")
    try:
        choose_backend()
    except TetherError as error:
        pytest.skip(str(error))
    assert cli.main(["evaluate", str(finished_run), "--episodes", "1", "--render", str(tmp_path / "fall.gif")]) == 0
    assert f"{tmp_path / 'fall.gif'}: one episode of the target policy, return " in capsys.readouterr().out
    with Image.open(tmp_path / "fall.gif") as film:
        assert film.format == "GIF"
        assert film.n_frames > 1


# Mistakes


def test_what_is_no_run_is_refused(tmp_path: Path, finished_run: Path, capsys: pytest.CaptureFixture[str]):
    assert refused([str(tmp_path / "absent")], capsys) == f"there is no run folder {tmp_path / 'absent'}"
    assert refused([str(finished_run / "config.json")], capsys).startswith("there is no run folder ")
    assert refused([str(tmp_path)], capsys) == (
        f"{tmp_path} has no checkpoint.safetensors: it is no run folder, or the run has not come to its first checkpoint"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--policy", "onlin"], "has no policy onlin; did you mean online?"),
        (["--episodes", "0"], "episodes is 0, expected at least 1"),
        (["--seed", "-1"], "--seed is -1; it must not be negative"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(
    finished_run: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
):
    assert refused([str(finished_run), *arguments], capsys).endswith(message)


def test_a_film_of_another_format_is_refused(finished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    shown = refused([str(finished_run), "--render", str(tmp_path / "fall.mp4")], capsys)
    assert shown == f"{tmp_path / 'fall.mp4'}: episodes are recorded as GIF; give a name that ends in .gif"


def test_a_run_without_an_environment_says_how_to_give_it_one(
    interrupted_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder = Path(shutil.copytree(interrupted_run, tmp_path / "run"))
    tensors, metadata = storage.read_tensors(folder / "checkpoint.safetensors")
    storage.write_tensors(folder / "checkpoint.safetensors", tensors, metadata | {"env_id": "null"})
    assert refused([str(folder)], capsys) == (
        f"{folder} names no environment to evaluate in; train with --set evaluation.env_id=ENV_ID"
    )

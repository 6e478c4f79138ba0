"""Weights & Biases: refused with a hint where it is missing; with it, an offline run of its own library's making."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from pendulum import command

from tether import cli
from tether.runs.metrics import MetricsLog


def test_without_the_package_it_says_how_to_get_it_before_anything_is_read(
    tmp_path: Path, pendulum_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert cli.main([*command(pendulum_file, tmp_path / "run"), "--wandb", "mine"]) == 2
    assert capsys.readouterr().err == "error: --wandb needs the package wandb; pip install 'tether-rl[wandb]' brings it\n"
    assert not (tmp_path / "run").exists()


def test_what_is_logged_goes_to_every_sink(tmp_path: Path):
    class Kept:
        def __init__(self) -> None:
            self.got: list[tuple[int, dict[str, float]]] = []

        def add(self, step: int, values: dict[str, float]) -> None:
            self.got.append((step, values))

    kept = Kept()
    log = MetricsLog(tmp_path, 0, None, [kept])
    log.fit([{"fit_step": 1000, "bonus/loss": 0.5}])
    log.training(100, {"critic/q": 2.0})
    log.close()
    assert kept.got == [(1000, {"fit/bonus/loss": 0.5}), (100, {"critic/q": 2.0})]


@pytest.mark.slow
def test_an_offline_run_is_kept_in_the_run_folder_and_nothing_is_sent(tmp_path: Path, pendulum_file: Path, finished_run: Path):
    if find_spec("wandb") is None:
        pytest.skip("needs the package wandb")
    words = command(pendulum_file, tmp_path / "run", training__steps=400, training__evaluate_every=400)
    environment = os.environ | {"WANDB_MODE": "offline", "HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"}
    given = [sys.executable, "-m", "tether", *words, "--wandb", "mine"]
    done = subprocess.run(given, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "run" / "result.json").read_text())["score"] is not None
    (kept,) = (tmp_path / "run" / "wandb").glob("offline-run-*/run-*.wandb")
    content = kept.read_bytes()
    for name in (b"critic/q", b"fit/bonus/loss", b"evaluation/online", b"bonus_weight_actor"):
        assert name in content

"""`tether data minari` and `tether data export`, as typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tether.cli import main

pytest.importorskip("minari", reason="needs the extra minari")


@pytest.fixture(autouse=True)
def minari_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path / "minari"


def test_export_then_list_then_info(pendulum_file: Path, capsys):
    assert main(["data", "minari"]) == 0
    assert "no Minari dataset on this machine" in capsys.readouterr().out
    assert main(["data", "export", str(pendulum_file), "--to", "minari", "--id", "mine/pendulum-v0"]) == 0
    assert "--dataset minari:mine/pendulum-v0" in capsys.readouterr().out
    assert main(["data", "minari", "--prefix", "mine/"]) == 0
    listed = capsys.readouterr().out
    assert "mine/pendulum-v0" in listed
    assert "InvertedDoublePendulum-v5" in listed
    assert main(["data", "minari", "--prefix", "yours/"]) == 0
    assert "begins with yours/" in capsys.readouterr().out
    assert main(["data", "info", "minari:mine/pendulum-v0"]) == 0
    assert "recorded with the data" in " ".join(capsys.readouterr().out.split())


def test_a_run_is_named_by_the_whole_id(pendulum_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    assert main(["data", "export", str(pendulum_file), "--to", "minari", "--id", "mine/pendulum-v0"]) == 0
    monkeypatch.chdir(tmp_path)
    train = ["train", "--dataset", "minari:mine/pendulum-v0", "--agent", "bc", "--bonus", "none", "--steps", "100"]
    assert main([*train, "--set", "agent.hidden_sizes=8,8", "evaluation.env_id=none"]) == 0
    assert (tmp_path / "runs" / "mine-pendulum-v0-bc-none-s0" / "result.json").exists()


@pytest.mark.parametrize("options", [["--remote"], ["--download", "minari:mujoco/hopper/medium-v0"]])
def test_without_a_network_it_says_so(options: list[str], capsys):
    assert main(["data", "minari", *options]) == 2
    assert "server cannot be reached" in capsys.readouterr().err


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.setitem(__import__("sys").modules, "minari", None)
    for arguments in (["data", "minari"], ["data", "info", "minari:a-v0"]):
        assert main(arguments) == 2
        assert "pip install 'tether-rl[minari]'" in capsys.readouterr().err

"""`tether bonus`: what it prints and writes, and how a mistake ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tether import cli

SMALL = "count,cvae:hidden_sizes=16x16:steps=20"


@pytest.mark.slow  # tests/experiments has the lab itself
def test_the_lab_writes_numbers_and_pictures_and_prints_a_table(
    pendulum_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("TETHER_CACHE", str(tmp_path / "cache"))
    out = tmp_path / "lab"
    assert cli.main(["bonus", str(pendulum_file), "--bonuses", SMALL, "--out", str(out), "--probe-steps", "10"]) == 0
    shown = capsys.readouterr().out
    assert "1 of 2: count\n2 of 2: cvae:hidden_sizes=16x16:steps=20\n" in shown
    assert f"{out}/histograms.png, {out}/slices.png, {out}/bonus.json" in shown
    report = json.loads((out / "bonus.json").read_text())
    assert [record["bonus"] for record in report["bonuses"]] == SMALL.split(",")
    assert report["bonuses"][1]["settings"]["steps"] == 20
    assert {"shuffled", "uniform", "noise 0.05", "noise 1"} < set(report["bonuses"][0]["kinds"])
    for picture in ("histograms.png", "slices.png"):
        assert (out / picture).read_bytes().startswith(b"\x89PNG")
    row = next(line for line in shown.splitlines() if line.startswith("│ count"))
    probe, weight = [cell.strip() for cell in row.split("│")][-4:-2]
    assert probe == "-"  # nothing to follow
    assert weight == "-"  # the data's own actions are uniform


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bonuses", "cave"], "there is no bonus 'cave' for the lab; did you mean cvae?"),
        (["--probe-steps", "0"], "--probe-steps is 0; it must be at least 1"),
        (["--out", "/dev/null"], "cannot write to /dev/null"),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], message: str, pendulum_file: Path, capsys: pytest.CaptureFixture[str]):
    assert cli.main(["bonus", str(pendulum_file), *arguments]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith(f"error: {message}")
    assert shown.count("\n") == 1

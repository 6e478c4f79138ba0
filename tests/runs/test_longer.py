"""A finished run made longer ends as one that was long from the start, or is refused with the reason."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pendulum import assert_same_run, quietly, small_config, snapshot

from tether import IQL
from tether import config as configs
from tether.config import RunConfig, TrainingConfig
from tether.errors import TetherError
from tether.runs.longer import make_longer
from tether.training.run import run

LENGTH = 1_100  # no multiple of evaluate_every: its last evaluation is one that the longer run does not have


def test_a_run_made_longer_is_bit_for_bit_the_long_one(pendulum_file: Path, finished_run: Path, tmp_path: Path):
    folder, said = tmp_path / "run", []
    quietly(small_config(pendulum_file, training__steps=LENGTH), folder)
    with pytest.raises(
        TetherError, match=r"training.steps: 3000 here, 1100 there\); choose another --run-dir; --extend trains it on$"
    ):
        quietly(small_config(pendulum_file), folder)
    result = run(small_config(pendulum_file), folder, show=False, say=said.append, extend=True)
    assert result["resumed_from_step"] == LENGTH
    assert f"{folder} had 1,100 steps and goes on to 3,000" in said
    assert_same_run(folder, finished_run)
    before = snapshot(folder)
    run(small_config(pendulum_file), folder, show=False, say=said.append, extend=True)  # there is nothing left to extend
    assert said[-1].endswith("is finished (3,000 steps); left as it is")
    assert snapshot(folder).keys() == before.keys()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"training__steps": "2000"}, "has 3,000 steps, 2,000 are asked for; a run can only be made longer"),
        (
            {"training__steps": "3050"},
            "3,050 steps would be logged every 50, the run has its log every 100; give a number of steps that 100",
        ),
    ],
)
def test_what_would_not_be_the_same_run_is_refused(finished_run: Path, pendulum_file: Path, changes: dict, message: str):
    before, config = snapshot(finished_run), small_config(pendulum_file)
    config = replace(config, training=replace(config.training, steps=int(changes["training__steps"])))
    with pytest.raises(TetherError, match=message):
        make_longer(finished_run, config, _hash(finished_run))
    assert snapshot(finished_run) == before


def test_a_schedule_that_has_ended_is_not_begun_again(finished_run: Path, pendulum_file: Path, tmp_path: Path):
    folder = Path(shutil.copytree(finished_run, tmp_path / "run"))
    falling = small_config(pendulum_file, **{"agent.optimiser.schedule": "cosine"})
    plain = configs.to_json(falling) | {"dataset_sha256": _hash(finished_run)}
    (folder / "config.json").write_text(json.dumps(plain))
    longer = replace(falling, training=replace(falling.training, steps=6_000))
    with pytest.raises(TetherError, match=r"fell to 0 by step 3,000 \(agent.optimiser.schedule=cosine\)"):
        make_longer(folder, longer, _hash(finished_run))
    iql, of_iql = tmp_path / "iql", RunConfig("data", agent=IQL(), training=TrainingConfig(steps=3_000))  # one of its two falls
    iql.mkdir()
    (iql / "config.json").write_text(json.dumps(configs.to_json(of_iql) | {"dataset_sha256": "0"}))
    with pytest.raises(TetherError, match=r"fell to 0 by step 3,000 \(agent.actor_optimiser.schedule=cosine\)"):
        make_longer(iql, replace(of_iql, training=replace(of_iql.training, steps=6_000)), "0")
    with pytest.raises(TetherError, match="holds no run; without it, one is begun there"):
        make_longer(tmp_path / "nothing", longer, "")
    other = replace(longer, seed=7)  # whatever else differs is refused by those who compare
    assert make_longer(folder, other, _hash(finished_run)) is None


def _hash(folder: Path) -> str:
    return json.loads((folder / "config.json").read_text())["dataset_sha256"]

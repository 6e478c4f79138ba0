"""Folders of finished, broken and missing runs on tasks of the paper, with numbers that can be checked by eye."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from small_runs import write_and_read

from tether.storage import write_json

HISTOGRAM = {"edges": [0.0, 0.5, 1.0], "shares": {"data": [0.9, 0.1], "uniform": [0.2, 0.8]}}


def write_run(parent: Path, task: str, method: str, seed: int, last: float, **changes: Any) -> None:
    """`parent/task/method/sN`, with one evaluation of two episodes, at `last` ± 1 in returns of Hopper."""
    agent, bonus = method.split("-")
    config = {"dataset": f"{task}.hdf5", "agent": {"name": agent, "discount": 0.99}, "bonus": {"name": bonus}, "seed": seed}
    config |= {"evaluation": {"policy": "online"}, "training": {"steps": 2000}}
    score = {"last": {"mean": last, "std": 1.0}, "last_ten": {"mean": last - 5.0, "std": 1.0}}
    score |= {"best": {"mean": last + 5.0, "std": 1.0, "step": 1000}}
    result = {
        "dataset": {"name": task, "env_id": "Hopper-v4", "sha256": "ab" * 32, "transitions": 1000, "episodes": 10},
        "score": score,
        "score_by_policy": {"online": score},
        "score_unit": "normalised",
        "versions": {"jax": "0.10.2"},
        "bonus": {"histogram": HISTOGRAM} if bonus == "cvae" else {},
        "wall_time_seconds": 120.0,
    }
    evaluations = [{"step": step, "evaluation": {"online": {"returns": [100.0 + seed, 300.0 + seed]}}} for step in (1000, 2000)]
    write_and_read(parent, f"{task}/{method}/s{seed}", evaluations=evaluations, config=config, result=result, **changes)


def write_all(parent: Path) -> Path:
    """Two methods with two seeds on two tasks; one run that diverged, one half done, one never begun, one unreadable."""
    for seed in (0, 1):
        for task, cloned, held in (("hopper-medium-v2", 40.0, 50.0), ("mine", 10.0, 9.5)):
            write_run(parent, task, "bc-none", seed, cloned + seed)
            write_run(parent, task, "td3-cvae", seed, held + seed)
    write_run(parent, "mine", "td3-cvae", 2, 0.0, finished=False)
    broken = parent / "mine" / "td3-cvae" / "s3"
    broken.mkdir()
    (broken / "result.json").write_text("{")
    names = [f"mine/td3-cvae/s{seed}" for seed in range(6)]
    write_json(parent / "_sweep" / "plan.json", {"plan": "proof", "runs": names, "chosen_by": "the last score", "episodes": 1200})
    write_json(parent / "_sweep" / "failed" / "mine/td3-cvae/s4.json", {"reason": "critic/q is 1e9 at step 700 <b>"})
    return parent

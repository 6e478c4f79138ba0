"""Run folders, small enough to check by eye, in the layout that training writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tether.runs.reading import Run, read_run
from tether.storage import append_jsonl, write_json

SCORE = {
    "last": {"mean": 30.0, "std": 3.0},
    "last_ten": {"mean": 25.0, "std": 5.0},
    "best": {"mean": 40.0, "std": 1.0, "step": 2000},
}
TARGET_SCORE = {
    "last": {"mean": 50.0, "std": 2.0},
    "last_ten": {"mean": 45.0, "std": 4.0},
    "best": {"mean": 55.0, "std": 1.5, "step": 1000},
}
CONFIG = {"agent": {"discount": 0.99}, "evaluation": {"policy": "online"}}
TRAINING = [
    {"step": 1000, "critic/loss": 0.5, "critic/q": 10.0, "critic/bonus": 0.2, "actor/bonus": 0.4},
    {"step": 2000, "critic/loss": 0.25, "critic/q": 20.0, "critic/bonus": 0.1, "actor/bonus": 0.2},
]
EVALUATIONS = [
    {"step": 1000, "evaluation": {"online": {"returns": [100.0, 300.0]}, "target": {"returns": [500.0, 500.0]}}},
    {"step": 2000, "evaluation": {"online": {"returns": [400.0, 800.0]}, "target": {"returns": [600.0, 700.0]}}},
]


def write_and_read(
    parent: Path,
    name: str = "hopper-s0",
    training: list[dict[str, Any]] = TRAINING,
    evaluations: list[dict[str, Any]] = EVALUATIONS,
    config: dict[str, Any] = CONFIG,
    result: dict[str, Any] | None = None,
    finished: bool = True,
    env_id: str | None = "Hopper-v4",
) -> Run:
    folder = parent / name
    write_json(folder / "config.json", config)
    for record in [{"fit_step": 1000, "bonus/loss": 0.7}, *training, *evaluations]:
        append_jsonl(folder / "metrics.jsonl", record)
    if finished:
        whole = {
            "format_version": 1,
            "config": config,
            "dataset": {"name": "hopper-medium", "env_id": env_id},
            "policy": "online",
            "score": SCORE,
            "score_by_policy": {"online": SCORE, "target": TARGET_SCORE},
        }
        write_json(folder / "result.json", whole | (result or {}))
    return read_run(folder)

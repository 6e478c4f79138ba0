"""What is each measure worth that needs no simulator? Every policy of plan.toml is measured, and its true return is known.

    python results/selection/measure.py --runs /where/runs/lies --out results/selection/policies.json

The plan's paths are tried from each folder given by --runs, in order, then from here. Interrupted, the same command goes on: what
was measured is in the cache. A run's own policy comes first, then its others, if their scores differ. `--only-report` makes
measures.json from policies.json and nothing else.
"""

from __future__ import annotations

import argparse
import os
import time
import tomllib
from pathlib import Path
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import numpy as np

from tether import storage
from tether.data import load_dataset
from tether.data.transforms import split_episodes
from tether.environments.scores import normalised_score
from tether.runs.reading import read_run
from tether.selection.bench import Bench, Measured
from tether.selection.candidates import Candidate, find_folders, read_candidates

HERE = Path(__file__).parent
HELD_OUT_SHARE = 0.1
DIFFERENT = 3.0  # points of score by which a run's other policy must differ from its own to count as another


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, action="append", default=[], help="a folder that the plan's paths start from")
    parser.add_argument("--out", type=Path, default=HERE / "policies.json")
    parser.add_argument("--most", type=int, default=1_000, help="policies in all")
    given = parser.parse_args()
    plan = tomllib.loads((HERE / "plan.toml").read_text())["task"]
    tasks = {task["name"]: prepared(task, [*given.runs, Path()]) for task in plan}
    waiting = [(name, *each) for name, (_, found) in tasks.items() for each in found]
    waiting.sort(key=lambda each: each[1])  # own policies of all tasks first
    records: list[dict[str, Any]] = []
    references = {}
    for number, (task, _, candidate, truth) in enumerate(waiting[: given.most]):
        bench = tasks[task][0]
        if task not in references:
            references[task] = reference(bench)
        began, spent = time.perf_counter(), time.process_time()
        measured = bench.policy(truth["run"], candidate.policy, candidate.own_error)
        seconds = {"wall": time.perf_counter() - began, "cpu": time.process_time() - spent}
        records.append({"task": task, **truth, **plain(measured), "gain": measured.gain_over(clones(bench)).plain()})
        storage.write_json(given.out, {"references": references, "policies": records})
        told = (
            f"score {truth['score']:.1f}, value {measured.value}, outside {measured.outside:.2f}, {seconds['cpu']:.0f} s of CPU"
        )
        print(f"{number + 1}/{len(waiting)} {truth['run']} {truth['policy']}: {told}, {seconds['wall']:.0f} s", flush=True)


def prepared(task: dict[str, Any], roots: list[Path]) -> tuple[Bench, list[tuple[int, Candidate, dict[str, Any]]]]:
    """The bench, and each policy with its place in the order and its truth."""
    log, held_out = split_episodes(load_dataset(first(task["log"], roots)), HELD_OUT_SHARE, seed=0)
    found, seen = [], set()
    for place in task["runs"]:
        root = next((root for root in roots if any((root / place).rglob("result.json"))), None)
        if root is None:
            print(f"no finished run in {place}; left out", flush=True)
            continue
        for folder in find_folders([root / place])[0]:
            run = read_run(folder)
            assert run.result is not None
            own = None
            candidates = read_candidates(folder, every=True)
            for candidate in sorted(candidates, key=lambda each: each.policy.about["policy"] != run.policy):
                name = candidate.policy.about["policy"]
                last = run.evaluations[-1]["evaluation"][name]
                scores = np.asarray(normalised_score(np.asarray(last["returns"]), run.env_id))
                own = scores.mean() if own is None else own
                is_own = name == run.policy
                if tuple(last["returns"]) in seen or (not is_own and abs(scores.mean() - own) < DIFFERENT):
                    continue
                seen.add(tuple(last["returns"]))
                truth = {
                    "run": str(folder.relative_to(root)),
                    "policy": name,
                    "own": is_own,
                    "agent": candidate.agent,
                    "weight_actor": run.config["agent"].get("bonus_weight_actor"),
                    "score": float(scores.mean()),
                    "score_error": float(scores.std(ddof=1) / len(scores) ** 0.5),
                    "return": float(np.mean(last["returns"])),
                    "discounted": true_value(run.result, last),
                }
                found.append((0 if is_own else 1, candidate, truth))
    return Bench(log, held_out), found


def first(path: str, roots: list[Path]) -> Path:
    return next(root / path for root in roots if (root / path).exists())


def true_value(result: dict[str, Any], last: dict[str, Any]) -> float | None:
    """What its episodes earned, discounted and unscaled; of rewards that were mapped to [0, 1] that is not known."""
    scale = result["dataset"]["reward_scale"]
    if not scale["keep_zero"] or "discounted_returns" not in last:
        return None
    return float(np.mean(last["discounted_returns"])) * (scale.get("unit") or max(abs(scale["low"]), abs(scale["high"])))


def reference(bench: Bench) -> dict[str, Any]:
    log = bench.log_itself()
    return {
        "recorded": bench.recorded().plain(),
        "log": plain(log),
        "clone": plain(clones(bench)),
        "judge": bench.judge().report.auroc,
        "held_out_episodes": len(bench.held_out.episode_ends),
    }


def clones(bench: Bench) -> Measured:
    return bench.clone()  # from the cache, after the first time


def plain(measured: Measured) -> dict[str, Any]:
    names = ("value_at_rows", "outside", "novelty", "distance", "td_error", "fqe_error", "cut_off", "moved")
    return {"value": measured.value.plain(), **{name: getattr(measured, name) for name in names}}


if __name__ == "__main__":
    main()

"""Makes the curves of docs/finetune.md: offline, then online, against starting from nothing.

    python results/finetune/make.py --data ../shared/data/sets/halfcheetah-medium.hdf5 --runs runs/finetune

Runs that are finished are left alone, and stopped ones go on. Their files without weights are copied beside this script; the
picture is docs/images/finetune.png and the numbers are in summary.json. With --draw it only reads what lies beside it.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import numpy as np

from tether.cli import main
from tether.report.figures import COLOURS, GREY, save_figure, style
from tether.runs.reading import Run, read_run

HERE = Path(__file__).parent
PICTURE = HERE.parents[1] / "docs" / "images" / "finetune.png"
ENV_ID = "HalfCheetah-v4"
OFFLINE_STEPS, ONLINE_STEPS = 15_000, 4_000
AS_IT_WAS = ("--bonus", "cvae", "--set", "agent.discount=0.99", "agent.ema_mix=0.002")  # preset tether when the runs were made
EVALUATION = ("training.evaluate_every=1000", "evaluation.episodes=5")
NOTHING = ("--fresh", "--log-share", "0")
KINDS = ("offline", "online", "from-nothing")


def make(data: str, runs: Path, seeds: list[int]) -> None:
    offline = ["train", "--dataset", data, "--preset", "tether", "--steps", str(OFFLINE_STEPS), *AS_IT_WAS]
    online = ["--env", ENV_ID, "--steps", str(ONLINE_STEPS), "--set", *EVALUATION]
    for seed in seeds:
        folders = {kind: runs / kind / f"s{seed}" for kind in KINDS}
        begun = str(folders["offline"])
        commands = {
            "offline": [*offline, "--seed", str(seed), "--run-dir", begun],
            "online": ["finetune", begun, *online, "--run-dir", str(folders["online"])],
            "from-nothing": ["finetune", begun, *online, *NOTHING, "--run-dir", str(folders["from-nothing"])],
        }
        for kind, command in commands.items():
            if main(command):
                raise SystemExit(f"tether {' '.join(command)} failed")
            for name in ("config.json", "metrics.jsonl", "result.json"):
                place = HERE / kind / f"s{seed}" / name
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(folders[kind] / name, place)


def curve(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """Steps of the environment, and the mean score of each evaluation. What was learnt offline is at 0 and below."""
    scores = run.scores()
    assert scores is not None
    config, (steps, episodes) = run.config, scores
    started = config["start"]["step"] if "start" in config else 0
    online = config["online"]
    at = np.where(steps > started, online["warmup"] + (steps - started) / online["updates_per_step"], 0)
    keep = steps >= started
    return at[keep], np.asarray([np.mean(each) for each in episodes])[keep]


def summary(kinds: dict[str, list[Run]]) -> dict:
    curves = {kind: [curve(run) for run in runs] for kind, runs in kinds.items()}
    means = {kind: np.mean([scores for _, scores in each], axis=0) for kind, each in curves.items()}
    at = {kind: each[0][0].tolist() for kind, each in curves.items()}
    begun = float(means["online"][0])
    spent = {
        kind: [{name: run.result["online"][name] for name in ("collecting_seconds", "learning_seconds")} for run in runs]
        for kind, runs in kinds.items()
        if all(run.result for run in runs)
    }
    shares = {
        kind: sum(each["collecting_seconds"] for each in runs) / sum(sum(each.values()) for each in runs)
        for kind, runs in spent.items()
    }
    return {
        "seeds": len(kinds["online"]),
        "environment_steps": at,
        "mean_scores": {kind: [round(float(value), 2) for value in values] for kind, values in means.items()},
        "scores_by_seed": {kind: [[round(float(v), 2) for v in scores] for _, scores in each] for kind, each in curves.items()},
        "offline": round(begun, 2),
        "lowest_since": round(float(means["online"][1:].min()), 2),
        "deepest_dip_of_the_mean": round(begun - float(means["online"][1:].min()), 2),
        "deepest_dip_of_a_seed": round(max(float(scores[0] - scores[1:].min()) for _, scores in curves["online"]), 2),
        "share_of_time_collecting": {kind: round(share, 3) for kind, share in shares.items()},
    }


def draw(kinds: dict[str, list[Run]]) -> None:
    from matplotlib.figure import Figure

    labels = {"online": "from the offline run", "from-nothing": "from nothing"}
    with style():
        figure = Figure(figsize=(8.0, 4.2), layout="constrained")
        axes = figure.subplots()
        for (kind, runs), colour in zip(kinds.items(), COLOURS, strict=False):
            curves = [curve(run) for run in runs]
            for at, scores in curves:
                axes.plot(at, scores, color=colour, alpha=0.35, linewidth=1.0)
            at, mean = curves[0][0], np.mean([scores for _, scores in curves], axis=0)
            axes.plot(at, mean, color=colour, marker="o", markersize=4, label=f"{labels[kind]} (mean of {len(runs)} seeds)")
        begun = np.mean([curve(run)[1][0] for run in kinds["online"]])
        axes.axhline(begun - 10.0, color=GREY, linestyle=":", linewidth=1.2, label="10 points below the offline score")
        axes.set_xlabel("steps of the environment")
        axes.set_ylabel("normalised score")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.legend(loc="center right")
    save_figure(figure, PICTURE)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="../shared/data/sets/halfcheetah-medium.hdf5")
    parser.add_argument("--runs", type=Path, default=Path("runs/finetune"))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--draw", action="store_true", help="only read the run files beside this script")
    given = parser.parse_args()
    if not given.draw:
        make(given.data, given.runs, [int(seed) for seed in given.seeds.split(",")])
    found = {kind: [read_run(folder, ENV_ID) for folder in sorted((HERE / kind).glob("s*"))] for kind in KINDS[1:]}
    facts = summary(found)
    (HERE / "summary.json").write_text(json.dumps(facts, indent=1) + "\n")
    draw(found)
    print(json.dumps({name: facts[name] for name in facts if name != "scores_by_seed"}, indent=1))

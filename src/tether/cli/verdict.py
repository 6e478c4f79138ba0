"""`tether verdict`: what is known of a run's policy without a simulator."""

from __future__ import annotations

from pathlib import Path


def verdict(
    run: Path,
    /,
    dataset: str | None = None,
    log: str | None = None,
    bonus: str | None = None,
    steps: int | None = None,
    json: bool = False,
) -> None:
    """Judge a run's policy without a simulator: is it better than cloning, does it stay with the data?

    Fitted Q evaluation of the policy, of a clone of the log and of the log's own actions; the share of its actions outside the
    data; what held-out episodes earned. In words, and in the run's verdict.json. Without --dataset a tenth of the log's episodes
    stand in for held-out ones: the policy has learnt from them, which flatters it.

    Some minutes: three evaluations of 5,000 steps, a clone, a bonus. Interrupted, the same command goes on.

    Examples:
        tether verdict runs/plant
        tether verdict runs/plant --dataset held-out.hdf5
        tether verdict runs/plant --json

    Args:
        run: The folder of a finished run.
        dataset: Held-out episodes, made by `tether data split` before training.
        log: What the run learnt from, where it is no longer where it was.
        bonus: What judges actions, fitted to the log for it. Default: density, the likelihood of a cloned policy.
        steps: Of each evaluation. Default: 5,000.
        json: Print one JSON object instead of words.
    """
    from json import dumps

    from tether.selection.commands import judge_run

    found = judge_run(run, dataset, log=log, bonus=bonus, steps=steps, say=(lambda text: None) if json else print)
    print(dumps(found.plain(), indent=2) if json else found)
    if not json:
        print(f"written to {run / 'verdict.json'}")

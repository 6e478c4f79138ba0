"""`tether sweep`: many runs from one plan; `tether sweep status`: how far they are."""

from __future__ import annotations

from pathlib import Path
from typing import Literal


def sweep(
    plan: Path,
    /,
    dry_run: bool = False,
    workers: int | None = None,
    threads: int | None = None,
    out: Path | None = None,
    retry: bool = False,
    only: tuple[str, ...] = (),
    backend: Literal["processes", "ray"] | None = None,
    address: str | None = None,
    gpus: float = 0.0,
    together: int = 1,
    wandb: str | None = None,
) -> None:
    """Make all runs of a plan, as many side by side as there are cores.

    Run the same command again and it makes what is missing: finished runs are left alone, interrupted ones go on from their
    last checkpoint, failed ones are tried again. A fit of a bonus is made once and shared.

    Examples:
        tether sweep plans/quick.toml --dry-run
        tether sweep plans/quick.toml
        tether sweep status plans/quick.toml
        tether sweep plans/proof.toml --only hopper-medium,hopper-medium-expert 'cloning*,tethered' s33
        tether sweep plans/paper-table.toml --workers 8 --threads 2 --out /data/paper-table
        tether sweep plans/paper-table.toml --address auto --gpus 0.25 --out /shared/paper-table
        tether sweep plans/paper-table.toml --together 3 --workers 1
        tether report runs/quick

    Args:
        plan: A TOML file; docs/sweep.md lists its keys.
        dry_run: Print the runs, the fits they share and the time they will take here, and stop. Measures the speed once, for
            some 20 seconds for each kind of run.
        workers: Runs side by side. Default: as many as the cores allow.
        threads: Of each run, which gets that many cores. Default: one, with which a core makes the most updates; with --workers
            alone, as many as there are cores for each.
        out: The folder of the runs, in place of the plan's.
        retry: Try again what has diverged, too. It will again, unless the version or the number of threads is another.
        only: Make the runs that have each of these words in their names: a dataset, AGENT-BONUS, a variant, a seed as s0; * is
            for any letters. Of words with commas between them one will do. Data of other runs, and of finished ones, need not be
            there.
        backend: processes on this machine, or ray, which needs the extra of that name. Default: ray where --address is given.
        address: Of a Ray cluster: auto for the one that this machine belongs to, or HOST:PORT. docs/scale.md says what all its
            machines must share.
        gpus: The share of a GPU that each run asks Ray for, such as 0.25.
        together: Train up to so many runs that differ in their seeds alone as one program, each in its own folder. Meant for
            GPUs, which one small network leaves idle; on a core it gains nothing (docs/speed.md).
        wandb: A project of Weights & Biases that runs log to as well (needs the extra wandb). WANDB_MODE=offline sends nothing.
    """
    from tether.errors import TetherError
    from tether.runs.wandb import check_login
    from tether.sweep.account import plan_lines, retry_line, winner_lines
    from tether.sweep.estimate import estimate
    from tether.sweep.head import anything_to_do, carry_out, failures, open_sweep
    from tether.sweep.workers import Processes, share_out

    on_ray = backend == "ray" or (backend is None and address is not None)
    if not on_ray and (address is not None or gpus):
        flag = "--address" if address is not None else "--gpus"
        raise TetherError(f"{flag} is for --backend ray; processes on this machine take --workers and --threads")
    if together < 1:
        raise TetherError(f"--together is {together}; it takes a whole number from 1 on")
    if together > 1 and wandb:
        raise TetherError("--wandb logs one run of a process, and --together makes several there; leave one of them out")
    found = open_sweep(plan, out, only)
    if on_ray and (dry_run or anything_to_do(found, retry)):  # Ray takes a while to start, and a cluster may be gone by now
        from dataclasses import replace

        from tether.sweep.on_ray import connected

        with connected(address, found.records.folder, threads, gpus, workers, wandb) as cluster:
            if dry_run:  # speeds are measured here, and there are as many workers as the cluster has room for
                left = estimate(found.asked, share_out(None, threads), together=together, retry=retry)
                left = left and replace(left, slots=replace(left.slots, workers=cluster.workers))
                print("\n".join(plan_lines(found.asked, left, together, retry)))
                return
            found = carry_out(found, cluster, retry=retry, together=together)
    else:
        slots = share_out(workers, threads)
        if dry_run:
            left = estimate(found.asked, slots, together=together, retry=retry)
            print("\n".join(plan_lines(found.asked, left, together, retry)))
            return
        if wandb and anything_to_do(found, retry):
            check_login()
        found = carry_out(found, Processes(slots, wandb), retry=retry, together=together)
    for line in winner_lines(found):
        print(line)
    failed, number = failures(found.asked), len(found.asked.runs)
    if failed:
        name, known = failed[0]
        more = f" (and {len(failed) - 1} more: tether sweep status {plan})" if len(failed) > 1 else ""
        again = f"; {text}" if not retry and (text := retry_line(found.asked)) else ""
        raise TetherError(f"{len(failed)} of {number} runs failed: {name}: {known.reason}{more}{again}")
    of = f" asked for, of {len(found.runs)}," if number < len(found.runs) else ""
    are_done = f"the run{of} is done" if number == 1 else f"{'the' if of else 'all'} {number} runs{of} are done"
    print(f"{found.plan.name}: {are_done}; tether report {found.plan.out}")


def status(plan: Path, /, out: Path | None = None, only: tuple[str, ...] = ()) -> None:
    """How far a sweep is: done, running, failed with the reason, time left.

    Examples:
        tether sweep status plans/quick.toml
        tether sweep status plans/proof.toml --only tethered

    Args:
        plan: The plan of the sweep, which may be running.
        out: The folder of the runs, if the sweep was given another than the plan's.
        only: As in `tether sweep`.
    """
    from tether.sweep.account import status_lines, winner_lines
    from tether.sweep.estimate import estimate
    from tether.sweep.head import open_sweep
    from tether.sweep.workers import share_out

    found = open_sweep(plan, out, only, to_look=True).asked
    now = found.records.now() or {}
    slots = share_out(now.get("workers"), now.get("threads"))
    left = estimate(found, slots, measure=False, together=now.get("together", 1))
    print("\n".join([*status_lines(found, left), *winner_lines(found)]))

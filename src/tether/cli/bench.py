"""`tether bench`: updates per second, as a share of what the machine's matrix product allows."""

from __future__ import annotations

from pathlib import Path


def bench(steps: int = 400, repetitions: int = 5, most_rows: int = 10_000_000, out: Path | None = None) -> None:
    """Measure the speed of training and fitting at the paper's sizes against the machine's matrix product.

    The limit is a float32 product of two 2048 x 2048 matrices, measured between the repetitions; the fastest of each counts.

    Examples:
        tether bench
        tether bench --out benchmarks/results/mine.json
        tether bench --most-rows 1000000 --repetitions 3

    Args:
        steps: Gradient steps of one repetition.
        repetitions: How many; the fastest counts and all are kept in the JSON.
        most_rows: The largest dataset to measure; 10,000,000 rows take 2 GB of memory, and twice that while they are made.
        out: Write the JSON here too.
    """
    from dataclasses import asdict
    from json import dumps

    from rich.console import Console
    from rich.table import Table

    from tether import storage
    from tether.benchmark import speed
    from tether.errors import TetherError
    from tether.report.progress import progress

    if steps < 2 or steps % 2 or repetitions < 1:
        raise TetherError(f"--steps is {steps} and --repetitions {repetitions}; steps must be even and both at least 1")
    row_counts = tuple(rows for rows in speed.ROW_COUNTS if rows <= most_rows)
    found = []
    with progress("measuring", speed.number_of_measurements(row_counts), unit="measurements") as bar:
        for measurement in speed.measure_all(steps, repetitions, row_counts):
            found.append(measurement)
            bar.update(len(found), latest=f"{measurement.name}: {measurement.steps_per_second:.0f} steps/s")
    report = {
        "measurements": [asdict(measurement) for measurement in found],
        "peak_memory_bytes": speed.peak_memory_bytes(),
        "observation_size": speed.SPEC.observation_size,
        "action_size": speed.SPEC.action_size,
        **speed.surroundings(),
    }
    print(dumps(report, indent=2))
    table = Table(
        "what",
        title=f"{speed.SPEC.observation_size} observations, {speed.SPEC.action_size} actions; steps are gradient steps, or pairs",
    )
    for column in ("steps/s", "GFLOP/step", "GFLOP/s", "limit", "share", "compile s"):
        table.add_column(column, justify="right")
    for m in found:
        numbers = (
            f"{m.steps_per_second:,.0f}",
            f"{m.gflop_per_step:.2g}",
            f"{m.gflop_per_second:.0f}",
            f"{m.limit_gflop_per_second:.0f}",
        )
        table.add_row(m.name, *numbers, f"{m.share_of_limit:.0%}", f"{m.compile_seconds:.1f}")
    Console(stderr=True).print(table)
    if out is not None:
        storage.write_json(out, report)

"""`tether bench`: updates per second, as a share of what the machine's matrix product allows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SECONDS_OF_A_TURN = 2.0  # of one of the processes side by side
REQUESTS = 1_000  # to a server, for each number of clients in each round
CALLS_OF_A_TURN = 100  # of one of those that act in turns


def bench(
    steps: int = 400,
    repetitions: int = 5,
    most_rows: int = 10_000_000,
    larger_than_memory: bool = False,
    memory_share: float = 0.3,
    agents: bool = False,
    bonuses: bool = False,
    side_by_side: bool = False,
    seeds_together: int | None = None,
    acting: bool = False,
    serving: bool = False,
    out: Path | None = None,
) -> None:
    """Measure the speed of training and fitting at the paper's sizes against the machine's matrix product.

    The limit is a float32 product of two 2048 x 2048 matrices, measured between the repetitions; the fastest of each counts.
    Both are given by the clock and by the processor time of all threads, which other work on the machine hardly changes.

    Examples:
        tether bench
        tether bench --out benchmarks/results/mine.json
        tether bench --most-rows 1000000 --repetitions 3
        tether bench --agents --out benchmarks/results/mine-agents.json
        tether bench --bonuses --out benchmarks/results/mine-bonuses.json
        tether bench --larger-than-memory --out benchmarks/results/mine-on-disk.json
        tether bench --side-by-side --out benchmarks/results/mine-side-by-side.json
        tether bench --seeds-together 4 --out benchmarks/results/mine-seeds.json
        tether bench --acting --out benchmarks/results/mine-acting.json
        tether bench --serving --out benchmarks/results/mine-serving.json

    Args:
        steps: Gradient steps of one repetition.
        repetitions: How many; the fastest counts and all are kept in the JSON.
        most_rows: The largest dataset to measure; 10,000,000 rows take 2 GB of memory, and twice that while they are made.
        agents: Measure every agent instead, with its own settings and its usual bonus.
        bonuses: Measure the bonuses alone: the fit of each, and a million pairs scored by it.
        larger_than_memory: Measure rows on disk instead: MOST_ROWS of them, in a process limited to less memory than they take,
            against rows in memory. Takes 4 GB in the temporary folder (TMPDIR), and 6 GB of memory for the other side.
        memory_share: Of the size of the rows, what the limited process may have beyond what JAX takes.
        side_by_side: Measure how to share out the cores instead: every agent in one process with all of them and in one a core,
            in turns. On two cores some 20 minutes, in which nothing else should run.
        seeds_together: Measure a program of so many seeds instead, against one run, in turns on one core.
        acting: Measure how long an action takes instead: JAX, NumPy and onnxruntime in turns, for 1 and 256 observations.
        serving: Measure `tether serve` instead: 1, 16 and 64 clients on this machine in turns, 1,000 requests each.
        out: Write the JSON here too.
    """
    _refuse_several(
        {
            "--larger-than-memory": larger_than_memory,
            "--agents": agents,
            "--bonuses": bonuses,
            "--side-by-side": side_by_side,
            "--seeds-together": seeds_together is not None,
            "--acting": acting,
            "--serving": serving,
        }
    )
    if seeds_together is not None:
        _bench_seeds(seeds_together, repetitions, out)
        return
    if serving:
        _bench_serving(repetitions, out)
        return
    if acting:
        _bench_acting(repetitions, out)
        return
    if side_by_side:
        _bench_side_by_side(repetitions, out)
        return
    if larger_than_memory:
        _bench_rows_on_disk(most_rows, repetitions, memory_share, out)
        return
    from dataclasses import asdict

    from tether.benchmark import speed
    from tether.errors import TetherError
    from tether.progress import progress

    if steps < 2 or steps % 2 or repetitions < 1:
        raise TetherError(f"--steps is {steps} and --repetitions {repetitions}; steps must be even and both at least 1")
    row_counts = tuple(rows for rows in speed.ROW_COUNTS if rows <= most_rows)
    found = []
    if agents:
        total, measurements = len(speed.agents_to_measure()), speed.measure_agents(steps, repetitions)
    elif bonuses:
        total, measurements = speed.number_of_bonus_measurements(), speed.measure_bonuses(steps, repetitions)
    else:
        total, measurements = speed.number_of_measurements(row_counts), speed.measure_all(steps, repetitions, row_counts)
    with progress("measuring", total, unit="measurements") as bar:
        for measurement in measurements:
            found.append(measurement)
            report = {
                "measurements": [asdict(measurement) for measurement in found],
                "peak_memory_bytes": speed.peak_memory_bytes(),
                "observation_size": speed.SPEC.observation_size,
                "action_size": speed.SPEC.action_size,
                **speed.surroundings(),
            }
            _write(report, out)  # what there is, should the rest be stopped
            bar.update(len(found), latest=f"{measurement.name}: {measurement.steps_per_second:.0f} steps/s")
    _tell(report, out)
    lines = [["what", "steps/s", "GFLOP/step", "GFLOP/s", "limit", "share", "steps a busy s", "share", "compile s"]]
    for m in found:
        numbers = (
            f"{m.steps_per_second:,.0f}",
            f"{m.gflop_per_step:.2g}",
            f"{m.gflop_per_second:.0f}",
            f"{m.limit_gflop_per_second:.0f}",
        )
        busy = (f"{m.steps_per_busy_second:,.0f}", f"{m.share_of_limit_busy:.0%}")
        lines.append([m.name, *numbers, f"{m.share_of_limit:.0%}", *busy, f"{m.compile_seconds:.1f}"])
    sizes = f"{speed.SPEC.observation_size} observations, {speed.SPEC.action_size} actions"
    _show(lines, f"{sizes}; steps are gradient steps, or pairs")


def _refuse_several(wanted: dict[str, bool]) -> None:
    from tether.errors import TetherError

    given = [flag for flag, is_given in wanted.items() if is_given]
    if len(given) > 1:
        raise TetherError(f"{', '.join(given[:-1])} and {given[-1]} measure different things; give one of them")


def _bench_rows_on_disk(rows: int, turns: int, share: float, out: Path | None) -> None:
    import os
    import tempfile
    from dataclasses import asdict

    from tether.benchmark import memory, speed
    from tether.data.files.mapped import map_d4rl
    from tether.errors import TetherError
    from tether.progress import progress

    if rows < memory.EPISODE or turns < 1 or not 0.0 < share < 1.0:
        raise TetherError(
            f"--most-rows must be {memory.EPISODE:,} or more, --repetitions 1 or more, --memory-share within 0 and 1"
        )
    with tempfile.TemporaryDirectory(prefix="tether-bench-") as folder:
        os.environ["TETHER_CACHE"] = folder  # the columns go with the rest
        path = Path(folder) / "rows.hdf5"
        with progress("making rows", rows, unit="rows") as bar:
            for done in memory.write_rows(path, rows):
                bar.update(done)
        with progress("writing columns to disk", rows, unit="rows") as bar:
            map_d4rl(path, lambda done, total: bar.update(done))
        with progress("measuring", turns, unit="turns") as bar:
            for turn, found in enumerate(memory.compare(path, rows, turns, share), start=1):
                bar.update(turn, **{kind: f"{rates[-1]:.0f} steps/s" for kind, rates in found.steps_per_second.items()})
    ratios = {kind: found.ratio(kind) for kind in ("disk", "cold")}
    report = {**asdict(found), "ratio_of_medians": ratios, **speed.surroundings()}
    _tell(report, out)


def _bench_side_by_side(rounds: int, out: Path | None) -> None:
    from dataclasses import asdict

    from tether.benchmark import side_by_side
    from tether.errors import TetherError
    from tether.progress import progress
    from tether.runs.result import versions

    if rounds < 1:
        raise TetherError(f"--repetitions is {rounds}; it must be at least 1")
    found, methods = [], side_by_side.every_agent()
    with progress("measuring", len(methods), unit="methods") as bar:
        for sharing in side_by_side.compare(methods, rounds, SECONDS_OF_A_TURN):
            found.append(sharing)
            report = {
                "measurements": [asdict(each) | {"gain": each.gain, "cpu_gain": each.cpu_gain} for each in found],
                "seconds_of_a_turn": SECONDS_OF_A_TURN,
                "versions": versions(),
            }
            _write(report, out)  # what there is, should the rest be stopped
            bar.update(len(found), latest=f"{sharing.agent} {sharing.bonus}: {sharing.gain:.2f}")
    _tell(report, out)
    lines = [["method", "together", "apart", "gain", "gain a busy core"]]
    for sharing in found:
        numbers = [f"{sorted(rates)[len(rates) // 2]:,.0f}" for rates in (sharing.together, sharing.apart)]
        lines.append([f"{sharing.agent}, {sharing.bonus}", *numbers, f"{sharing.gain:.2f}", f"{sharing.cpu_gain:.2f}"])
    _show(lines, "steps/s in total: one process with every core, and one a core; medians of the rounds")


def _bench_acting(rounds: int, out: Path | None) -> None:
    import os
    import tempfile
    from statistics import median

    from tether.cores import thread_limits

    os.environ.update(thread_limits(1))  # before NumPy and JAX are imported, who look once

    from tether.benchmark import acting, speed
    from tether.errors import TetherError

    if rounds < 1:
        raise TetherError(f"--repetitions is {rounds}; it must be at least 1")
    with tempfile.TemporaryDirectory(prefix="tether-bench-") as folder:
        found = acting.measure(Path(folder), rounds, CALLS_OF_A_TURN)
        starts = acting.measure_start(Path(folder) / "policy.safetensors", rounds)
    report = {
        "measurements": found,
        "start_seconds": starts,
        "hidden_sizes": acting.HIDDEN,
        "bonus": acting.BONUS,
        "observation_size": speed.SPEC.observation_size,
        "action_size": speed.SPEC.action_size,
        **speed.surroundings(),
    }
    _tell(report, out)
    lines = [["runner", "rows", "action", "action and familiarity", "start, ms"]]
    cell = {
        (
            fact["runner"],
            fact["rows"],
            fact["familiarity"],
        ): f"{fact['microseconds_median']:,.0f} ({fact['microseconds_p99']:,.0f})"
        for fact in found
    }
    for runner, rows in dict.fromkeys((fact["runner"], fact["rows"]) for fact in found):
        start = f"{1e3 * median(starts[runner]):,.0f}" if runner in starts and rows == 1 else ""
        lines.append([runner, str(rows), cell[runner, rows, False], cell[runner, rows, True], start])
    _show(lines, f"microseconds a call on one thread, median (99th percentile); familiarity by {acting.BONUS}")


def _bench_serving(rounds: int, out: Path | None) -> None:
    import tempfile
    from statistics import median

    from tether.benchmark import acting, serving, speed

    with tempfile.TemporaryDirectory(prefix="tether-bench-") as folder:
        file = Path(folder) / "policy.safetensors"
        acting.make_policy().save(file)
        found = serving.measure(file, [0.1] * speed.SPEC.observation_size, REQUESTS, rounds)
    report = {"measurements": found, "hidden_sizes": acting.HIDDEN, "bonus": acting.BONUS, **speed.surroundings()}
    _tell(report, out)
    lines = [["clients", "requests", "failures", "requests/s", "median ms", "p99 ms"]]
    for fact in found:
        names = ("requests_per_second", "milliseconds_median", "milliseconds_p99")
        numbers = (median(measured[name] for measured in fact["rounds"]) for name in names)
        spelt = (f"{number:,.0f}" if number >= 100 else f"{number:.1f}" for number in numbers)
        totals = (sum(measured[name] for measured in fact["rounds"]) for name in ("requests", "failures"))
        lines.append([str(fact["clients"]), *(f"{total:,}" for total in totals), *spelt])
    _show(lines, f"one observation a request, action and familiarity by {acting.BONUS}; medians of the rounds")


def _bench_seeds(seeds: int, rounds: int, out: Path | None) -> None:
    from dataclasses import asdict

    from tether.benchmark import side_by_side
    from tether.errors import TetherError
    from tether.progress import progress
    from tether.runs.result import versions

    if rounds < 1 or seeds < 2:
        raise TetherError(f"--repetitions is {rounds} and --seeds-together {seeds}; they must be at least 1 and 2")
    found = []
    with progress("measuring", len(side_by_side.SEVERAL_SEEDS), unit="methods") as bar:
        for measured in side_by_side.compare_seeds(seeds, rounds, SECONDS_OF_A_TURN):
            found.append(measured)
            bar.update(len(found), latest=f"{measured.agent} {measured.bonus}: {measured.gain:.2f}")
    measurements = [asdict(measured) | {"gain": measured.gain} for measured in found]
    report = {"measurements": measurements, "seconds_of_a_turn": SECONDS_OF_A_TURN, "versions": versions()}
    _tell(report, out)
    lines = [["method", "one run", f"{seeds} seeds", "gain"]]
    for measured in found:
        numbers = [f"{sorted(rates)[len(rates) // 2]:,.0f}" for rates in (measured.alone, measured.together)]
        lines.append([f"{measured.agent}, {measured.bonus}", *numbers, f"{measured.gain:.2f}"])
    _show(lines, f"steps a second that the core is busy: one run, and {seeds} seeds in one program, in total")


def _show(lines: list[list[str]], title: str) -> None:
    """Beside the JSON, which is what the command prints."""
    from rich.console import Console

    from tether.report.tables import rich_lines

    Console(stderr=True).print(rich_lines(lines, title))


def _tell(report: dict[str, Any], out: Path | None) -> None:
    from json import dumps

    _write(report, out)
    print(dumps(report, indent=2))


def _write(report: dict[str, Any], out: Path | None) -> None:
    from tether import storage

    if out is not None:
        storage.write_json(out, report)

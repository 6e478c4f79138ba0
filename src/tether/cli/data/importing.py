"""`tether data import`: your own tables as a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Literal


def import_tables(
    files: tuple[Path, ...],
    /,
    observation: tuple[str, ...],
    action: tuple[str, ...],
    reward: str,
    terminated: str,
    out: Path,
    truncated: str | None = None,
    episode: str | None = None,
    episode_ids: Literal["per-file", "across-files", "per-stretch"] | None = None,
    time: str | None = None,
    max_gap: float | None = None,
    drop_incomplete_rows: bool = False,
    action_low: tuple[float, ...] | None = None,
    action_high: tuple[float, ...] | None = None,
    action_choices: tuple[str, ...] | None = None,
    env_id: str | None = None,
    duplicates: Literal["first", "last"] | None = None,
    time_format: str | None = None,
    time_zone: str | None = None,
    decimal: Literal[".", ","] | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    comment: str | None = None,
    skip_lines: int | None = None,
    overwrite: bool = False,
) -> None:
    """Turn your own tables into a dataset, with a report of one page before anything is trained.

    Tables are Parquet, CSV or NPZ: many files, or a folder. The dataset is an HDF5 file in the D4RL layout that carries the
    files' hashes, the columns and the action bounds. Beside it go OUT.report.md and OUT.report.png. Actions stay in the log's own
    units, and so are the trained policy's. Needs pip install 'tether-rl[tables]'.

    How a CSV file is written is guessed and said: its encoding, delimiter, decimal mark, comments, dates. What cannot be known
    (whether 03/04/2025 is in March or in April) is asked.

    Examples:
        tether data import log.parquet --observation 'obs_*' --action 'act_*' --reward r --terminated done --out log.hdf5
        tether data import logs/ --observation 'joint_*' 'imu_*' '!imu_time' --action torque --reward r --terminated fell \\
            --truncated stopped --episode run --time t --max-gap 0.1 --action-low -2 --action-high 2 --out robot.hdf5
        tether data import valve.csv --observation 'tank_*' --action valve --action-choices closed half open \\
            --reward r --terminated none --episode run --out valve.hdf5
        tether data import logs/ --observation 'Winkel [rad]' 'Drehzahl [rad/s]' --action 'Moment [Nm]' --reward Guete \\
            --terminated none --time Zeit --time-zone Europe/Berlin --duplicates last --out pruefstand.hdf5
        tether data import log.npz --observation obs --action act --reward rew --terminated none --out log.hdf5

    Args:
        files: Tables (.parquet, .csv, .csv.gz, .tsv, .npz), or folders of them.
        observation: Names or patterns (* and ?; brackets are text) of the columns that the policy will see, in its order; with
            ! before it, columns to leave out.
        action: Names or patterns of the columns that it will set.
        reward: The column to make large.
        terminated: The column of true ends, after which nothing follows: 0 and 1, true and false, yes and no; or none.
        out: The HDF5 file to write.
        truncated: The column of episodes cut off by a time limit or by hand.
        episode: The column that names each row's episode. Without it an episode ends where its flags say, and with its file.
        episode_ids: Whether an id that two files have is two episodes or one that goes on; or that every unbroken stretch of an
            id is an episode, as where a logger counts its runs from the start again.
        time: The column to sort by within an episode, and to find gaps and duplicates with.
        max_gap: Cut an episode where the time jumps by more; in the unit of the time, seconds for dates.
        drop_incomplete_rows: Leave out rows with empty entries, and cut their episodes there.
        action_low: Lowest action: one number for all, or one for each. Without it, measured.
        action_high: Highest action.
        action_choices: Actions are one of several choices: how many there are (the column has 0, 1, ...), or the name of each.
        env_id: The Gymnasium environment to evaluate in, if there is one.
        duplicates: Which to keep of rows of one episode and one time that differ. Without it they are an error.
        time_format: How dates are written: day-first, month-first or year-first, or a pattern such as '%d/%m/%Y %H:%M:%S.%f'.
        time_zone: Where a clock without a zone stands, such as Europe/Berlin; none if it never changes.
        decimal: The decimal mark of CSV files.
        delimiter: What stands between fields, a single character or tab.
        encoding: Of the text, such as utf-8, utf-16 or cp1252.
        comment: What lines begin with that are no rows; none if all are.
        skip_lines: Lines before the header, where they cannot be told from it.
        overwrite: Replace OUT and its report if they are there.
    """
    from rich.console import Console
    from rich.markup import escape

    from tether.cli.data.output import check_outputs
    from tether.data import load_dataset
    from tether.data.files.writing import write_d4rl
    from tether.data.tables.dialect import CsvOptions
    from tether.data.tables.files import find_files
    from tether.data.tables.importing import ImportOptions
    from tether.data.tables.importing import import_tables as read_tables
    from tether.errors import TetherError
    from tether.progress import progress
    from tether.report.log_page import write_log_page
    from tether.report.tables import rich_lines

    if out.suffix not in (".hdf5", ".h5"):
        raise TetherError(f"--out is {out}; it must end in .hdf5, as {out.with_suffix('.hdf5').name} does")
    if delimiter is not None:
        delimiter = {"tab": "\t", "\\t": "\t"}.get(delimiter, delimiter)
        if len(delimiter) != 1:
            raise TetherError(f"--delimiter is {delimiter!r}; it takes one character, or tab")
    if skip_lines is not None and skip_lines < 0:
        raise TetherError(f"--skip-lines is {skip_lines}; it must not be negative")
    page, figure = out.with_suffix(".report.md"), out.with_suffix(".report.png")
    check_outputs([out, page, figure], overwrite)
    options = ImportOptions(
        observation=observation,
        action=action,
        reward=reward,
        terminated=terminated,
        truncated=truncated,
        episode=episode,
        time=time,
        episode_ids=episode_ids,
        max_gap=max_gap,
        drop_incomplete_rows=drop_incomplete_rows,
        action_low=action_low,
        action_high=action_high,
        action_choices=action_choices,
        env_id=env_id,
        written=CsvOptions(encoding, delimiter, comment, skip_lines, decimal),
        time_format=time_format,
        time_zone=time_zone,
        duplicates=duplicates,
    )
    with progress("reading", len(find_files(files)), unit="files", enabled=len(files) > 1 or files[0].is_dir()) as bar:
        imported = read_tables(files, options, bar.update)
    write_d4rl(out, imported.rows, imported.truncated, imported.spec, imported.attributes, compact=True, returns=imported.returns)
    dataset = load_dataset(out)
    remarks = write_log_page(imported, dataset, page, figure)
    console = Console()
    heading = ["column", "role", "type", "unit", "min", "max"]
    lines = [
        [fact.name, fact.role, fact.type, fact.unit or "-", *(f"{value:.4g}" for value in (fact.low, fact.high))]
        for fact in imported.columns
    ]
    console.print(rich_lines([heading, *lines]))
    for text in imported.assumptions:
        console.print(escape(f"assumed: {text}"), soft_wrap=True)
    for text in remarks:
        console.print(escape(f"look: {text}"), soft_wrap=True)
    returns = dataset.episode_returns
    print(f"{out}: {dataset.size:,} transitions, {len(returns):,} episodes, return {returns.mean():,.4g} ± {returns.std():,.4g}")
    print(f"the page to read before training: {page} (with {figure.name})")

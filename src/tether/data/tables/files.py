"""Tables on disk: which files, which columns they have, and the columns that are asked for."""

from __future__ import annotations

import csv
import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tether.data.tables.dialect import CsvOptions, Dialect, guess_dialect
from tether.data.tables.separated import Separated, read_separated
from tether.errors import TetherError

if TYPE_CHECKING:
    import pyarrow

SUFFIXES = (".parquet", ".pq", ".csv", ".csv.gz", ".tsv", ".npz")


@dataclass(frozen=True)
class TableFile:
    """A file and what it says of its columns, before any row is read."""

    path: Path
    schema: pyarrow.Schema
    bases: dict[str, str]  # of a column that is part of a two-dimensional array: the array's name
    dialect: Dialect | None = None  # of a CSV file

    @property
    def name(self) -> str:
        return self.path.name


def find_files(given: Sequence[Path]) -> list[Path]:
    """The files as given; a folder stands for the tables in it, log_2 before log_10."""
    if not given:
        raise TetherError(f"give at least one table ({', '.join(SUFFIXES)}) or a folder of them")
    found: list[Path] = []
    for path in given:
        if path.is_dir():
            inside = [file for file in path.iterdir() if _is_table(file) and file.is_file()]
            if not inside:
                raise TetherError(f"{path}: no table in this folder; tables end in {', '.join(SUFFIXES)}")
            found += sorted(inside, key=_in_order)
        elif not path.exists():
            raise TetherError(f"{path}: no such file")
        elif not _is_table(path):
            raise TetherError(f"{path}: not a table that is read; tables end in {', '.join(SUFFIXES)}")
        else:
            found.append(path)
    twice = {path for path in found if found.count(path) > 1}
    if twice:
        raise TetherError(f"{min(twice)} is given twice")
    return found


def passed_over(given: Sequence[Path]) -> list[str]:
    """What else is in the folders, by the ends of its names: a log in another format may be among it."""
    said = []
    for folder in (path for path in given if path.is_dir()):
        hidden, kinds = 0, dict[str, list[str]]()
        for path in sorted(folder.iterdir(), key=_in_order):
            if path.is_dir():
                kinds.setdefault("folders", []).append(f"{path.name}/")
            elif not _is_table(path) and path.name.startswith("."):
                hidden += 1
            elif not _is_table(path):
                kinds.setdefault(path.suffix.lower() or "without an ending", []).append(path.name)
        texts = [f"{names[0]}{f' and {len(names) - 1} more ({kind})' * (len(names) > 1)}" for kind, names in kinds.items()]
        texts += [f"{hidden} hidden"] * (hidden > 0)
        if texts:
            said.append(f"{folder}: passed over, as no table that is read: {', '.join(texts)}")
    return said


def _is_table(path: Path) -> bool:
    return path.name.lower().endswith(SUFFIXES)


def _in_order(path: Path) -> tuple[list[tuple[int, int, str]], str]:
    """Capitals do not count: LOG_2.CSV stands between log_1.csv and log_3.csv."""
    return natural_order(path.name.lower()), path.name


def natural_order(name: str) -> list[tuple[int, int, str]]:
    """Sorts obs_2 before obs_10: runs of digits by their number. A superscript, as in I1², is a digit but no number."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name) if part]


def open_table(path: Path, written: CsvOptions) -> TableFile:
    """What columns the file has, and of which types."""
    with _reading(path):
        if path.suffix.lower() == ".npz":
            table, bases = _read_npz(path)
            return TableFile(path, table.schema, bases)
        if path.suffix.lower() in (".parquet", ".pq"):
            import pyarrow.parquet

            return TableFile(path, _checked(pyarrow.parquet.read_schema(path), path), {})
        import pyarrow

        dialect = guess_dialect(path, written)
        units = dict(zip(dialect.header, dialect.units, strict=False))
        fields = [
            pyarrow.field(name, pyarrow.string(), metadata={"unit": units[name]} if units.get(name) else None)
            for name in dialect.header
        ]
        return TableFile(path, pyarrow.schema(fields), {}, dialect)


def read_table(file: TableFile, columns: Sequence[str], empty_ragged: bool = False) -> Separated:
    """The columns, in the order asked for; those of a CSV file as text."""
    with _reading(file.path):
        if file.path.suffix.lower() == ".npz":
            return Separated(_read_npz(file.path)[0].select(list(columns)))
        if file.path.suffix.lower() in (".parquet", ".pq"):
            import pyarrow.parquet

            table = pyarrow.parquet.read_table(file.path, columns=list(columns), partitioning=None)
            return Separated(_decoded(table.select(list(columns))))
        assert file.dialect is not None
        return read_separated(file.path, file.dialect, columns, empty_ragged)


def _decoded(table: pyarrow.Table) -> pyarrow.Table:
    """With the values themselves where pandas' `category` has numbers that stand for them: few functions take those."""
    import pyarrow

    for place, field in enumerate(table.schema):
        if pyarrow.types.is_dictionary(field.type):
            table = table.set_column(place, field.name, table.column(place).cast(field.type.value_type))
    return table


def unit_of(field: pyarrow.Field) -> str | None:
    """The unit as the file says it: Parquet metadata `unit` or `units`, or brackets at the end of the name (`speed [m/s]`)."""
    metadata = field.metadata or {}
    for key in (b"unit", b"units"):
        if key in metadata:
            return metadata[key].decode("utf-8", "replace")
    bracketed = re.search(r"[\[(]([^\[\]()]+)[\])]\s*$", field.name)
    return bracketed.group(1).strip() if bracketed else None


def _read_npz(path: Path) -> tuple[pyarrow.Table, dict[str, str]]:
    """Every array of one axis is a column; `obs` of shape (N, 3) is the columns obs_0, obs_1 and obs_2."""
    import pyarrow

    columns: dict[str, Any] = {}
    bases: dict[str, str] = {}
    with np.load(path, allow_pickle=False) as file:
        for name in file.files:
            array = file[name]
            if array.ndim == 1:
                columns[name] = array
            elif array.ndim == 2:
                for index in range(array.shape[1]):
                    columns[f"{name}_{index}"] = array[:, index]
                    bases[f"{name}_{index}"] = name
    lengths = {name: len(array) for name, array in columns.items()}
    if len(set(lengths.values())) > 1:
        shortest, longest = min(lengths, key=lengths.__getitem__), max(lengths, key=lengths.__getitem__)
        raise TetherError(f"{path.name}: {shortest} has {lengths[shortest]} rows, {longest} has {lengths[longest]}")
    return pyarrow.table({name: pyarrow.array(np.ascontiguousarray(array)) for name, array in columns.items()}), bases


def _checked(schema: pyarrow.Schema, path: Path) -> pyarrow.Schema:
    twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if twice:
        raise TetherError(f"{path.name}: two columns are both named {twice[0]!r}; rename one")
    return schema


class _reading:  # noqa: N801 -- used as a function is
    """Errors of the libraries as one `TetherError` that names the file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        try:
            import pyarrow  # noqa: F401
        except ImportError as error:
            raise TetherError("tables need pyarrow: pip install 'tether-rl[tables]'") from error

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        import pyarrow

        if isinstance(error, MemoryError):
            raise TetherError(f"{self.path.name}: does not fit in memory") from error
        if isinstance(error, pyarrow.ArrowException | OSError | ValueError | csv.Error | zipfile.BadZipFile | EOFError):
            raise TetherError(f"{self.path.name}: cannot be read: {' '.join(str(error).split())}") from error

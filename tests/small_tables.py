"""Tables of an observation x, an action u and a reward r: read, or refused with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tether.data.tables.dialect import CsvOptions
from tether.data.tables.importing import Imported, ImportOptions, import_tables
from tether.errors import TetherError

COLUMNS = {"observation": ("x",), "action": ("u",), "reward": "r", "terminated": "none"}


def read(*paths: Path, **options) -> Imported:
    """`options` are those of the import, and of how the file is written."""
    written = {name: options.pop(name) for name in CsvOptions.__dataclass_fields__ if name in options}
    return import_tables(paths, ImportOptions(**(COLUMNS | options), written=CsvOptions(**written)))


def refused(*paths: Path, **options) -> str:
    with pytest.raises(TetherError) as caught:
        read(*paths, **options)
    return str(caught.value)

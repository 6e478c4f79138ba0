"""The shape of the house: who may import whom, how large a file may be, what stays out."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tether

SOURCE = Path(tether.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
WITH_CODE_INSIDE = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}


def imports(path: Path, everywhere: bool = True) -> set[str]:
    """The modules that a file imports; with `everywhere` false, only those it imports when it is itself imported."""
    tree = ast.parse(path.read_text())
    found: set[str] = set()
    for node in ast.walk(tree) if everywhere else _outside_functions(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {str(node.module)}
    return found


def _outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        type_checking = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
        if not type_checking and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
            yield from _outside_functions(child)


def within(modules: set[str], *packages: str) -> set[str]:
    return {module for module in modules if any(module == name or module.startswith(f"{name}.") for name in packages)}


def names(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(SOURCE)) for path in paths]


@pytest.mark.parametrize("path", FILES, ids=names(FILES))
def test_every_file(path: Path):
    assert len(path.read_text().splitlines()) <= 350
    assert path.stem not in {"utils", "util", "helpers", "helper", "common", "misc"}
    assert not within(imports(path), *WITH_CODE_INSIDE)
    assert "allow_pickle=True" not in path.read_text()


def rooms() -> dict[str, int]:
    """The row of each room in the table of docs/architecture.md, each of which may import the rooms of rows above."""
    page = (SOURCE.parents[1] / "docs" / "architecture.md").read_text()
    table = page[page.index("| rooms |") :].split("\n\n")[0].splitlines()[2:]
    return {room: number for number, row in enumerate(table) for room in re.findall(r"`(\w+)(?:/|\.py)`", row.split("|")[1])}


def room_of(module: str) -> str:
    """`agents` of `tether.agents.td3`; the package itself is `__init__`."""
    return module.split(".")[1] if "." in module else "__init__"


def test_every_room_has_its_row():
    found = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in FILES}
    assert set(rooms()) == found


@pytest.mark.parametrize("path", FILES, ids=names(FILES))
def test_a_room_imports_only_from_rows_above_and_from_itself(path: Path):
    rows = rooms()
    here = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    for module in within(imports(path), "tether"):
        there = room_of(module)
        if there in rows and there not in ("__init__", here) and here != "__main__":
            assert rows[there] < rows[here], f"{path} imports {module}"


@pytest.mark.parametrize("room", ["report", "data", "environments", "evaluation", "runtime"])
def test_what_needs_no_jax_imports_none(room: str):
    for path in (SOURCE / room).rglob("*.py"):
        assert not within(imports(path), "jax", "equinox", "optax"), path


def test_agents_and_bonuses_do_no_files():
    for room in ("agents", "bonuses"):
        for path in (SOURCE / room).rglob("*.py"):
            assert not within(imports(path), "pathlib", "os", "io", "tether.storage"), path


def test_commands_import_nothing_slow_before_they_are_called():
    slow = ("jax", "equinox", "optax", "matplotlib", "gymnasium", "mujoco", "h5py", "numpy")
    for path in (SOURCE / "cli").rglob("*.py"):
        assert not within(imports(path, everywhere=False), *slow), path


def test_only_exceptions_and_structures_are_inherited_from():
    structures = {"NamedTuple", "TypedDict", "Protocol", "eqx.Module", "Exception", "UserWarning", "TetherError", "Summary"}
    structures |= {"gymnasium.Wrapper"}  # an environment must be one of Gymnasium's to be wrapped on
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                assert {ast.unparse(base) for base in node.bases} <= structures, f"{path}: {node.name}"


def test_importing_the_package_and_asking_for_help_wait_for_no_jax():
    script = """
import sys
import tether
from tether.cli import main
assert "train" in dir(tether)
assert main(["--help"]) == 0
print("loaded:", [name for name in ("jax", "equinox", "matplotlib", "mujoco", "h5py") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "loaded: []"


def test_every_public_name_is_there():
    for name in dir(tether):
        assert getattr(tether, name).__name__ == name
    assert {*tether.__all__, "TD3", "BC", "DQN", "CVAE", "RNDFiLM", "NoBonus"} <= {*dir(tether)}
    with pytest.raises(AttributeError, match="module 'tether' has no attribute 'trian'"):
        _ = tether.trian

"""The shape of the house: who may import whom, how large a file may be, what stays out."""

from __future__ import annotations

import ast
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


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [
        ("agents", ("training", "report", "cli", "data", "evaluation", "storage", "bonuses")),
        ("bonuses", ("training", "report", "cli", "data", "evaluation", "storage", "agents")),
        ("report", ("agents", "bonuses", "training", "cli", "networks", "theory")),
        ("data", ("agents", "bonuses", "training", "report", "cli")),
        ("evaluation", ("agents", "bonuses", "training", "report", "cli")),
        ("theory", ("agents", "bonuses", "training", "report", "cli", "data", "evaluation", "storage")),
        ("training", ("cli",)),
        ("collection", ("cli",)),
        ("experiments", ("cli",)),
    ],
)
def test_a_package_does_not_reach_up(package: str, forbidden: tuple[str, ...]):
    paths = sorted((SOURCE / package).rglob("*.py"))
    assert paths
    for path in paths:
        assert not within(imports(path), *(f"tether.{name}" for name in forbidden)), path


def test_reports_are_made_without_jax():
    for path in (SOURCE / "report").rglob("*.py"):
        assert not within(imports(path), "jax", "equinox", "optax"), path


def test_commands_import_nothing_slow_before_they_are_called():
    slow = ("jax", "equinox", "optax", "matplotlib", "gymnasium", "mujoco", "h5py", "numpy")
    for path in (SOURCE / "cli").rglob("*.py"):
        assert not within(imports(path, everywhere=False), *slow), path


def test_only_exceptions_and_structures_are_inherited_from():
    structures = {"NamedTuple", "TypedDict", "Protocol", "eqx.Module", "Exception", "TetherError", "Summary"}
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
    for name in tether.__all__:
        assert getattr(tether, name).__name__ == name
    assert dir(tether) == sorted(tether.__all__)
    with pytest.raises(AttributeError, match="module 'tether' has no attribute 'trian'"):
        _ = tether.trian

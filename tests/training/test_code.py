"""The hash of a bonus's code: it changes with what the fit is made by, and with nothing else."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tether.bonuses import BONUSES
from tether.training.code import code_version

BONUS = """
from dataclasses import dataclass

from tether.networks import make_mlp
from my_ext import sizes
from my_ext.nets import network as net
from .nets import unused

RATE = 0.1


@dataclass(frozen=True)
class Linear:
    steps: int = 10

    def update(self, fitting, batch, key):
        return step(fitting), {}

    def novelty(self, state, observation, action, key):
        return net(action) + sizes.WIDTH


def step(fitting):
    return fitting * RATE


def apart():
    return 1
"""
NETS = """
def network(x):
    return inner(x)


def inner(x):
    return 2 * x


def unused(x):
    return x
"""
FILES = {"__init__.py": "", "bonus.py": BONUS, "nets.py": NETS, "sizes.py": "WIDTH = 3\n"}

VersionOf = Callable[..., str]


@pytest.fixture
def version_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[VersionOf]:
    """The version of `my_ext.bonus.Linear` where text of one of the files was replaced."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def forget() -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] == "my_ext"]:
            del sys.modules[name]

    def version(file: str = "bonus.py", old: str = "", new: str = "") -> str:
        assert old in FILES[file]
        (tmp_path / "my_ext").mkdir(exist_ok=True)
        for name, text in FILES.items():
            (tmp_path / "my_ext" / name).write_text(text.replace(old, new) if name == file else text)
        forget()
        importlib.invalidate_caches()
        return code_version(importlib.import_module("my_ext.bonus").Linear)

    yield version
    forget()


def test_comments_docstrings_layout_and_what_is_not_used_do_not_count(version_of: VersionOf):
    before = version_of()
    assert version_of() == before
    assert version_of("bonus.py", "def step(fitting):\n", 'def step(fitting):\n    """A step."""\n    # of the fit\n\n') == before
    assert version_of("bonus.py", "return 1", "return 2") == before
    assert version_of("nets.py", "return x", "return -x") == before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("bonus.py", "net(action)", "-net(action)"),  # the class itself
        ("bonus.py", "fitting * RATE", "fitting / RATE"),  # a function it calls
        ("bonus.py", "RATE = 0.1", "RATE = 0.2"),  # a constant that one uses
        ("nets.py", "2 * x", "3 * x"),  # behind a function of another file
        ("sizes.py", "3", "4"),  # a module as a whole
        ("bonus.py", "from my_ext.nets import network as net", "from my_ext.nets import inner as net"),
    ],
)
def test_what_the_bonus_uses_counts(file: str, old: str, new: str, version_of: VersionOf):
    assert version_of(file, old, new) != version_of()


def test_every_bonus_has_its_own_and_tether_s_networks_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    versions = [code_version(kind) for kind in BONUSES.values()]
    assert len({*versions}) == len(versions)
    from tether import networks
    from tether.training import code

    text = Path(networks.__file__).read_text()
    first_product = next(line for line in text.splitlines() if " @ " in line)
    changed = tmp_path / "networks.py"
    changed.write_text(text.replace(first_product, first_product.replace(" @ ", " * ")))
    found = code._file_of
    monkeypatch.setattr(code, "_file_of", lambda module: changed if module == "tether.networks" else found(module))
    assert code_version.__wrapped__(BONUSES["cvae"]) != code_version(BONUSES["cvae"])
    assert code_version.__wrapped__(BONUSES["none"]) == code_version(BONUSES["none"])


def test_what_has_no_source_is_another_in_every_process():
    names: dict[str, type] = {}
    exec("class Typed: pass", names)
    kind = names["Typed"]
    assert code_version(kind) == code_version(kind)
    assert code_version.__wrapped__(kind) != code_version(kind)

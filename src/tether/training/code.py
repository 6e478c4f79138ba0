"""What code a fit was made by, as a hash: so that a bonus that was changed does not get the fit of before.

A number that its author raises would be forgotten just when it matters, and a hash of whole files would throw every fit away for
a comment. So the hash is of what the bonus uses: its class and, from there, every function, class and constant by name, through
its own package and through Tether's bonuses, networks and optimisers. Comments, docstrings and layout do not count. How fits are
made in general (`fit.py`, the loop, the split) has the number `FORMAT` there.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import inspect
import secrets
from functools import cache
from pathlib import Path
from typing import Any

USED_OF_TETHER = ("tether.bonuses", "tether.networks", "tether.optimisation")


@cache
def code_version(part: Any) -> str:
    """Of a class or a function. One whose source is not to be had (typed into a console) is another in every process."""
    try:
        place = inspect.getsourcefile(part)
        if place is None or not Path(place).is_file():
            raise TypeError
    except TypeError:
        return secrets.token_hex(8)
    root = part.__module__.partition(".")[0]
    followed = USED_OF_TETHER if root == "tether" else (*USED_OF_TETHER, root)
    modules = {part.__module__: _Module(part.__module__, Path(place))}
    seen: dict[tuple[str, str], str] = {}
    waiting = [(part.__module__, part.__qualname__.partition(".")[0])]
    while waiting:
        module, name = waiting.pop()
        if (module, name) in seen or not _is_followed(module, part.__module__, followed):
            continue
        if module not in modules:
            modules[module] = _Module(module, _file_of(module))
        here = modules[module]
        if name in here.imported:
            waiting.append(here.imported[name])
            continue
        nodes = here.defined.get(name, []) if name else here.everything
        seen[module, name] = "\n".join(ast.unparse(node) for node in nodes)
        waiting += [(module, used) for node in nodes for used in _names(node) if used in here.defined or used in here.imported]
    spelt = sorted(f"{module}:{name}\n{text}" for (module, name), text in seen.items() if text)
    return hashlib.sha256("\n".join(spelt).encode()).hexdigest()[:16]


class _Module:
    """What a module defines at its top, and where its imported names come from: `(module, name)`, without a name all of it."""

    def __init__(self, name: str, path: Path | None) -> None:
        self.defined: dict[str, list[ast.stmt]] = {}
        self.imported: dict[str, tuple[str, str]] = {}
        self.everything: list[ast.stmt] = []
        tree = _without_docstrings(ast.parse("" if path is None else path.read_text(encoding="utf-8")))
        for node in tree.body:
            if isinstance(node, ast.Import):
                self.imported |= {alias.asname or alias.name.partition(".")[0]: (alias.name, "") for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                package = name if path is not None and path.name == "__init__.py" else name.rpartition(".")[0]
                origin = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
                for alias in node.names:
                    inner = f"{origin}.{alias.name}"
                    there = (origin, alias.name) if _file_of(inner) is None else (inner, "")
                    self.imported[alias.asname or alias.name] = there
            else:
                self.everything.append(node)
                for defined in _defines(node):
                    self.defined.setdefault(defined, []).append(node)


def _defines(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    return [inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)]


def _names(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def _is_followed(module: str, own: str, followed: tuple[str, ...]) -> bool:
    return module == own or any(module == name or module.startswith(f"{name}.") for name in followed)


def _file_of(module: str) -> Path | None:
    """The source of a module; None for what is none, or has none."""
    try:
        found = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    return Path(found.origin) if found is not None and found.origin and found.origin.endswith(".py") else None


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node):
            node.body = node.body[1:] or [ast.Pass()]
    return tree

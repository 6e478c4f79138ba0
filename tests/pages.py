"""The tables of the project's pages, as cells."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def text_of(page: str) -> str:
    """Its paragraphs as one line, without bold."""
    return " ".join((ROOT / page).read_text().replace("**", "").splitlines())


def tables_of(page: str) -> list[list[list[str]]]:
    """Lines of cells of every table, without the rule under the heading, without bold."""
    found: list[list[list[str]]] = [[]]
    for line in (ROOT / page).read_text().replace("**", "").splitlines():
        if line.startswith("|"):
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
        elif found[-1]:
            found.append([])
    return [[table[0], *table[2:]] for table in found if table]

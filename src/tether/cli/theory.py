"""`tether theory`: the paper's statements on finite MDPs, checked, and the pictures that go with them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tether.progress import Bar
    from tether.theory.statements import Findings

MDPS = 1000  # of each family


def theory(out: Path = Path("theory"), seed: int = 0, markdown: bool = False) -> None:
    """Check the paper's statements about value iteration on thousands of finite MDPs, and draw them.

    Prints a table: each statement, the MDPs it was tried on, its largest error. Writes theory.json (every number of the table
    and the figures), convergence.png, offline.png and gridworld.png. Exit code 1 if any statement is violated. Takes a minute
    or two.

    Examples:
        tether theory
        tether theory --out somewhere --seed 7
        tether theory --markdown

    Args:
        out: The folder to write to.
        seed: Of the random MDPs, bonuses and datasets.
        markdown: Print the tables for a page.
    """
    import sys

    import jax

    from tether import storage
    from tether.errors import TetherError
    from tether.progress import progress
    from tether.report.gridworld import draw_gridworld
    from tether.report.theory import draw_convergence, draw_offline
    from tether.theory import statements, study

    if not 0 <= seed < 2**32:
        raise TetherError(f"--seed is {seed}; it must be from 0 to {2**32 - 1}")
    sizes = study.StudySizes()
    findings = statements.Findings()
    with storage.exclusive(out):
        # The rest of Tether is float32, so 64 bits end with this block.
        with jax.enable_x64(True), progress("checking", statements.PARTS + sizes.parts + 2, unit="parts") as bar:
            numbers = _measure(seed, sizes, findings, bar)
        draw_convergence(numbers["convergence"], out / "convergence.png")
        draw_offline(numbers["offline"], out / "offline.png")
        draw_gridworld(numbers["gridworld"], out / "gridworld.png")
        storage.write_json(out / "theory.json", numbers)
    _show(numbers, markdown)
    print(f"{out}: theory.json, convergence.png, offline.png, gridworld.png")
    violated = findings.violated()
    if violated:
        print("\n".join(f"error: {line}" for line in violated), file=sys.stderr)
        raise SystemExit(1)


def _measure(seed: int, sizes: Any, findings: Findings, bar: Bar) -> dict[str, Any]:
    """Everything that goes into theory.json."""
    from importlib.metadata import version

    from tether.theory import convergence, statements, study

    done = 0

    def tell(latest: str) -> None:
        nonlocal done
        done += 1
        bar.update(done, latest=latest)

    for part in statements.check_all(seed, MDPS, findings):
        tell(part)
    numbers: dict[str, Any] = {"seed": seed, "versions": {name: version(name) for name in ("jax", "numpy", "scipy")}}
    numbers |= findings.to_json()
    numbers["convergence"] = convergence.measure(seed, MDPS)
    tell("convergence")
    numbers["offline"] = {}
    for part in study.compare_methods(seed, sizes, numbers["offline"]):
        tell(part)
    numbers["gridworld"] = study.gridworld_example(seed)
    tell("gridworld")
    return numbers


def _show(numbers: dict[str, Any], markdown: bool) -> None:
    """Both tables, and what the first leaves out: ties, and what a smallest bonus above zero changes."""
    from rich.console import Console

    from tether.report.tables import markdown_lines, rich_lines
    from tether.report.theory import offline_lines, statement_lines

    counts = numbers["counts"].values()
    compared, differing = (sum(count[f"decisions_{name}"] for count in counts) for name in ("compared", "differing"))
    changed, mdps = (sum(count[name] for count in counts) for name in ("minimum_changes_policy", "mdps"))
    loss = next(row["largest_error"] for row in numbers["statements"] if row["name"] == "same_policies")
    sizes = numbers["offline"]["sizes"]
    title = (
        f"value lost to the optimum, {sizes['middle_episodes'] * sizes['length']:,} transitions, {sizes['mdps']} MDPs, "
        "mean ± standard error, by what unseen pairs are taken to be worth"
    )
    tables = statement_lines(numbers["statements"]), offline_lines(numbers["offline"])
    if markdown:
        print(markdown_lines(tables[0]))
    else:
        Console().print(rich_lines(tables[0]))
    print(f"policies: {compared:,} decisions compared, {differing:,} differ, by at most {loss:.1e} in value")
    print(f"min b ≠ 0: on {changed:,} of {mdps:,} MDPs the policy of the limit is not optimal for r - βb\n")
    if markdown:
        print(f"{title}\n\n{markdown_lines(tables[1])}")
    else:
        Console().print(rich_lines(tables[1], title))

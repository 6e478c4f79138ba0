"""`tether watch`: has a deployed policy left its data, when, and in which columns?"""

from __future__ import annotations

from pathlib import Path


def watch(log: Path, /, policy: Path, out: Path = Path("watch.html"), json: bool = False) -> None:
    """Say whether a deployed policy left its data, when, and in which columns; write it as a page.

    The log has one JSON object a line: {"time": 1763356800, "observation": [0.1, 0.2], "action": [0.3]}, as `tether serve --log`
    writes them. Observations may be columns by name; time and action may be missing. Where every line has its action, that is
    judged; else what the policy would do.

    Examples:
        tether watch seen.jsonl --policy policy.safetensors
        tether watch seen.jsonl --policy runs/first --out monday.html

    Args:
        log: The file of JSON lines.
        policy: The policy file or run folder, with a familiarity.
        out: The page to write: one HTML file that needs no network.
        json: Print one JSON object instead of words.
    """
    from json import dumps

    from tether.errors import TetherError
    from tether.progress import progress
    from tether.report.drift import Stretch, find_drift, read_seen, words
    from tether.report.drift_page import write_page
    from tether.runtime import load_policy
    from tether.runtime.acting import columns_of, experience_of
    from tether.runtime.experience import blindness

    if out.suffix != ".html":
        raise TetherError(f"--out is {out}; the page is an .html file")
    loaded = load_policy(policy)
    known = experience_of(loaded)
    seen = read_seen(log, loaded)
    with progress("judging", len(seen.rows), unit="rows", enabled=len(seen.rows) > 20_000) as bar:
        drift = find_drift(loaded, seen, bar.update)
    told = words(loaded, seen, drift)
    write_page(loaded, seen, drift, told, log.name, out)
    if json:
        names = columns_of(loaded) or [str(column) for column in range(seen.rows.shape[1])]

        def plain(stretches: tuple[Stretch, ...]) -> list[dict[str, object]]:
            return [{"row": one.start, "when": seen.when(one.start), "end": one.end, "ongoing": one.ongoing} for one in stretches]

        columns = {names[column]: plain(stretches)[0] for column, stretches in drift.by_column.items()}
        all_of_them = plain(drift.in_all)
        found = {"rows": len(seen.rows), "drift": next(iter(all_of_them), None), "drifts": all_of_them, "columns": columns}
        print(dumps(found | {"words": told, "page": str(out)}, indent=2))
        return
    for sentence in told:
        print(sentence)
    warning = blindness(known)
    if warning:
        print(f"warning: {warning}")
    print(out)

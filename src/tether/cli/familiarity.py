"""`tether familiarity`: is a policy's familiarity calibrated, and does it fall where the data ends?"""

from __future__ import annotations

from pathlib import Path


def familiarity(policies: tuple[Path, ...], /, dataset: str, out: Path = Path("familiarity.png"), most: int = 10_000) -> None:
    """Measure the familiarity of policies on data that neither they nor their bonus has seen, and draw it.

    On recorded pairs it should be uniform: as many below each level as the level says. For observations of which one column is
    moved away it should fall. Writes the figure, and the numbers beside it as JSON.

    Examples:
        tether familiarity runs/mine --dataset held-out.hdf5
        tether familiarity runs/mine rnd-film.safetensors --dataset held-out.hdf5 --out both.png

    Args:
        policies: Policy files or run folders, each with a familiarity.
        dataset: Data of the same task that was kept apart from all training, as by `tether data split`.
        out: The figure.
        most: Rows to ask, at random if there are more.
    """
    import numpy as np
    from rich.console import Console

    from tether.data import load_dataset
    from tether.data.provenance import check_columns, imported_columns
    from tether.errors import TetherError
    from tether.report.familiarity import draw_familiarity, measure
    from tether.report.tables import rich_lines
    from tether.runtime import load_policy
    from tether.storage import write_json

    if not policies:
        raise TetherError("no policy was given; give a policy file or a run folder")
    if most < 1:
        raise TetherError(f"--most is {most}; it must be at least 1")
    loaded = {path: load_policy(path) for path in policies}
    data = load_dataset(dataset)
    for path, policy in loaded.items():
        check_columns(data.name, imported_columns(data.provenance), str(path), policy.about.get("columns"))
    rows = data.transitions
    chosen = np.arange(len(rows.reward))
    if len(chosen) > most:
        chosen = np.sort(np.random.default_rng(0).choice(len(chosen), most, replace=False))
    observation, action = (np.asarray(column[chosen], np.float32) for column in rows[:2])
    found = {}
    for path, policy in loaded.items():
        name = path.name.removesuffix(".safetensors")
        found[name if name not in found else str(path)] = measure(policy, observation, action)
    draw_familiarity(found, out)
    write_json(out.with_suffix(".json"), found)
    lines = [["policy", "bonus", "recorded (0.05)", "policy's action", "random action", "a column 2 std off", "4 std off"]]
    for name, facts in found.items():
        below = [facts["share_below"][kind]["0.05"] for kind in ("recorded", "policy", "random")]
        below += [entry["unusual"] for entry in facts["shifted"] if entry["shift"] in (2.0, 4.0)]
        lines.append([name, str(facts["bonus"]), *(f"{share:.3f}" for share in below)])
    Console().print(rich_lines(lines, title=f"{len(chosen):,} pairs of {dataset}: share with a familiarity of at most 0.05"))
    print(f"{out}, {out.with_suffix('.json')}")

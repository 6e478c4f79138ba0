"""`tether data info`: what is in a dataset."""

from __future__ import annotations

from typing import Any


def info(source: str, /, json: bool = False) -> None:
    """Say what is in a dataset: size, episodes, returns, bounds, and what reading it changed.

    Examples:
        tether data info hopper_medium-v2.hdf5
        tether data info minari:mujoco/hopper/medium-v0
        tether data info hopper_medium-v2.hdf5 --json

    Args:
        source: A dataset: a name (see `tether data list`), a path to an HDF5 file in the D4RL layout, or minari:ID.
        json: Print one JSON object instead of a table.
    """
    from tether.data import load_dataset
    from tether.data.info import describe

    facts = describe(load_dataset(source))
    if json:
        from json import dumps

        print(dumps(facts, indent=2))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(facts["name"]), title_justify="left", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")  # a hash cut short is no use
    for label, value in _rows(facts):
        table.add_row(label, Text(value))  # text out of a file, which must not be read as markup
    Console().print(table)


def _rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Label and text of each line of the table."""
    from tether.data.provenance import describe_provenance

    notes, score, reward = facts["notes"], facts["normalised_score"], facts["reward"]
    worth = facts["discounted_return"]
    return [
        ("environment", facts["env_id"] or "unknown"),
        ("transitions", f"{facts['transitions']:,}"),
        ("episodes", f"{facts['episodes']:,} (ends {notes['episode_ends']})"),
        ("episode length", _spread(facts["episode_length"], digits=0)),
        ("episode return", _spread(facts["episode_return"], digits=1)),
        ("normalised score", f"{score['mean']:.1f} ± {score['std']:.1f}" if score else "no reference returns known"),
        (
            "discounted return",
            f"{worth['mean']:.1f} ± {worth['std']:.1f} (from the start, {worth['discount']:g}, scaled by {worth['scaling']})",
        ),
        ("observation", f"{facts['observation_size']} numbers" + _image(facts) + _parts(notes["observation_parts"])),
        ("action", _action(facts)),
        ("reward", f"{reward['min']:.4g} to {reward['max']:.4g}" + _constant(facts) * reward["constant"]),
        ("reward scaling", _scaling(facts)),
        ("terminated", f"{facts['terminated_share']:.3%} of transitions"),
        ("time limit", f"{facts['truncated_share']:.3%} of transitions"),
        ("successors", notes["successors"] + (" from the next row" if notes["successors"] == "shifted" else "")),
        ("rows dropped", f"{notes['rows_dropped']:,} of {notes['rows_read']:,} (no known successor)"),
        ("actions clipped", f"{notes['action_entries_clipped']:,} entries"),
        ("sha256", facts["sha256"]),
        ("provenance", "\n".join(describe_provenance(facts["provenance"])) or "not recorded in the file"),
    ]


def _constant(facts: dict[str, Any]) -> str:
    """What a reward that is always the same can teach: the length of episodes, where they have ends and it is not nothing."""
    lasts = facts["terminated_share"] > 0.0 and facts["reward"]["max"] != 0.0
    return " (constant: only the length of episodes can be learnt)" if lasts else " (constant: nothing to learn)"


def _scaling(facts: dict[str, Any]) -> str:
    """What the two ways of scaling do to the order of episodes, and which of them agents have."""
    from tether.data.rewards import ORDER_LOST

    scaling, lines = facts["reward_scaling"], []
    for name, order in scaling["order_kept"].items():
        if order is None:
            lines.append(f"{name}: all episodes are worth the same")
            continue
        lost = " (changes the order of episodes)" if order < ORDER_LOST else ""
        lines.append(f"{name}: rank correlation of episodes before and after {order:.3f}{lost}")
    if facts["discrete"]:
        return "\n".join([*lines, f"dqn has {scaling['auto']}"])
    lines.append("tethered has divide, and td3 by the default preset; td3 by the paper's has range")
    return "\n".join([*lines, f"an agent with no scaling of its own has {scaling['auto']}"])


def _image(facts: dict[str, Any]) -> str:
    return f" (an image of {' x '.join(map(str, facts['observation_shape']))})" if facts["observation_shape"] else ""


def _action(facts: dict[str, Any]) -> str:
    if facts["discrete"]:
        return f"one of {facts['action_size']} choices"
    return f"{facts['action_size']} numbers {_bounds(facts)} (bounds {_BOUNDS_FROM[facts['notes']['action_bounds']]})"


_BOUNDS_FROM = {
    "environment": "of the environment",
    "recorded": "recorded with the data",
    "assumed": "assumed, no environment known",
    "measured": "measured from the recorded actions",
}


def _spread(values: dict[str, float], digits: int) -> str:
    inner = " | ".join(f"{values[key]:,.{digits}f}" for key in ("min", "first_quartile", "median", "third_quartile", "max"))
    return f"{values['mean']:,.1f} ± {values['std']:,.1f}\nmin, quartiles, max: {inner}"


def _parts(spelt: str) -> str:
    return f" (flattened: {spelt})" if spelt else ""


def _bounds(facts: dict[str, Any]) -> str:
    """`in [-1, 1]` where all dimensions agree, else the widest range."""
    low, high = facts["action_low"], facts["action_high"]
    same = len(set(low)) == len(set(high)) == 1
    return f"in [{min(low):.4g}, {max(high):.4g}]" + ("" if same else ", each its own")

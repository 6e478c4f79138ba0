"""The paper's table of scores, to stand beside ours, and its rule for what is bold and what is underlined."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tether.report.tables import Score
from tether.storage import read_json

PLACE = Path(__file__).with_name("paper_table.json")
OURS = "TD3-CVAE"  # the paper's own method

# What the paper calls an agent of ours, whatever the bonus.
_AGENTS = {"awr": "AWR", "bc": "BC", "bcq": "BCQ", "bear": "BEAR", "cql": "CQL", "brac-p": "BRAC-p", "brac-v": "BRAC-v"}

BEST, WITHIN = "best", "within"  # bold, underlined


@cache
def paper_table() -> dict[str, Any]:
    """All of the file: `source`, `note`, `versions`, `methods`, `tasks`, `means`."""
    found: dict[str, Any] = read_json(PLACE)
    return found


def paper_scores(dataset: str) -> dict[str, Score]:
    """The paper's scores on a dataset by the name of the method; none where the paper has no such dataset.

    Any version counts: the paper's are D4RL's first ones, and the table says so.
    """
    table = paper_table()
    name = re.sub(r"-v\d+$", "", dataset.removeprefix("d4rl/").replace("_", "-"))
    row = table["tasks"].get(name)
    if row is None:
        return {}
    stds = {table["std_of"]: row["std"]}
    return {method: Score(mean, stds.get(method)) for method, mean in zip(table["methods"], row["mean"], strict=True)}


def paper_method(agent: str, bonus: str, settings: Mapping[str, Any] = MappingProxyType({})) -> str | None:
    """The paper's name of an agent with a bonus, if it has such a one. `settings` are the agent's."""
    if float(settings.get("best_share", 1.0)) < 1.0:  # cloning of the best episodes is another method
        return None
    return OURS if (agent, bonus) == ("td3", "cvae") else _AGENTS.get(agent)


def marks(scores: Mapping[Any, Score]) -> dict[Any, str]:
    """Of some that are compared: the best mean is bold, one whose own spread reaches the best is underlined.

    As printed, to one digit: means that read the same are both the best.
    """
    if not scores:
        return {}
    best = max(round(score.mean, 1) for score in scores.values())
    found = {}
    for name, score in scores.items():
        mean = round(score.mean, 1)
        if mean == best:
            found[name] = BEST
        elif score.std is not None and mean + round(score.std, 1) >= best - 1e-9:
            found[name] = WITHIN
    return found

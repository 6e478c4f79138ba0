"""`tether train --bonus auto`: the bonus that the lab would choose, with the reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tether.data import Located
    from tether.experiments.choice import Choice


def take_bonus(
    data: Located, dataset: str, agent: str, preset: str, overrides: dict[str, Any], dry_run: bool
) -> tuple[Choice, dict[str, Any]] | None:
    """What was chosen, and the settings with it; None where the candidates were only to be named."""
    from rich.console import Console

    from tether.config import make_config
    from tether.experiments.choice import candidates_for, choose_bonus, suited, table, weighed
    from tether.report.tables import rich_lines
    from tether.training.preparing import open_dataset

    env_id = data.env_id or overrides.get("evaluation.env_id")
    loaded = open_dataset(data)
    candidates = candidates_for(loaded, dataset, agent, preset, overrides, env_id)
    if dry_run:
        print("--bonus auto would fit these first, and choose by them:")
        for each in candidates:
            print(f"  {each.label}: {each.bonus.steps:,} steps")
        return None
    choice = choose_bonus(candidates, loaded, print)
    Console().print(rich_lines(table(choice), title="held-out pairs; probe: 0 as cloning, 1 as chance"))
    print(f"--bonus auto takes {choice.label}: {'; '.join(choice.reasons)}")
    if choice.blind:
        print(
            "warning: NO BONUS TELLS RECORDED ACTIONS FROM OTHERS HERE, so nothing will hold the agent to the data. Clone "
            "instead (--agent bc), or look at the log: the page of `tether data import` says how much of each action the "
            "observations do not explain. Where recorded actions are uniform themselves, no action is unknown, and this is right"
        )
    chosen = choice.settings | suited(overrides, choice.name)
    first = candidates[0].name
    usual = make_config(dataset, env_id, agent, first, preset, overrides=suited(overrides, first)).agent
    weights = weighed(choice, usual, make_config(dataset, env_id, agent, choice.name, preset, overrides=chosen).agent, overrides)
    if weights:
        spelled = ", ".join(f"{name}={value:g}" for name, value in weights.items())
        print(f"{spelled}: {choice.factor:.3g} times the preset's, so that a uniform action costs as much as by the usual bonus")
    return choice, weights | chosen

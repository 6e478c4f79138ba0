"""docs/bonuses/cvae.md has the settings that the code has."""

from __future__ import annotations

from dataclasses import fields

from pages import tables_of

from tether.bonuses.cvae import CVAE
from tether.config import make_config, override

PAGE = "docs/bonuses/cvae.md"
(SETTINGS,) = [table for table in tables_of(PAGE) if table[0][0] == "setting"]


def told(column: int, agent: str, preset: str) -> CVAE:
    """The bonus by a column of the page; where a cell is empty, by the first."""
    config = make_config("", agent=agent, bonus="cvae", preset=preset)
    for line in SETTINGS[1:]:
        config = override(config, line[0].strip("`"), (line[column] or line[1]).replace(",000", "000"))
    return config.bonus


def test_the_columns_of_settings_are_those_of_the_presets():
    for preset in ("paper", "quick"):
        assert told(1, "td3", preset) == make_config("", agent="td3", bonus="cvae", preset=preset).bonus == CVAE()
    assert told(2, "td3", "tether") == make_config("", agent="td3", bonus="cvae").bonus != CVAE()


def test_every_setting_has_a_line_and_other_agents_their_own():
    assert {line[0].strip("`") for line in SETTINGS[1:]} == {f"bonus.{field.name}" for field in fields(CVAE)}
    for agent in ("spot", "bcq", "bear"):
        ours, theirs = (make_config("", agent=agent, bonus="cvae", preset=preset).bonus for preset in ("tether", "paper"))
        assert ours == theirs != CVAE()

"""Bonuses, by the name that `--bonus` takes."""

from tether import registry
from tether.bonuses.base import (
    ANCHOR,
    GRADIENT,
    LOG_PROBABILITY,
    SAMPLES,
    VALUE,
    Anchor,
    Bonus,
    BonusTraits,
    FrozenBonus,
    frozen_template,
    without_chance,
)
from tether.bonuses.none import NoBonus
from tether.extending import add_installed

BONUSES = add_installed(registry.load_all(registry.BONUSES), "bonus")
NO_BONUS = "none"

__all__ = [
    "ANCHOR",
    "BONUSES",
    "GRADIENT",
    "LOG_PROBABILITY",
    "NO_BONUS",
    "SAMPLES",
    "VALUE",
    "Anchor",
    "Bonus",
    "BonusTraits",
    "FrozenBonus",
    "NoBonus",
    "frozen_template",
    "without_chance",
]

"""Bonuses, by the name that `--bonus` takes."""

from tether import registry
from tether.bonuses.base import (
    GRADIENT,
    LOG_PROBABILITY,
    SAMPLES,
    VALUE,
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
    "BONUSES",
    "GRADIENT",
    "LOG_PROBABILITY",
    "NO_BONUS",
    "SAMPLES",
    "VALUE",
    "Bonus",
    "BonusTraits",
    "FrozenBonus",
    "NoBonus",
    "frozen_template",
    "without_chance",
]

"""Bonuses, by the name that `--bonus` takes."""

from tether.bonuses.base import Bonus
from tether.bonuses.cvae import CVAE
from tether.bonuses.none import NoBonus

BONUSES: dict[str, type] = {"cvae": CVAE, "none": NoBonus}

__all__ = ["BONUSES", "CVAE", "Bonus", "NoBonus"]

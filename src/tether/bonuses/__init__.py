"""Bonuses, by the name that `--bonus` takes."""

from tether.bonuses.base import Bonus, FrozenBonus, frozen_template
from tether.bonuses.classifier import Classifier
from tether.bonuses.count import Count
from tether.bonuses.count_exact import CountExact
from tether.bonuses.cvae import CVAE
from tether.bonuses.forward import Forward
from tether.bonuses.none import NoBonus
from tether.bonuses.rnd import RND
from tether.bonuses.rnd_film import RNDFiLM

BONUSES: dict[str, type] = {
    "cvae": CVAE,
    "rnd": RND,
    "rnd-film": RNDFiLM,
    "count": Count,
    "count-exact": CountExact,
    "classifier": Classifier,
    "forward": Forward,
    "none": NoBonus,
}

__all__ = [
    "BONUSES",
    "CVAE",
    "RND",
    "Bonus",
    "Classifier",
    "Count",
    "CountExact",
    "Forward",
    "FrozenBonus",
    "NoBonus",
    "RNDFiLM",
    "frozen_template",
]

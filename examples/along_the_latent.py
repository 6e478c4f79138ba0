"""What the CVAE's bonus charges along its latent: an observation that says nothing, an action recorded around two modes.

    python examples/along_the_latent.py --out latent.png

Above: the action that is decoded from each z of a single latent, and the z that recorded actions are encoded to. Below: what
the reconstruction error and the bound charge for an action, at the z that it is encoded to. On the left a nat of KL costs 0.25,
as with the paper's 12 latents and actions of six entries; on the right 0.042, as with one. Takes half a minute.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import Literal

import matplotlib.pyplot as plt
import numpy as np
from bound import BROAD, FIXED, NARROW, recorded
from matplotlib.axes import Axes

import tether
from tether.training.fit import FittedBonus

NATS = (0.25, 0.5 / 12)  # eta A / L
PLACES = {"before the broad mode": -0.75, "broad mode": BROAD[0], "gap": 0.2, "narrow mode": NARROW[0], "beyond it": 0.8}
DRAWS = 2_048  # of the latent: the bonus is told as its mean over them


@dataclass(frozen=True)
class Latent:
    """A CVAE with one latent z, whose sign is turned so that larger ones mean larger actions."""

    fitted: FittedBonus
    sign: float = 1.0

    def decoded(self, z: np.ndarray) -> np.ndarray:
        return np.asarray(self.fitted.state.decode(nothing(z), self.sign * column(z)))[:, 0]

    def encoded(self, action: np.ndarray) -> np.ndarray:
        return self.sign * np.asarray(self.fitted.state.encode(nothing(action), column(action))[0])[:, 0]

    def charged(self, action: np.ndarray, measure: Literal["reconstruction", "bound"]) -> np.ndarray:
        bonus = replace(self.fitted, bonus=replace(self.fitted.bonus, measure=measure))
        many = np.repeat(action, DRAWS)
        return bonus.novelty(nothing(many), column(many)).reshape(len(action), DRAWS).mean(axis=1)


def column(numbers: np.ndarray) -> np.ndarray:
    return np.asarray(numbers, np.float32)[:, None]


def nothing(rows: np.ndarray) -> np.ndarray:
    """The observation of each."""
    return np.zeros((len(rows), 1), np.float32)


def fit(dataset: tether.Dataset, nat: float, steps: int, seed: int = 0) -> Latent:
    latent = Latent(tether.fit(replace(FIXED, latent_size=1, kl_weight=nat, steps=steps, seed=seed), dataset, cache=False))
    low, high = latent.decoded(np.array([-1.0, 1.0]))
    return replace(latent, sign=1.0 if low < high else -1.0)


def draw(above: Axes, below: Axes, latent: Latent, action: np.ndarray) -> None:
    z = np.linspace(-2.3, 2.3, 201)
    above.fill_between(z, -1.1, -1.1 + 0.4 * np.exp(-(z**2) / 2), color="0.85", lw=0, label="prior density of z")
    above.plot(latent.encoded(action), action, ".", color="tab:green", ms=3, label="recorded")
    above.plot(z, latent.decoded(z), color="black", label="decoded from z")
    every = np.linspace(-1.0, 1.0, 161)
    for name, measure in (("error", "reconstruction"), ("bound", "bound")):
        below.plot(latent.encoded(every), latent.charged(every, measure), label=name)
    for name, (mean, deviation) in (("broad", BROAD), ("narrow", NARROW)):
        ends = latent.encoded(np.array([mean - 2 * deviation, mean + 2 * deviation]))
        for axes in (above, below):
            axes.axvspan(*ends, color="tab:green", alpha=0.12, lw=0)
        below.text(float(ends.mean()), 0.61, name, ha="center", fontsize=8)
    below.text(0.2, 0.56, "gap", ha="center", fontsize=8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="latent.png")
    parser.add_argument("--steps", type=int, default=10_000, help="of each fit")
    parser.add_argument("--seed", type=int, default=0, help="of each fit")
    asked = parser.parse_args()
    dataset, places = recorded(), np.array(list(PLACES.values()))
    figure, axes = plt.subplots(2, 2, sharex=True, sharey="row", figsize=(6.4, 5.0), layout="constrained")
    for nat, (above, below) in zip(NATS, axes.T, strict=True):
        latent = fit(dataset, nat, asked.steps, asked.seed)
        draw(above, below, latent, np.asarray(dataset.transitions.action)[:400, 0])
        above.set(title=f"a nat of KL costs {nat:.2g}", xlim=(-2.3, 2.3), ylim=(-1.1, 1.0))
        below.set(xlabel="z", ylim=(0, 0.65))
        told = (latent.encoded(places), latent.decoded(latent.encoded(places)))
        charged = (latent.charged(places, "reconstruction"), latent.charged(places, "bound"))
        for row in zip(PLACES, places, *told, *charged, strict=True):
            print("| {:.2g} | {}, {:g} | {:.2f} | {:.2f} | {:.3f} | {:.3f} |".format(nat, *row))
    axes[0, 0].set(ylabel="action")
    axes[1, 0].set(ylabel="bonus of the action\nthat is encoded to z")
    for row in axes:
        row[1].legend(frameon=False, fontsize=8, loc="best")
    figure.savefig(asked.out, dpi=150)


if __name__ == "__main__":
    main()

"""What bonuses see of an action: an observation that says nothing, an action recorded around two modes.

    python examples/bound.py --out bound.png

With a fixed weight of the KL an action in the gap between the modes costs no more than a recorded one. Calibrated, with the
decoder's own noise, the bound is low at both modes, high between them and higher beyond them; so is a mixture's density. One
Gaussian takes the gap for the likeliest place of all. Takes a minute.
"""

from __future__ import annotations

import argparse
import dataclasses

import matplotlib.pyplot as plt
import numpy as np

import tether

ROWS = 20_000
BROAD, NARROW = (-0.45, 0.15), (0.5, 0.04)  # mean and deviation of the two modes


def recorded(seed: int = 0) -> tether.Dataset:
    """Half of the actions are of a broad policy, half of a narrow one."""
    random = np.random.default_rng(seed)
    mode = np.where(np.arange(ROWS)[:, None] % 2 == 0, [BROAD], [NARROW])
    action = np.clip(mode[:, 0] + mode[:, 1] * random.normal(size=ROWS), -1.0, 1.0)
    ends = np.arange(100, ROWS + 1, 100)
    return tether.dataset(
        observations=random.uniform(-1.0, 1.0, (ROWS, 1)),
        actions=action[:, None],
        rewards=random.normal(size=ROWS),
        terminated=np.zeros(ROWS),
        episode_ends=ends,
        name="two modes",
    )


FIXED = tether.CVAE(hidden_sizes=(64, 64), latent_size=2, learning_rate=1e-3)
CURVES = {
    "reconstruction": FIXED,
    "bound": dataclasses.replace(FIXED, measure="bound"),
    "calibrated bound": dataclasses.replace(FIXED, measure="bound", elbo="calibrated", kl_weight=1.0),
    "one Gaussian": tether.Density(hidden_sizes=(64, 64), learning_rate=1e-3),
    "five Gaussians": tether.Density(hidden_sizes=(64, 64), learning_rate=1e-3, components=5),
}


def measured(dataset: tether.Dataset, bonus: tether.CVAE | tether.Density, action: np.ndarray) -> np.ndarray:
    """The bonus of each action over its mean on the recorded ones: means over draws of the latent."""
    fitted = tether.fit(bonus, dataset, cache=False)

    def mean(of: np.ndarray, draws: int) -> np.ndarray:
        observation = np.zeros((len(of), 1), np.float32)
        return np.mean([fitted.novelty(observation, of.astype(np.float32), seed) for seed in range(draws)], axis=0)

    return mean(action[:, None], 64) / np.mean(mean(np.asarray(dataset.transitions.action), 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="bound.png")
    parser.add_argument("--steps", type=int, default=10_000, help="of each fit")
    asked = parser.parse_args()
    dataset, action = recorded(), np.linspace(-1.0, 1.0, 201)
    figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(6.4, 4.4), height_ratios=(3, 1), layout="constrained")
    for name, bonus in CURVES.items():
        found = measured(dataset, dataclasses.replace(bonus, steps=asked.steps), action)
        above.plot(action, found, label=name)
        places = {"broad mode": BROAD[0], "gap": 0.2, "narrow mode": NARROW[0], "beyond": 0.8}
        told = ", ".join(f"{place} {found[np.abs(action - where) < 0.02].mean():.2f}" for place, where in places.items())
        print(f"{name:17} {told}")
    above.set(ylabel="bonus over its mean\non recorded actions", ylim=(0, 8))
    above.legend(frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    below.hist(np.asarray(dataset.transitions.action)[:, 0], bins=100, range=(-1, 1), color="0.6")
    below.set(xlabel="action", ylabel="recorded", yticks=[])
    figure.savefig(asked.out, dpi=150)


if __name__ == "__main__":
    main()

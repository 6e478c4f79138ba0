"""What the two measures of the CVAE bonus see: one observation that says nothing, one action, recorded around two modes.

    python examples/bound.py --out bound.png

The reconstruction error alone is small wherever the decoder can copy the action it is shown, also where nothing was recorded. The
bound adds what it costs to tell the decoder which action that was (the encoder's KL). Takes half a minute.
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


def measured(dataset: tether.Dataset, action: np.ndarray, steps: int) -> dict[str, np.ndarray]:
    """Both measures of one fit at each action, as means over draws of the latent."""
    fitted = tether.fit(tether.CVAE(hidden_sizes=(64, 64), latent_size=2, learning_rate=1e-3, steps=steps), dataset, cache=False)
    observation = np.zeros((len(action), 1), np.float32)
    found = {}
    for measure in ("reconstruction", "bound"):
        one = dataclasses.replace(fitted, bonus=dataclasses.replace(fitted.bonus, measure=measure))
        found[measure] = np.mean(
            [one.novelty(observation, action[:, None].astype(np.float32), seed) for seed in range(64)], axis=0
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="bound.png")
    parser.add_argument("--steps", type=int, default=20_000, help="of the fit")
    asked = parser.parse_args()
    dataset, action = recorded(), np.linspace(-1.0, 1.0, 201)
    found = measured(dataset, action, asked.steps)
    figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(6.4, 4.4), height_ratios=(3, 1), layout="constrained")
    for name, values in found.items():
        above.plot(action, values, label=name)
    above.set(ylabel="bonus", ylim=(0, None))
    above.legend(frameon=False)
    below.hist(np.asarray(dataset.transitions.action)[:, 0], bins=100, range=(-1, 1), color="0.6")
    below.set(xlabel="action", ylabel="recorded", yticks=[])
    figure.savefig(asked.out, dpi=150)
    middle = np.abs(action) < 0.02
    seen = np.abs(action - BROAD[0]) < 0.02
    for name, values in found.items():
        print(f"{name:15} at 0, between the modes {values[middle].mean():.4f}; at the broad mode {values[seen].mean():.4f}")


if __name__ == "__main__":
    main()

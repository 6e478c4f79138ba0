"""What a policy's data was like, as far as it tells whether the policy has seen this: a bonus with the quantiles of its values on
held-out pairs, the range of every column, and some recorded pairs.

    familiarity(s, a) = held-out pairs at least as unusual as (s, a) / (pairs + 1)

On pairs like the held-out ones it is uniform between 0 and 1, so 0.5 is ordinary, and 0.01 is as odd as the oddest hundredth.
Nothing can be said to be rarer than one in `pairs + 1`, which is the smallest value. Between quantiles it is linear, so that a
last digit of the bonus is a last digit here and no step.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tether.errors import TetherError
from tether.runtime.layers import Tensors

QUANTILES = 512  # of the values that are kept
UNUSUAL = 0.05  # familiarity below which a pair counts as noticed, when it is measured what is
SHIFT = 4.0  # standard deviations by which one column is moved for that
SHIFTED, OTHER = "shifted observations", "other actions"
SEES = 0.5  # share of shifted observations that a bonus must notice, or its users are warned
NEAR = 1e-3  # quantiles nearer than this share of their value, or of their spread, are one: between them is mostly rounding


@dataclass(frozen=True)
class Experience:
    """`values` are ascending quantiles of the bonus on held-out pairs, `shares` the familiarity of each."""

    bonus: Mapping[str, Any]  # the settings of the bonus, with its name; without chance
    state: Mapping[str, np.ndarray]  # its fitted arrays, by their path
    values: np.ndarray  # (K,) float32
    shares: np.ndarray  # (K,) float32, descending
    pairs: int  # held out
    episodes: int  # that they are from: pairs of one episode are alike, so few episodes know less than many pairs suggest
    low: np.ndarray  # (O,) the least recorded value of each column
    high: np.ndarray  # (O,)
    observation: np.ndarray  # (R, O) recorded pairs, for the nearest recorded action
    action: np.ndarray  # (R, A)
    sight: Mapping[str, float] = field(default_factory=dict)  # of pairs that are new in one way, the share below `UNUSUAL`

    @property
    def smallest(self) -> float:
        """The least familiarity that can be told from none."""
        return 1.0 / (self.pairs + 1)

    def familiarity(self, novelty: np.ndarray) -> np.ndarray:
        """Of the bonus of each pair, `(B,)`. A bonus that overflowed to no number is as unusual as can be told."""
        known = np.where(np.isnan(novelty), np.inf, novelty)
        return np.interp(known, self.values, self.shares).astype(np.float32)

    def check_threshold(self, threshold: float) -> None:
        """Refuse one at which a fallback would never act. 0 is none, and says so."""
        if threshold > 0 and not float(self.shares[-1]) < threshold:
            raise TetherError(
                f"familiarity is never below {float(self.shares[-1]):.2g} here ({self.pairs:,} pairs were held out), so a "
                f"fallback at {threshold:g} would never act; a larger threshold would, and a larger "
                "bonus.held_out_share tells more"
            )

    def nearest(self, rows: np.ndarray) -> np.ndarray:
        """The recorded action of the recorded observation nearest to each row, in units of each column's spread: `(B, A)`."""
        spread = np.std(self.observation, axis=0, dtype=np.float64)  # in which the square of no float32 overflows
        unit = np.where(spread < 1e-6, 1.0, spread)
        known, found = self.observation / unit, []
        for row in rows / unit:
            found.append(self.action[np.argmin(np.sum(np.square(known - row), axis=-1))])
        return np.stack(found)

    def outside(self, rows: np.ndarray) -> np.ndarray:
        """Which numbers of each row are outside the recorded range, `(B, O)`."""
        return (rows < self.low) | (rows > self.high)

    def tensors(self) -> dict[str, np.ndarray]:
        """As a file has them."""
        arrays = {name: getattr(self, name) for name in ("values", "shares")}
        found = {f"familiarity/{name}": array for name, array in arrays.items()}
        found |= {f"familiarity/state/{name}": array for name, array in self.state.items()}
        return found | {f"recorded/{name}": getattr(self, name) for name in ("low", "high", "observation", "action")}

    def metadata(self) -> str:
        facts = {"bonus": dict(self.bonus), "pairs": self.pairs, "episodes": self.episodes, "sight": dict(self.sight)}
        return json.dumps(facts)


def quantiles(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """At most `QUANTILES` of the values, ascending, and the familiarity of each: evenly in rank, and every one of the rarest."""
    ordered = np.sort(np.asarray(values, np.float64))
    number = len(ordered)
    if number < 2 or not np.isfinite(ordered).all():
        raise TetherError(
            f"the bonus has {number} values on held-out pairs, or some that are not finite; nothing to compare with"
        )
    even = np.linspace(0, number - 1, QUANTILES // 2)
    rarest = number - np.geomspace(1, number, QUANTILES // 2)
    ranks = np.unique(np.concatenate([even, rarest]).round().astype(int))
    spread = float(ordered[int(0.9 * number)] - ordered[int(0.1 * number)]) or float(ordered[-1] - ordered[0])
    kept = [float(ordered[-1])]
    for value in ordered[ranks[::-1]]:  # downwards, so that the rarest stays
        if value < kept[-1] - NEAR * min(max(abs(kept[-1]), 0.1 * spread), spread):
            kept.append(float(value))
    knots = np.array(kept[::-1], np.float32)
    at_least = number - np.searchsorted(ordered.astype(np.float32), knots, side="left")
    if len(knots) < 2:
        raise TetherError(
            f"the bonus has one value, {knots[0]:.4g}, on all held-out pairs; it cannot tell the usual from the new"
        )
    if at_least[-1] > 1:  # several share the largest value; what is beyond it is rarer than all of them
        beyond = max(knots[-1] + np.float32(NEAR * spread), np.nextafter(knots[-1], np.float32(np.inf)))
        knots, at_least = np.append(knots, beyond), np.append(at_least, 1)
    return knots, (at_least / (number + 1)).astype(np.float32)


def read_experience(metadata: Mapping[str, str], tensors: Mapping[str, np.ndarray]) -> Experience | None:
    """That of a policy file; None where it has none."""
    if "familiarity" not in metadata:
        return None
    facts, arrays = json.loads(metadata["familiarity"]), Tensors(tensors)
    state = {
        name.removeprefix("familiarity/state/"): array for name, array in tensors.items() if name.startswith("familiarity/state/")
    }
    found = Experience(
        bonus=facts["bonus"],
        state=state,
        values=arrays["familiarity/values"],
        shares=arrays["familiarity/shares"],
        pairs=int(facts["pairs"]),
        episodes=int(facts["episodes"]),
        sight={str(name): float(value) for name, value in facts["sight"].items()},
        **{name: arrays[f"recorded/{name}"] for name in ("low", "high", "observation", "action")},
    )
    _check(found)
    return found


def belongs_to_experience(name: str) -> bool:
    """Whether an array of a policy file is not the actor's."""
    return name.startswith(("familiarity/", "recorded/"))


def spell(experience: Experience) -> str:
    told = (
        f"familiarity by {experience.bonus.get('name')}, against {experience.pairs:,} held-out pairs of "
        f"{experience.episodes:,} episodes (smallest {experience.smallest:.2g})"
    )
    sight = ", ".join(f"{share:.0%} of {kind}" for kind, share in experience.sight.items())
    return f"{told}; below {UNUSUAL:g} it has {sight}" if sight else told


def blindness(experience: Experience) -> str | None:
    """What a user must know before relying on it: that it does not notice what is unlike the data."""
    if experience.smallest >= UNUSUAL:
        return (
            f"only {experience.pairs} pairs were held out, so that familiarity is never below {experience.smallest:.2g}; a "
            "larger bonus.held_out_share, or more data, would tell more"
        )
    share = experience.sight.get(SHIFTED, 1.0)
    if share >= SEES:
        return None
    return (
        f"the bonus {experience.bonus.get('name')} hardly notices observations unlike the data: only {share:.0%} of those with a "
        f"column shifted by {SHIFT:g} standard deviations are below {UNUSUAL:g}. It judges the action more than the observation; "
        "`tether export RUN --bonus rnd-film --out FILE` fits one that judges both"
    )


def spell_outside(rows: np.ndarray, experience: Experience, names: Sequence[str] | None, units: Mapping[str, str]) -> str | None:
    """`speed 7.2 m/s (recorded 0 to 5), and 2 more columns`, of the row and columns farthest out; None where none is out."""
    out = experience.outside(rows)
    if not out.any():
        return None
    span = np.maximum(experience.high - experience.low, 1e-12)
    excess = np.maximum(experience.low - rows, rows - experience.high) / span
    columns = [int(column) for column in np.argsort(-np.max(excess, axis=0), kind="stable") if out[:, column].any()]
    told = []
    for column in columns[:4]:
        row = int(np.argmax(excess[:, column]))
        name = names[column] if names else f"number {column} (counted from 0)"
        unit = f" {units[name]}" if name in units and units[name] not in name else ""
        low, high = experience.low[column], experience.high[column]
        told.append(f"{name} {rows[row, column]:.4g}{unit} (recorded {low:.4g} to {high:.4g})")
    more = f", and {len(columns) - 4} more columns" if len(columns) > 4 else ""
    return ", ".join(told) + more


def _check(found: Experience) -> None:
    """An edited file must not pass for a sound one."""
    sound = (
        found.values.shape == found.shares.shape
        and found.values.ndim == 1
        and len(found.values) >= 2
        and bool(np.all(np.diff(found.values) > 0))
        and bool(np.all(np.diff(found.shares) <= 0))
        and bool(np.all((found.shares > 0) & (found.shares < 1)))
        and found.low.shape == found.high.shape == found.observation.shape[1:]
        and len(found.observation) == len(found.action) >= 1
    )
    if not sound:
        raise TetherError(
            "the quantiles of the bonus or the recorded ranges do not fit each other; the file was edited or damaged"
        )

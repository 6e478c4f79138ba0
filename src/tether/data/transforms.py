"""Changes to a whole dataset. Each returns a new Dataset, with how it was made, and leaves the given one as it was."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tether.data.bounds import action_bounds
from tether.data.dataset import Dataset, LoadNotes
from tether.data.provenance import check_columns, derivation, imported_columns
from tether.data.selected import select
from tether.errors import TetherError
from tether.types import Batch, Spec


def split_episodes(dataset: Dataset, held_out_share: float, seed: int) -> tuple[Dataset, Dataset]:
    """The dataset as (kept, held out), cut between episodes, which stay in their order.

    Episodes are drawn at random until they hold at least `held_out_share` of the rows; one always stays on each side, and one
    that would take far more than the share is passed over.
    A single episode is cut in two by rows, the tail being held out: rows beside the cut resemble each other, so a held-out
    measure is a little optimistic there. Both halves then carry the return of the whole episode.
    """
    check_share("held_out_share", held_out_share)
    _check_seed(seed)
    if dataset.size < 2:
        raise TetherError(f"{dataset.name}: one transition cannot be split")
    if len(dataset.episode_ends) == 1:
        cut = min(max(round(dataset.size * (1.0 - held_out_share)), 1), dataset.size - 1)
        held_out = np.arange(dataset.size) >= cut
    else:
        # From the bare seed, as ever: fits of bonuses hang on what is held out of them.
        held_out = _rows_of(dataset, _draw_episodes(dataset, held_out_share, np.random.default_rng(seed)))
    arguments = {"held_out_share": held_out_share, "seed": seed}
    return (
        _select(dataset, ~held_out, "split", {**arguments, "part": "train"}),
        _select(dataset, held_out, "split", {**arguments, "part": "held out"}),
    )


def subsample(
    dataset: Dataset,
    *,
    episodes: int | None = None,
    transitions: int | None = None,
    share: float | None = None,
    seed: int = 0,
) -> Dataset:
    """A part drawn at random, in its order: so many whole episodes, so many single transitions, or whole episodes until they
    hold at least a `share` of the rows. Episodes of which some rows are left out keep the return they were recorded with.
    """
    if [episodes, transitions, share].count(None) != 2:
        raise TetherError("subsample takes one of episodes, transitions and share")
    arguments = {"episodes": episodes, "transitions": transitions, "share": share, "seed": seed}
    if share is not None:
        check_share("share", share)
        rows = _rows_of(dataset, _draw_episodes(dataset, share, _generator(seed, "subsample")))
    elif episodes is not None:
        rows = _rows_of(dataset, _draw(episodes, len(dataset.episode_ends), "episodes", dataset, _generator(seed, "subsample")))
    else:
        assert transitions is not None
        rows = _draw(transitions, dataset.size, "transitions", dataset, _generator(seed, "subsample"))
    return _select(dataset, rows, "subsample", {name: value for name, value in arguments.items() if value is not None})


def filter_by_return(
    dataset: Dataset, *, minimum: float | None = None, maximum: float | None = None, best_share: float | None = None
) -> Dataset:
    """The episodes whose return, as recorded and unscaled, is within the limits (both included); or the best share of them.

    Both at once: the best of those within the limits, at least one.
    """
    if minimum is None and maximum is None and best_share is None:
        raise TetherError("filter_by_return takes a minimum, a maximum or a best share")
    returns = dataset.episode_returns
    low = -np.inf if minimum is None else minimum
    high = np.inf if maximum is None else maximum
    within = (returns >= low) & (returns <= high)
    if not within.any():
        found = f"they go from {returns.min():g} to {returns.max():g}"
        raise TetherError(f"{dataset.name}: no episode has a return from {low:g} to {high:g}; {found}")
    if best_share is not None:
        check_share("best_share", best_share)
        candidates = np.flatnonzero(within)
        count = math.ceil(best_share * len(candidates))
        best = candidates[np.argsort(-returns[candidates], kind="stable")[:count]]  # of equal ones, the earlier
        within = np.isin(np.arange(len(returns)), best)
    arguments = {"minimum": minimum, "maximum": maximum, "best_share": best_share}
    chosen = {name: value for name, value in arguments.items() if value is not None}
    return _select(dataset, _rows_of(dataset, within), "filter", chosen)


def concatenate(datasets: Sequence[Dataset], env_id: str | None = None) -> Dataset:
    """All rows of all datasets, in the given order. `env_id` names the environment where they name different ones, or none.

    Their sizes must agree. Where their action bounds do not, the environment's are taken; without one, the widest.
    """
    if len(datasets) < 2:
        raise TetherError("concatenate takes two datasets or more")
    first = datasets[0]
    for other in datasets[1:]:
        theirs = _kind(other.spec)
        for what, mine in _kind(first.spec).items():
            if mine != theirs[what]:
                raise TetherError(f"{first.name} has {what} {mine}, {other.name} has {theirs[what]}; they do not join")
        if env_id is None and other.env_id != first.env_id:
            names = [dataset.env_id or "no environment" for dataset in (first, other)]
            raise TetherError(f"{first.name} names {names[0]}, {other.name} {names[1]}; say which is right with env_id")
        check_columns(other.name, imported_columns(other.provenance), first.name, imported_columns(first.provenance))
    whole = Batch(*map(np.concatenate, zip(*(dataset.transitions for dataset in datasets), strict=True)))
    spec = _joint_bounds(datasets, whole.action, env_id or first.env_id)
    low, high = np.array(spec.action_low, np.float32), np.array(spec.action_high, np.float32)
    clipped = int(((whole.action < low) | (whole.action > high)).sum())
    arguments: dict[str, Any] = {} if env_id is None else {"env_id": env_id}
    offsets = np.cumsum([0, *(dataset.size for dataset in datasets)])
    digests = "".join(dataset.sha256 for dataset in datasets)
    return Dataset(
        transitions=whole._replace(action=np.clip(whole.action, low, high)),
        truncated=np.concatenate([dataset.truncated for dataset in datasets]),
        episode_ends=np.concatenate([ends.episode_ends + start for ends, start in zip(datasets, offsets[:-1], strict=True)]),
        episode_returns=np.concatenate([dataset.episode_returns for dataset in datasets]),
        spec=spec,
        name="+".join(dataset.name for dataset in datasets),
        env_id=env_id or first.env_id,
        sha256=hashlib.sha256(f"{env_id} {digests}".encode()).hexdigest(),
        notes=LoadNotes(rows_read=len(whole.reward), action_entries_clipped=clipped),
        provenance=derivation("concat", arguments | ({"action_entries_clipped": clipped} if clipped else {}), datasets),
    )


def _kind(spec: Spec) -> dict[str, object]:
    """What datasets must agree in to be of one problem."""
    return {
        "observation size": spec.observation_size,
        "action size": spec.action_size,
        "observation shape": spec.observation_shape,
        "actions": "discrete" if spec.discrete else "continuous",
    }


def _joint_bounds(datasets: Sequence[Dataset], action: np.ndarray, env_id: str | None) -> Spec:
    specs = [dataset.spec for dataset in datasets]
    if all(spec == specs[0] for spec in specs):
        return specs[0]
    low, high, source = action_bounds(action, env_id)
    if source == "environment":
        return replace(specs[0], action_low=tuple(low.tolist()), action_high=tuple(high.tolist()))
    widest_low = tuple(map(min, zip(*(spec.action_low for spec in specs), strict=True)))
    return replace(
        specs[0], action_low=widest_low, action_high=tuple(map(max, zip(*(s.action_high for s in specs), strict=True)))
    )


def check_share(name: str, share: float) -> None:
    """`name` is what the user knows it by."""
    if not 0.0 < share < 1.0:
        raise TetherError(f"{name} is {share}, expected more than 0 and less than 1")


def _check_seed(seed: int) -> None:
    if seed < 0:
        raise TetherError(f"seed is {seed}; it takes a whole number from 0 on")


def _generator(seed: int, operation: str) -> np.random.Generator:
    """One of its own for each operation: with one for all, a subsample by the same seed is what a split holds out."""
    _check_seed(seed)
    return np.random.default_rng([seed, *operation.encode()])


def _draw_episodes(dataset: Dataset, share: float, random: np.random.Generator) -> np.ndarray:
    """(E,) bool: episodes at random until they hold at least `share` of the rows. One is always drawn, and one left.

    One so long that with it far more than that would be drawn is passed over: more than half of what the share leaves.
    """
    lengths = dataset.episode_ends - dataset.episode_starts
    drawn, rows, most = np.zeros(len(lengths), dtype=bool), 0, (share + 0.5 * (1.0 - share)) * dataset.size
    for episode in random.permutation(len(lengths)):
        if rows >= share * dataset.size or drawn.sum() == len(lengths) - 1:
            break
        if rows + lengths[episode] <= most:
            drawn[episode], rows = True, rows + int(lengths[episode])
    if not drawn.any():  # each is that long
        drawn[np.argmin(lengths)] = True
    return drawn


def _draw(count: int, of: int, what: str, dataset: Dataset, random: np.random.Generator) -> np.ndarray:
    """(of,) bool with `count` at random true."""
    if not 1 <= count <= of:
        raise TetherError(f"{dataset.name} has {of:,} {what}; {count:,} cannot be drawn from them")
    drawn = np.zeros(of, dtype=bool)
    drawn[random.choice(of, size=count, replace=False)] = True
    return drawn


def _rows_of(dataset: Dataset, episodes: np.ndarray) -> np.ndarray:
    """(N,) bool: the row belongs to one of the chosen episodes."""
    return np.repeat(episodes, dataset.episode_ends - dataset.episode_starts)


def _select(dataset: Dataset, rows: np.ndarray, operation: str, arguments: dict[str, Any]) -> Dataset:
    """The chosen rows. What is left of an episode is one, cut after its last row unless that terminated."""
    lengths = np.add.reduceat(rows, dataset.episode_starts, dtype=np.int64)
    left = lengths > 0
    episode_ends = np.cumsum(lengths[left])
    numbers = np.flatnonzero(rows)
    transitions = Batch(*(select(column, numbers) for column in dataset.transitions))
    truncated = np.zeros(len(transitions.reward), dtype=bool)
    truncated[episode_ends - 1] = transitions.terminated[episode_ends - 1] == 0.0
    # Other rows, another dataset: what is fitted to it must not be taken for a fit to the whole or to another part.
    identity = hashlib.sha256(dataset.sha256.encode() + np.packbits(rows).tobytes()).hexdigest()
    return replace(
        dataset,
        transitions=transitions,
        truncated=truncated,
        episode_ends=episode_ends,
        episode_returns=dataset.episode_returns[left],
        sha256=identity,
        provenance=derivation(operation, arguments, [dataset]),
    )

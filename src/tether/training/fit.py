"""Fitting a bonus: the loop, the judgement on held-out episodes, and the cache that spares the next run the work."""

from __future__ import annotations

import hashlib
import json
import math
import time
import zlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tether import storage
from tether.bonuses import BONUSES, Bonus, FrozenBonus
from tether.data.columns import with_columns
from tether.data.dataset import Dataset
from tether.data.transforms import split_episodes
from tether.errors import TetherError
from tether.evaluation.discrimination import auroc_by_kind, bonus_by_kind, histogram_by_kind
from tether.locks import one_at_a_time
from tether.settings import to_named
from tether.training.code import code_version
from tether.training.divergence import all_finite
from tether.training.loop import fresh_state, learn
from tether.training.sources import Rows, is_sampled
from tether.types import Batch, Key, Problem, Spec, spec_to_json

EPOCH_STEPS = 1_000
FEW_EPOCHS = 5  # a fit of fewer is cut into ten, so that it can be seen whether it still got better at its end
FORMAT = 4  # of what is kept of a fit, and of how all are made; an older one is made anew
SHORT_FIT_GAIN = 0.05  # a fit whose held-out bonus still fell by this share over its last fifth was cut short
BLIND = 0.6  # AUROC against uniform actions; chance is 0.5, and the worst bonus of docs/bonuses.md that holds an agent has 0.86
PIECE = 4_096
UNDISCOUNTED = 1.0  # what columns are derived with for a bonus, which has no horizon of its own

OnEpoch = Callable[[int, dict[str, float]], None]  # step, metrics; may raise to stop, and the fit can then be resumed


@dataclass(frozen=True)
class FitReport:
    """What is known about a fit; kept with it in the cache and in every run that uses it."""

    steps: int
    seconds: float
    history: list[dict[str, float]] = field(default_factory=list)  # one record an epoch
    held_out_mean: float | None = None  # bonus of recorded pairs of episodes the fit never saw
    auroc: dict[str, float] = field(default_factory=dict)  # held-out recorded pairs against each other kind of action
    histogram: dict[str, Any] = field(default_factory=dict)  # of the same pairs; of fits made before it was kept, none

    @property
    def looks_short(self) -> bool:
        """Whether the held-out bonus was still falling at the end. Means of a fifth of the fit, since one epoch is noisy.

        A fit of less than five steps always is short; one that was not judged is never said to be.
        """
        means = [record["bonus/held_out"] for record in self.history if "bonus/held_out" in record]
        fifth = len(means) // 5
        if fifth == 0:
            return len(means) > 0
        before, last = np.mean(means[-2 * fifth : -fifth]), np.mean(means[-fifth:])
        return bool(last < (1.0 - SHORT_FIT_GAIN) * before)

    @property
    def looks_blind(self) -> bool:
        """Whether it all but fails to tell recorded actions from others. One that was not judged is never said to be."""
        return any(self.auroc.get(kind, 1.0) < BLIND for kind in ("uniform", "other"))

    def summary(self) -> dict[str, Any]:
        """For a run's result."""
        told = ("steps", "seconds", "held_out_mean", "auroc", "histogram", "looks_short")
        return {name: getattr(self, name) for name in told}


@dataclass(frozen=True)
class FittedBonus:
    """A bonus, what it learnt, and what is known about the fit."""

    bonus: Bonus
    state: Any
    spec: Spec
    report: FitReport

    def __repr__(self) -> str:
        report = self.report
        lines = [f"{self.bonus!r}, fitted in {report.steps:,} steps"]
        if report.held_out_mean is not None:
            aurocs = ", ".join(f"{kind} {value:.3f}" for kind, value in report.auroc.items())
            lines.append(f"on held-out pairs: mean {report.held_out_mean:.4g}; AUROC against {aurocs}")
        doubts = {"it was still getting better at its end": report.looks_short, "it is all but blind": report.looks_blind}
        return "\n  ".join([*lines, *(doubt for doubt, holds in doubts.items() if holds)])

    @property
    def penalty(self) -> FrozenBonus:
        """As an agent sees it."""
        return FrozenBonus(self.bonus, self.state, self.spec)

    def novelty(self, observation: np.ndarray, action: np.ndarray, seed: int = 0) -> np.ndarray:
        """The bonus of each pair, `(B, O), (B, A) -> (B,)`. Large means: not like the data."""
        return bonus_of_rows(self.bonus, self.state, observation, action, jax.random.key(seed))


def fit_bonus(
    bonus: Bonus,
    dataset: Dataset,
    cache: Path | None = None,
    on_epoch: OnEpoch | None = None,
    on_wait: Callable[[], None] | None = None,
) -> FittedBonus:
    """Fit `bonus` to `dataset`, or take the same fit from the cache. A fit that was interrupted goes on where it stopped.

    Where another process is making the same fit, this one waits for it and then reads it; if that one dies, this one goes on
    with its fit. `on_wait` is called again and again meanwhile, and may raise to give up.
    """
    kept, held_out = dataset, None
    if bonus.held_out_share > 0:
        kept, held_out = split_episodes(dataset, bonus.held_out_share, bonus.seed)
    place = None if cache is None or bonus.steps == 0 else _place(bonus, dataset, cache)
    if place is None or place.exists():
        return _fit_or_read(bonus, dataset, kept, held_out, place, on_epoch)
    with one_at_a_time(place.with_suffix(".lock"), on_wait):
        return _fit_or_read(bonus, dataset, kept, held_out, place, on_epoch)


def _fit_or_read(
    bonus: Bonus, dataset: Dataset, kept: Dataset, held_out: Dataset | None, place: Path | None, on_epoch: OnEpoch | None
) -> FittedBonus:
    """`kept` is fitted to, and `held_out` judges."""
    if place is not None and place.exists():
        shapes = Batch(*(jax.ShapeDtypeStruct(column.shape, jnp.float32) for column in kept.transitions))
        problem = partial(Problem, dataset.spec, steps=bonus.steps)
        template = jax.eval_shape(lambda key, rows: bonus.frozen(bonus.init(key, problem(rows))), jax.random.key(0), shapes)
        state, report = _read(place, template)
        return FittedBonus(bonus, state, dataset.spec, report)
    if bonus.traits.every_row and is_sampled(kept.transitions):
        raise TetherError(f"a bonus that counts needs every row in memory, and {dataset.name} is too large; choose another bonus")
    with closing(Rows(with_columns(kept, bonus.traits.columns, UNDISCOUNTED))) as rows:
        state, report = _fit(bonus, dataset.spec, rows, held_out, place, on_epoch)
    return FittedBonus(bonus, state, dataset.spec, report)


def _fit(
    bonus: Bonus, spec: Spec, rows: Rows, held_out: Dataset | None, place: Path | None, on_epoch: OnEpoch | None
) -> tuple[Any, FitReport]:
    """The fit itself, from where it stopped; in its place once it is whole."""
    key_init, key_steps = jax.random.split(jax.random.key(bonus.seed))
    fitting, report = fresh_state(bonus, key_init, Problem(spec, rows.sample(), bonus.steps)), FitReport(0, 0.0)
    partial_place = place and _partial(place)
    if partial_place is not None and partial_place.exists():
        fitting, report = _read(partial_place, jax.eval_shape(lambda: fitting))
    began = time.perf_counter()
    start, end = report.steps, bonus.steps
    for step, state, metrics in learn(bonus, fitting, rows, key_steps, start=start, end=end, epoch_steps=epoch_steps(bonus)):
        fitting = state
        if not (all_finite(metrics) and all_finite(fitting)):
            raise TetherError(f"the fit of the bonus left all bounds at step {step} ({metrics}); try a lower bonus.learning_rate")
        record = dict(metrics)
        if held_out is not None:
            record["bonus/held_out"] = _held_out_mean(bonus, bonus.frozen(fitting), held_out)
        history = [*report.history, {"fit_step": step, **record}]
        report = FitReport(step, report.seconds + time.perf_counter() - began, history)
        if partial_place is not None:
            _write(partial_place, fitting, report)
        if on_epoch is not None:
            on_epoch(step, record)
        began = time.perf_counter()

    state = jax.tree.map(jnp.copy, bonus.frozen(fitting))
    if held_out is not None:
        report = _judge(bonus, state, held_out, report)
    if place is not None:
        _write(place, state, report)
    if partial_place is not None:
        partial_place.unlink(missing_ok=True)
    return state, report


def epoch_steps(bonus: Bonus) -> int:
    """Steps between two looks at the held-out pairs. The fit is the same whatever they are."""
    return EPOCH_STEPS if bonus.steps >= FEW_EPOCHS * EPOCH_STEPS else max(math.ceil(bonus.steps / 10), 1)


def steps_done(bonus: Bonus, dataset: Dataset, cache: Path) -> int:
    """How far an earlier fit has come: all the way, or to where it was interrupted; 0 where there is none."""
    place = _place(bonus, dataset, cache)
    if place.exists():
        return bonus.steps
    place = _partial(place)
    return _read(place)[1].steps if place.exists() else 0


def cache_folder() -> Path:
    """Where fits are kept: in `TETHER_CACHE`, else in the user's cache folder."""
    return storage.cache_root() / "bonuses"


def fit_name(bonus: Bonus, dataset: Dataset) -> str:
    """Names a fit by all that decides it: the bonus, its settings and code, the data and its bounds, the format of the file."""
    named = to_named(bonus, BONUSES)
    data = [dataset.sha256, dataset.size, _content(dataset), spec_to_json(dataset.spec)]
    facts = [named, code_version(type(bonus)), *data, FORMAT]
    if is_sampled(dataset.transitions):
        facts.append("begun with a sample of the rows")
    return f"{named['name']}-{hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:24]}"


def _content(dataset: Dataset) -> int:
    """A checksum of what fits are made of. Arrays may have been changed since the file with that hash was read."""
    rows, found = dataset.transitions, 0
    some = np.unique(np.linspace(0, dataset.size - 1, 4_096).astype(int)) if is_sampled(rows) else slice(None)
    columns = [column[some] for column in (rows.observation, rows.action, rows.next_observation)]
    for column in (*columns, dataset.episode_returns, dataset.episode_ends):
        found = zlib.crc32(np.ascontiguousarray(column).data, found)
    return found


def bonus_of_rows(bonus: Bonus, state: Any, observation: np.ndarray, action: np.ndarray, key: Key) -> np.ndarray:
    """The bonus of any number of pairs, in pieces of one size, so that it compiles once."""
    pieces = []
    for piece, start in enumerate(range(0, len(observation), PIECE)):
        rows = slice(start, start + PIECE)
        missing = PIECE - len(observation[rows])
        padded = [np.pad(np.asarray(column[rows], np.float32), ((0, missing), (0, 0))) for column in (observation, action)]
        found = _bonus_of_piece(bonus, state, *padded, jax.random.fold_in(key, piece))
        pieces.append(np.asarray(found)[: PIECE - missing])
    return np.concatenate(pieces) if pieces else np.zeros(0, np.float32)


@partial(jax.jit, static_argnames="bonus")
def _bonus_of_piece(bonus: Bonus, state: Any, observation: jax.Array, action: jax.Array, key: Key) -> jax.Array:
    return bonus.novelty(state, observation, action, key)


def _held_out_mean(bonus: Bonus, state: Any, held_out: Dataset) -> float:
    observation, action = held_out.transitions.observation[:PIECE], held_out.transitions.action[:PIECE]
    return float(np.mean(bonus_of_rows(bonus, state, np.asarray(observation), np.asarray(action), jax.random.key(0))))


def _judge(bonus: Bonus, state: Any, held_out: Dataset, report: FitReport) -> FitReport:
    found = bonus_by_kind(
        lambda observation, action: bonus_of_rows(bonus, state, observation, action, jax.random.key(0)), held_out
    )
    held_out_mean = float(np.mean(found["data"]))
    return replace(report, held_out_mean=held_out_mean, auroc=auroc_by_kind(found), histogram=histogram_by_kind(found))


def _place(bonus: Bonus, dataset: Dataset, cache: Path) -> Path:
    return cache / f"{fit_name(bonus, dataset)}.safetensors"


def _partial(place: Path) -> Path:
    """Where a fit not yet ended is kept."""
    return place.with_suffix(".partial.safetensors")


def _write(place: Path, state: Any, report: FitReport) -> None:
    storage.write_tensors(place, storage.flatten_tree(state), {"report": json.dumps(asdict(report))})


def _read(place: Path, template: Any = None) -> tuple[Any, FitReport]:
    """The state of a fit, if a template of it is given, and its report."""
    try:
        tensors, metadata = storage.read_tensors(place)
        report = FitReport(**json.loads(metadata["report"]))
        return (None if template is None else storage.unflatten_tree(template, tensors)), report
    except TetherError as error:
        raise TetherError(f"{error}; delete {place} and the bonus is fitted anew") from error
    except (KeyError, TypeError, ValueError) as error:
        raise TetherError(f"{place} is not a fitted bonus; delete it and the bonus is fitted anew") from error

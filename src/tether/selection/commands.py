"""What `tether select` and `tether verdict` do, from paths to findings; also by Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from tether import storage
from tether.bonuses import BONUSES, NO_BONUS, Bonus
from tether.data import Dataset, load_dataset
from tether.data.provenance import ancestors, check_columns, imported_columns
from tether.data.transforms import split_episodes, subsample
from tether.errors import TetherError
from tether.policies import Policy
from tether.runs.reading import read_run
from tether.runs.result import versions
from tether.selection.bench import JUDGE, Bench, OwnError, check_task
from tether.selection.candidates import Candidate, find_folders, find_log, read_candidates
from tether.selection.choosing import CLONING, Selection, rank
from tether.selection.fqe import FittedQ
from tether.selection.verdict import Finding, Verdict, about_judge, judged
from tether.settings import choose, to_named

MOST_ROWS = 2_000_000  # of a log: more than an evaluation ever draws
HELD_OUT_SHARE = 0.1  # of the log, where nothing was held out of it
VERDICT_VERSION = 1

Say = Callable[[str], None]


def select(
    runs: Sequence[Path | str],
    dataset: str | Dataset | None,
    *,
    log: str | None = None,
    baseline: Path | str | None = None,
    bonus: str | None = None,
    steps: int | None = None,
    discount: float | None = None,
    every_policy: bool = False,
    say: Say = print,
    show: bool = True,
) -> Selection:
    """Choose among finished runs by held-out episodes: `tether select --help` tells how. `.chosen` is None where none is to be
    trusted, `.words` say why, `.ranked` has all numbers.
    """
    if isinstance(runs, str | Path):
        raise TetherError(f"runs is one path, {str(runs)!r}; give a list of them")
    if not runs:
        raise TetherError("no runs to choose from; give their folders")
    folders, unfinished = find_folders([Path(run) for run in runs])
    for folder in unfinished:
        say(f"{folder} is not finished; left out")
    candidates = [candidate for folder in folders for candidate in read_candidates(folder, every_policy)]
    beaten = _baseline(candidates, baseline, say)
    if dataset is None:
        raise TetherError(
            "no held-out episodes to compare on; give --dataset HELDOUT.hdf5. To have some, split the data before training: "
            f"tether data split {candidates[0].dataset} --train train.hdf5 --held-out held-out.hdf5, and train on train.hdf5"
        )
    found = find_log(candidates, log, show)
    held_out = _held_out(dataset, found, candidates, say)  # before rows are left out, which is a derivation too
    whole = _enough(found, say)
    fqe = _evaluation(steps, _discount(candidates, discount))
    return rank(Bench(whole, held_out, fqe, judging(bonus), show), candidates, beaten)


def judge_run(
    folder: Path | str,
    dataset: str | Dataset | None = None,
    *,
    log: str | None = None,
    bonus: str | None = None,
    steps: int | None = None,
    say: Say = print,
    show: bool = True,
) -> Verdict:
    """See `tether verdict --help`. Written to the run's `verdict.json`."""
    folder = Path(folder)
    if folder.is_dir() and not (folder / "config.json").exists():
        raise TetherError(f"{folder} is not a run folder: it has no config.json")
    candidate = read_candidates(find_folders([folder])[0][0])[0]
    own = find_log([candidate], log, show)
    held_out = None if dataset is None else _held_out(dataset, own, [candidate], say)
    whole = _enough(own, say)
    run = read_run(folder)
    auroc = (run.result or {}).get("bonus", {}).get("auroc")
    fqe = _evaluation(steps, candidate.discount)
    judge = judging(bonus)
    found = _judge(candidate.policy, candidate.name, candidate.own_error, whole, held_out, fqe, judge, auroc, show)
    found = replace(found, findings=(*found.findings, *about_judge(name_of(judge), candidate.bonus)))
    storage.write_json(folder / "verdict.json", found.plain())
    return found


def verdict(
    policy: Policy,
    dataset: Dataset,
    held_out: Dataset | None = None,
    *,
    bonus: str | None = None,
    steps: int | None = None,
    discount: float = 0.99,
    show: bool = False,
) -> Verdict:
    """What is known of a policy without a simulator: print it. `dataset` is what it learnt from, as it was loaded.

    Without held-out episodes, a tenth of the log's stand in for them.
    """
    if not isinstance(policy, Policy):
        raise TetherError(f"the policy is a {type(policy).__name__}; give what tether.train or tether.load_policy gives")
    return _judge(policy, "the policy", None, dataset, held_out, _evaluation(steps, discount), judging(bonus), None, show)


def _judge(
    policy: Policy,
    name: str,
    own_error: OwnError | None,
    log: Dataset,
    held_out: Dataset | None,
    fqe: FittedQ,
    bonus: Bonus,
    auroc: dict[str, float] | None,
    show: bool,
) -> Verdict:
    check_task(name, policy.spec, log.spec, log.name)
    check_columns(log.name, imported_columns(log.provenance), name, policy.about.get("columns"))
    log = replace(log, spec=policy.spec)
    seen = held_out is None
    if held_out is None:
        log, held_out = split_episodes(log, HELD_OUT_SHARE, seed=0)
    bench = Bench(log, held_out, fqe, bonus, show)
    found = judged(bench, bench.policy(name, policy, own_error), auroc)
    findings = found.findings
    if seen:
        told = "the policy has learnt from the episodes that it was compared on, which flatters it"
        findings += (Finding("doubt", f"{told}; hold some out (tether data split)"),)
    facts = {
        "format_version": VERDICT_VERSION,
        "policy": policy.about.get("policy"),
        "held_out": {
            "name": held_out.name,
            "episodes": len(held_out.episode_ends),
            "transitions": held_out.size,
            "learnt_from": seen,
        },
        "evaluation": asdict(fqe),
        "judge": to_named(bonus, BONUSES),
        "versions": versions(),
    }
    return replace(found, findings=findings, facts=found.facts | facts)


def name_of(bonus: Bonus) -> str:
    return str(to_named(bonus, BONUSES)["name"])


def _enough(log: Dataset, say: Say) -> Dataset:
    """Whole episodes of a log that is larger than can be used."""
    if log.size <= MOST_ROWS:
        return log
    part = subsample(log, share=MOST_ROWS / log.size)
    say(f"{part.size:,} of the log's {log.size:,} rows, whole episodes at random, are enough to learn values from")
    return part


def judging(name: str | None) -> Bonus:
    """The bonus that judges actions."""
    if name is None:
        return JUDGE
    kind = choose(BONUSES, name, "bonus")
    if name == NO_BONUS:
        raise TetherError("the bonus none is the same everywhere; choose one that tells pairs apart, such as density")
    return kind()


def _evaluation(steps: int | None, discount: float) -> FittedQ:
    if steps is not None and steps < 1:
        raise TetherError(f"--steps is {steps}; it must be at least 1")
    if not 0.0 <= discount < 1.0:
        raise TetherError(f"--discount is {discount:g}; it must be at least 0 and less than 1")
    fqe = FittedQ(discount=discount)
    return fqe if steps is None else replace(fqe, steps=steps)


def _discount(candidates: Sequence[Candidate], given: float | None) -> float:
    if given is not None:
        return given
    # Cloning values nothing: it is valued as the others are.
    found = sorted({candidate.discount for candidate in candidates if candidate.agent != CLONING} or {candidates[0].discount})
    if len(found) > 1:
        raise TetherError(f"the runs have discounts from {found[0]:g} to {found[-1]:g}; say by which to value all: --discount")
    return found[0]


def _baseline(candidates: Sequence[Candidate], given: Path | str | None, say: Say) -> Candidate | None:
    if given is not None:
        wanted = Path(given).resolve()
        for candidate in candidates:
            if candidate.folder.resolve() == wanted:
                return candidate
        raise TetherError(f"--baseline {given} is none of the runs to choose from; give it among them too")
    found = next((candidate for candidate in candidates if candidate.agent == CLONING), None)
    if found is None:
        say("no run of cloning (--agent bc) among these; the log itself is the baseline")
    else:
        say(f"the baseline is {found.name}")
    return found


def _held_out(given: str | Dataset, log: Dataset, candidates: Sequence[Candidate], say: Say) -> Dataset:
    held_out = given if isinstance(given, Dataset) else load_dataset(given)
    name = held_out.name if isinstance(given, Dataset) else given
    learnt_from = {log.sha256, *(candidate.sha256 for candidate in candidates)}
    if held_out.sha256 in learnt_from:
        raise TetherError(
            f"{name} is what the runs learnt from; to compare them, hold episodes out before training: tether data split DATA "
            "--train train.hdf5 --held-out held-out.hdf5"
        )
    if ancestors(held_out.provenance) & learnt_from:
        say(f"warning: {name} was cut from what the runs learnt from, so they have seen it, which flatters them")
    if held_out.sha256 in ancestors(log.provenance):
        say(f"warning: what the runs learnt from was made of {name}, so they have seen it, or part of it, which flatters them")
    check_columns(name, imported_columns(held_out.provenance), log.name, imported_columns(log.provenance))
    return held_out

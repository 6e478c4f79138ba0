"""One of several runs, chosen without a simulator; or none, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tether.bonuses import BONUSES
from tether.selection.bench import Bench, Measured
from tether.selection.candidates import Candidate
from tether.selection.measures import Estimate
from tether.selection.verdict import Finding, about_actions, about_bench, about_judge, about_values
from tether.settings import to_named

CLONING = "bc"  # the agent whose run is the baseline where none is named
LOG_ITSELF = "the log itself"


@dataclass(frozen=True)
class Ranked:
    """A candidate with what was found; the baseline has no gain."""

    candidate: Candidate
    measured: Measured
    gain: Estimate | None
    findings: tuple[Finding, ...]

    @property
    def is_trusted(self) -> bool:
        return all(finding.kind != "against" for finding in self.findings)

    def plain(self) -> dict[str, Any]:
        measured = asdict(self.measured) | {"value": self.measured.value.plain(), "values": self.measured.values.tolist()}
        return {
            "run": str(self.candidate.folder),
            "agent": self.candidate.agent,
            "policy": self.candidate.policy.about["policy"],
            "gain": None if self.gain is None else self.gain.plain(),
            "trusted": self.is_trusted,
            "findings": [[finding.kind, finding.text] for finding in self.findings],
            **measured,
        }


@dataclass(frozen=True)
class Selection:
    """`ranked` from the best value down. `chosen` is None where none is to be trusted; `words` say why."""

    ranked: tuple[Ranked, ...]
    chosen: Ranked | None
    reference: str
    recorded: Estimate
    log: Estimate
    words: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.words)

    def plain(self) -> dict[str, Any]:
        return {
            "chosen": None if self.chosen is None else str(self.chosen.candidate.folder),
            "chosen_policy": None if self.chosen is None else self.chosen.candidate.policy.about["policy"],
            "words": list(self.words),
            "reference": self.reference,
            "recorded": self.recorded.plain(),
            "log": self.log.plain(),
            "runs": [each.plain() for each in self.ranked],
        }


def rank(bench: Bench, candidates: Sequence[Candidate], baseline: Candidate | None) -> Selection:
    """Measure all, and say which is to be used.

    Every gain is over the baseline; without one, over whoever made the log, valued in the same way.
    """
    log, recorded = bench.log_itself(), bench.recorded()
    found = {each.name: bench.policy(each.name, each.policy, each.own_error) for each in candidates}
    reference = log if baseline is None else found[baseline.name]
    name = LOG_ITSELF if baseline is None else baseline.name
    auroc, common = bench.judge().report.auroc, about_bench(bench, log, recorded)
    ranked = []
    for candidate in candidates:
        measured, own = found[candidate.name], about_actions(found[candidate.name], auroc)
        own += about_judge(str(to_named(bench.bonus, BONUSES)["name"]), candidate.bonus)
        gain = None if candidate is baseline else measured.gain_over(reference)
        if gain is not None:
            own += about_values(measured, gain, LOG_ITSELF if baseline is None else "the baseline")
        ranked.append(Ranked(candidate, measured, gain, (*own, *(each for each in common if each.kind == "against"))))
    ranked.sort(key=lambda each: -each.measured.value.mean)
    chosen = best(ranked)
    words = _words(ranked, chosen, LOG_ITSELF if baseline is None else "the baseline", common)
    return Selection(tuple(ranked), chosen, name, recorded, log.value, tuple(words))


def best(ranked: Sequence[Ranked]) -> Ranked | None:
    """Of those that nothing speaks against and that are worth more than the reference, the one with the highest lower bound.

    Where none is worth more for certain, the baseline, if nothing speaks against it.
    """
    better = [each for each in ranked if each.is_trusted and each.gain is not None and each.gain.low > 0.0]
    if better:
        return max(better, key=lambda each: each.measured.value.low)
    return next((each for each in ranked if each.gain is None and each.is_trusted), None)


def _words(ranked: Sequence[Ranked], chosen: Ranked | None, reference: str, common: Sequence[Finding]) -> list[str]:
    if chosen is not None and chosen.gain is not None:
        told = [f"use {_spelt(ranked, chosen)}"]
        told += [f"  {finding.text}" for finding in chosen.findings]
    elif chosen is not None:
        told = [f"use {_spelt(ranked, chosen)}, the baseline: none of the others is to be trusted to be better"]
    else:
        told = ["none of these is to be trusted"]
    for each in ranked:
        if each is not chosen:
            told += [f"{_spelt(ranked, each)}:", *(f"  {reason}" for reason in reasons(each, chosen, reference))]
    return told + [finding.text for finding in common]


def _spelt(ranked: Sequence[Ranked], each: Ranked) -> str:
    """By its number in the table, which has no room for paths, and its name."""
    place = next(place for place, other in enumerate(ranked, start=1) if other is each)
    return f"{place}, {each.candidate.name}"


def reasons(each: Ranked, chosen: Ranked | None, reference: str) -> list[str]:
    """Why it is not the one."""
    against = [finding.text for finding in each.findings if finding.kind == "against"]
    if against:
        return against
    if each.gain is not None and each.gain.low <= 0.0:
        between = f"between {each.gain.low:+.3g} and {each.gain.high:+.3g}"
        return [f"its value may be no more than that of {reference}: the difference is {between}"]
    return ["its value is less certain or lower"] if chosen is not None else []

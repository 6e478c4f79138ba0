"""What the measures mean, in words: for a run that is judged alone, and for each of several that are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tether.selection.bench import Bench, Measured
from tether.selection.measures import UNUSUAL, Estimate

OUTSIDE = 0.1  # share of actions outside the data, twice that of recorded ones, from which on a policy is advised against
OFF = 0.2  # by which share of what was earned the log's own value may be off before no value is believed
CUT_OFF = 0.01  # share of targets beyond all bounds, from which on a value is not believed
MOVED = 0.05  # by how much a value may still move at its end

DO_NOT_USE = "do not use this policy"
NO_BETTER = "nothing shows that this policy is better than"
NOTHING_AGAINST = "nothing that is known speaks against this policy"


@dataclass(frozen=True)
class Finding:
    kind: Literal["for", "against", "doubt"]
    text: str


@dataclass(frozen=True)
class Verdict:
    """`advice` in a few words, and what it rests on."""

    advice: str
    findings: tuple[Finding, ...]
    facts: dict[str, Any]  # every number, for verdict.json

    def __str__(self) -> str:
        return spell(self.plain())

    def plain(self) -> dict[str, Any]:
        return {"advice": self.advice, "findings": [[each.kind, each.text] for each in self.findings], **self.facts}


def spell(plain: dict[str, Any]) -> str:
    """A verdict, or what `verdict.json` keeps of it, in lines."""
    signs = {"for": "+", "against": "-", "doubt": "?"}
    return "\n".join(
        [f"without a simulator: {plain['advice']}", *(f"  {signs[kind]} {text}" for kind, text in plain["findings"])]
    )


def judged(bench: Bench, measured: Measured, auroc: dict[str, float] | None = None) -> Verdict:
    """One policy, against a clone of the log and the log itself. `auroc` is of the bonus that it was trained with, if any.

    Cloning is what the policy must beat to be worth its risk. A clone of some thousand steps is fitted for that: its value comes
    from the same rows, starts and bootstraps, so that most of the error of both is the same and drops out of the difference.
    """
    clone, log, judge = bench.clone(), bench.log_itself(), bench.judge().report
    recorded, gain = bench.recorded(), measured.gain_over(clone)
    against_log = measured.gain_over(log)
    findings = [
        *about_actions(measured, judge.auroc),
        *about_values(measured, gain, "a clone of the log"),
        Finding("for" if against_log.low > 0 else "doubt", f"against whoever made the log: {_difference(against_log)}"),
        *about_bench(bench, log, recorded),
    ]
    if auroc:
        findings.append(_about_bonus(auroc))
    facts = {
        "value": measured.value.plain(),
        "clone": clone.value.plain(),
        "gain_over_clone": gain.plain(),
        "log": log.value.plain(),
        "gain_over_log": against_log.plain(),
        "recorded": recorded.plain(),
        "discount": bench.fqe.discount,
        "outside": measured.outside,
        "outside_clone": clone.outside,
        "novelty": measured.novelty,
        "distance": measured.distance,
        "distance_clone": clone.distance,
        "td_error": measured.td_error,
        "auroc": auroc or None,
        "auroc_judge": judge.auroc or None,
    }
    return Verdict(_advice(findings, gain), tuple(findings), facts)


def _advice(findings: Sequence[Finding], gain: Estimate) -> str:
    if any(finding.kind == "against" for finding in findings):
        return DO_NOT_USE
    return NOTHING_AGAINST if gain.low > 0.0 else f"{NO_BETTER} a clone of the log"


def about_actions(measured: Measured, auroc: dict[str, float]) -> list[Finding]:
    """Whether the policy stays with what was recorded."""
    if measured.outside is None:
        return []
    told = f"{measured.outside:.0%} of its actions are outside the data ({UNUSUAL:.0%} of recorded ones are)"
    worst = min((value for kind, value in auroc.items() if kind in ("uniform", "other")), default=1.0)
    if worst < 0.6:
        return [Finding("doubt", f"{told}; but the bonus that says so is all but blind (AUROC {worst:.2f}), so it says little")]
    if measured.outside > OUTSIDE:
        return [Finding("against", f"{told}: nothing recorded says what they do")]
    return [Finding("for", told)]


def about_judge(judge: str, trained_with: str | None) -> list[Finding]:
    """Whether it has learnt to please the bonus that judges it."""
    if judge != trained_with:
        return []
    told = (
        f"it was trained to please a bonus of the kind that judged its actions, {judge}; judge by another too: --bonus classifier"
    )
    return [Finding("doubt", told)]


def about_values(measured: Measured, gain: Estimate, reference: str) -> list[Finding]:
    """Whether it is worth more than the reference."""
    if measured.cut_off > CUT_OFF:
        told = f"its value ran into the bounds of what rewards can add up to ({measured.cut_off:.0%} of targets)"
        return [Finding("against", f"{told}; it is not to be believed")]
    told = f"worth {measured.value} from the start of an episode on, by fitted Q evaluation"
    told = f"{told}; against {reference}: {_difference(gain)}"
    kind: Literal["for", "against", "doubt"] = "for" if gain.low > 0.0 else "against" if gain.high < 0.0 else "doubt"
    found = [Finding(kind, told)]
    if measured.moved > MOVED:
        found.append(Finding("doubt", f"that value still moved by {measured.moved:.0%} at the end; give more --steps"))
    return found


def about_bench(bench: Bench, log: Measured, recorded: Estimate) -> list[Finding]:
    """Whether values learnt from this log are to be believed: those of recorded actions are known."""
    episodes = len(bench.held_out.episode_ends)
    told = f"{episodes:,} held-out episodes earned {recorded}, discounted by {bench.fqe.discount:g}"
    told = f"{told}; fitted Q evaluation says {log.value}"
    off = abs(log.value.mean - recorded.mean)
    apart = log.value.low > recorded.high or log.value.high < recorded.low
    if apart and off > OFF * abs(recorded.mean):
        return [Finding("against", f"{told}: it is not to be believed on this log")]
    found = [Finding("for", told)]
    if episodes < 5:
        found.append(Finding("doubt", f"{episodes} held-out episodes are too few to tell much; hold out more"))
    return found


def _about_bonus(auroc: dict[str, float]) -> Finding:
    worst, kind = min((value, kind) for kind, value in auroc.items() if kind in ("uniform", "other"))
    told = f"the bonus it was trained with tells recorded actions from {kind} ones with an AUROC of {worst:.2f} (0.5 is chance)"
    return Finding("for", told) if worst >= 0.6 else Finding("against", f"{told}: nothing held it to the data")


def _difference(gain: Estimate) -> str:
    spelt = f"{gain.mean:+.3g} [{gain.low:+.3g}, {gain.high:+.3g}]"
    if gain.low > 0.0:
        return f"{spelt}, more"
    return f"{spelt}, less" if gain.high < 0.0 else f"{spelt}, which may be nothing"

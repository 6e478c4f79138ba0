"""A statement holds or the command fails: what is counted as an error, and what is said of it."""

from __future__ import annotations

import numpy as np
import pytest

from tether.theory.statements import STATEMENTS, Finding, Findings, Statement


def checked() -> Findings:
    findings = Findings()
    findings.add("garnets", {name: np.zeros(3) for name in STATEMENTS})
    return findings


def test_the_largest_error_of_all_families_counts():
    finding = Finding(Statement("x = y", tolerance=1e-3))
    finding.add(np.array([1e-6, 3e-4, 2e-4]), "small")
    finding.add(np.array([1e-5, 1e-7]), "large")
    assert (finding.mdps, finding.largest_error, finding.worst, finding.holds) == (5, 3e-4, "small, number 1", True)
    finding.add(np.array([0.5]), "last")
    assert (finding.mdps, finding.worst, finding.holds) == (6, "last, number 0", False)


@pytest.mark.parametrize("families", [("bad", "good"), ("good", "bad"), ("bad", "bad", "good")])
def test_no_number_never_holds(families: tuple[str, ...]):
    finding = Finding(Statement("x = y"))
    for family in families:
        finding.add(np.array([0.0, np.nan if family == "bad" else 1e-12]), family)
    assert np.isnan(finding.largest_error)
    assert finding.worst == "bad, number 1"
    assert not finding.holds


def test_what_holds_is_not_mentioned():
    assert checked().violated() == []


def test_a_violated_statement_is_named_with_its_error_and_its_place():
    findings = checked()
    findings.add("gridworlds", {"same_q": np.array([0.0, 0.25])})
    assert findings.violated() == [
        "same_q is violated (Q'_0 = Q_0 + b: naive and bootstrapped have Q'_k = Q_k + b at every k): "
        "off by 0.25, where 1e-09 is allowed, at gridworlds, number 1"
    ]


def test_a_statement_that_was_not_checked_does_not_pass():
    findings = checked()
    del findings.statements["cold_q"]
    assert findings.violated() == ["cold_q was not checked"]


def test_findings_are_written_in_the_order_of_the_statements():
    findings = Findings()
    findings.add("garnets", {name: np.zeros(3) for name in reversed(STATEMENTS)})
    written = findings.to_json()["statements"]
    assert [found["name"] for found in written] == list(STATEMENTS)
    assert {found["mdps"] for found in written} == {3}

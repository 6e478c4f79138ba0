"""Every statement that `tether theory` checks, and the check."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from tether.theory import equivalence, exact, regularisation
from tether.theory.problems import FAMILIES, Problem
from tether.types import Array

ROUNDING = 1e-9  # above what float64 makes of values up to some hundreds, far below any error that means something
SOLVER = 1e-6  # ten times the feasibility tolerance of HiGHS
LINEAR_PROGRAM_PAIRS = 9  # 1,000 MDPs of 9 pairs take a second, of 48 half a minute
NOTICEABLE = 1e-6  # a loss above this is counted as one


@dataclass(frozen=True)
class Statement:
    text: str
    tolerance: float = ROUNDING


# b stands for the whole penalty where no beta does; "any" is one random draw per MDP.
STATEMENTS = {
    "plain_limit": Statement("VI reaches the optimum of r"),
    "same_q": Statement("Q'_0 = Q_0 + b: naive and bootstrapped have Q'_k = Q_k + b at every k"),
    "same_policies": Statement("... and the same policy at every k"),
    "limit": Statement("from any Q_0 both reach the optimal value of r - b"),
    "limit_policy": Statement("... and a policy that is optimal for r - b"),
    "contraction": Statement("... with an error of at most γ^k times the first"),
    "linear_program": Statement("the optimum of r - b used above is that of a linear program", SOLVER),
    "kl_any_policy": Statement("<π,Q> - τ KL(π,π_b) = <π,Q-Δ_b> + τ H(π) for any π"),
    "kl_missing_tau": Statement("... and with H in place of τ H it is off by |1-τ| H(π)"),
    "kl_argmax": Statement("the softmax reaches its maximum, τ ln Σ π_b exp(Q/τ)"),
    "kl_same_q": Statement("KL VI toward π_b = entropy VI on Q - Δ_b: the same Q_k at every k"),
    "kl_same_policies": Statement("... and the same policy at every k"),
    "cold_delta": Statement("0 <= Δ_b - β(b - min b) <= τ ln|A|"),
    "cold_q": Statement("τ -> 0: KL VI is within τ ln|A| γ(1-γ^k)/(1-γ) of bootstrapped VI on β(b - min b)"),
    "cold_policy": Statement("... and its policy within τ ln|A|/(1-γ) of optimal for r - β(b - min b)"),
    "blind_delta": Statement("min b ≠ 0: Δ_b is the same for b and for b - min b"),
    "blind_reward": Statement("... so the limit lacks what anti-exploration with b has in its reward: -γβ P min b"),
    "constant_minimum": Statement("... which, if the same everywhere, only shifts Q_k, by γβ min b (1-γ^k)/(1-γ)"),
    "same_offline": Statement("backing up only a dataset's pairs, Q'_0 = Q_0 + b everywhere: still Q'_k = Q_k + b"),
}

# What is measured, and the optimal values that it is measured against.
MEASUREMENTS: dict[Callable[..., dict[str, Array]], tuple[str, ...]] = {
    equivalence.same_iterations: (),
    equivalence.common_limit: ("plain", "penalised"),
    equivalence.contraction: ("penalised",),
    equivalence.same_offline: (),
    regularisation.kl_identity: (),
    regularisation.cold_limit: ("above_smallest",),
    regularisation.smallest_bonus: ("penalised",),
}
PARTS = len(FAMILIES) * len(MEASUREMENTS)


@dataclass
class Finding:
    """What became of one statement."""

    statement: Statement
    mdps: int = 0
    largest_error: float = 0.0
    worst: str = ""  # where the largest error is

    @property
    def holds(self) -> bool:
        return self.largest_error <= self.statement.tolerance  # not so for nan

    def add(self, errors: np.ndarray, family: str) -> None:
        """The errors of a family of MDPs, one each."""
        index = int(np.argmax(np.where(np.isnan(errors), np.inf, errors)))
        if self.mdps == 0 or np.isnan(errors[index]) or errors[index] > self.largest_error:
            self.largest_error, self.worst = float(errors[index]), f"{family}, number {index}"
        self.mdps += len(errors)


@dataclass
class Findings:
    """All of them, and what was counted on the way, by family."""

    statements: dict[str, Finding] = field(default_factory=dict)
    counts: dict[str, dict[str, float]] = field(default_factory=dict)

    def add(self, family: str, errors: dict[str, np.ndarray]) -> None:
        for name, values in errors.items():
            self.statements.setdefault(name, Finding(STATEMENTS[name])).add(values, family)

    def to_json(self) -> dict[str, Any]:
        """In the order of `STATEMENTS`."""
        return {
            "statements": [
                {
                    "name": name,
                    "statement": found.statement.text,
                    "mdps": found.mdps,
                    "largest_error": found.largest_error,
                    "tolerance": found.statement.tolerance,
                    "holds": found.holds,
                    "worst": found.worst,
                }
                for name, found in ((name, self.statements[name]) for name in STATEMENTS if name in self.statements)
            ],
            "counts": self.counts,
        }

    def violated(self) -> list[str]:
        """One line for each statement that does not hold, or was not checked."""
        lines = [
            f"{name} is violated ({found.statement.text}): off by {found.largest_error:.3g}, "
            f"where {found.statement.tolerance:g} is allowed, at {found.worst}"
            for name, found in self.statements.items()
            if not found.holds
        ]
        return lines + [f"{name} was not checked" for name in STATEMENTS if name not in self.statements]


def check_all(seed: int, mdps: int, findings: Findings) -> Iterator[str]:
    """Check every statement on `mdps` problems of each family; says what was done after each of `PARTS` parts."""
    for index, (family, make) in enumerate(FAMILIES.items()):
        problems = make(np.random.default_rng([seed, index]), mdps)
        yield from _check_family(family, problems, findings)


def _check_family(family: str, problems: Problem, findings: Findings) -> Iterator[str]:
    reward, weight = problems.mdp.reward, problems.bonus_weight[:, None, None]
    above = problems.bonus - np.min(problems.bonus, axis=-1, keepdims=True)
    rewards = {"plain": reward, "penalised": reward - weight * problems.bonus, "above_smallest": reward - weight * above}
    optima = {name: exact.policy_iteration(problems.mdp._replace(reward=changed)) for name, changed in rewards.items()}
    if reward[0].size <= LINEAR_PROGRAM_PAIRS:
        solved = exact.linear_program(problems.mdp._replace(reward=rewards["penalised"]))
        findings.add(family, {"linear_program": np.max(np.abs(solved - optima["penalised"]), axis=-1)})

    counts: dict[str, Any] = {}
    for part, wanted in MEASUREMENTS.items():
        measured = jax.jit(jax.vmap(part))(problems, *(optima[name] for name in wanted))
        found = {name: np.asarray(values) for name, values in measured.items()}
        findings.add(family, {name: values for name, values in found.items() if name in STATEMENTS})
        counts |= {name: values for name, values in found.items() if name not in STATEMENTS}
        yield part.__name__.replace("_", " ")
    findings.counts[family] = _count(problems, counts)


def _count(problems: Problem, found: dict[str, np.ndarray]) -> dict[str, float]:
    mdps, states, _ = problems.bonus.shape
    return {
        "mdps": mdps,
        "decisions_compared": mdps * states * equivalence.ITERATIONS,
        "decisions_differing": int(found["differing_decisions"].sum()),
        "missing_tau_largest_gap": float(found["missing_tau_gap"].max()),
        "minimum_changes_policy": int((found["lost"] > NOTICEABLE).sum()),
        "minimum_largest_loss": float(found["lost"].max()),
        "minimum_mean_loss": float(found["lost"].mean()),
    }

"""What Prometheus sees: counters and histograms, as text of its format 0.0.4."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
FAMILIARITY = (0.0001, 0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0)


@dataclass
class Histogram:
    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def lines(self, name: str) -> Iterable[str]:
        running = 0
        for bound, count in zip((*map(repr, self.bounds), "+Inf"), self.counts, strict=True):
            running += count
            yield f'{name}_bucket{{le="{bound}"}} {running}'
        yield f"{name}_sum {self.total!r}"
        yield f"{name}_count {running}"


@dataclass
class Counters:
    requests: Counter[tuple[str, int]] = field(default_factory=Counter)  # by path and status
    rows: int = 0
    unfamiliar: int = 0  # rows below the threshold
    fallbacks: int = 0  # rows in which the fallback acted
    outside: Counter[str] = field(default_factory=Counter)  # rows with this column outside its recorded range
    log_failures: int = 0
    seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    familiarity: Histogram = field(default_factory=lambda: Histogram(FAMILIARITY))

    def text(self, swaps: int, failures: int) -> str:
        requests = {f'{{path="{path}",status="{status}"}}': n for (path, status), n in sorted(self.requests.items())}
        outside = {f'{{column="{_escaped(column)}"}}': number for column, number in sorted(self.outside.items())}
        singles = {
            "rows": ("observations answered", self.rows),
            "unfamiliar_rows": ("observations below the threshold of familiarity", self.unfamiliar),
            "fallback_rows": ("observations in which the fallback acted", self.fallbacks),
            "policy_swaps": ("new policy files taken over", swaps),
            "policy_swap_failures": ("new policy files that could not be used", failures),
            "log_failures": ("answers that could not be written to the log", self.log_failures),
        }
        lines = _block("tether_requests_total", "counter", "requests by path and status")
        lines += [f"tether_requests_total{labels} {number}" for labels, number in requests.items()]
        for name, (told, number) in singles.items():
            lines += [*_block(f"tether_{name}_total", "counter", told), f"tether_{name}_total {number}"]
        lines += _block("tether_outside_range_rows_total", "counter", "observations with this column outside its recorded range")
        lines += [f"tether_outside_range_rows_total{labels} {number}" for labels, number in outside.items()]
        lines += _block("tether_request_seconds", "histogram", "time to answer /act")
        lines += self.seconds.lines("tether_request_seconds")
        lines += _block("tether_familiarity", "histogram", "familiarity of what was asked")
        lines += self.familiarity.lines("tether_familiarity")
        return "\n".join(lines) + "\n"


def _block(name: str, kind: str, told: str) -> list[str]:
    return [f"# HELP {name} {told}", f"# TYPE {name} {kind}"]


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

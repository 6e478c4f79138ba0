"""The page of `tether watch`: one HTML file with its pictures inside, for light and dark, that needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from pathlib import Path

import numpy as np

from tether.report.drift import TAILS, Drift, Seen
from tether.runtime.acting import columns_of, experience_of, units_of
from tether.runtime.experience import UNUSUAL, blindness, spell
from tether.runtime.file import Policy
from tether.storage import replacing

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 860, 200, 64, 24, 10
MOST_COLUMNS = 8  # that are drawn

STYLE = """
:root {
  --ink: #1b1b1f; --soft: #6e6e78; --paper: #ffffff; --line: #0072b2; --band: #0072b233; --mark: #d55e00; --known: #009e7322;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #ececf1; --soft: #a0a0ab; --paper: #17171c; --line: #56b4e9; --band: #56b4e933; --mark: #e69f00; --known: #009e7333;
  }
}
body {
  background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif;
  max-width: 900px; margin: 2rem auto; padding: 0 1rem;
}
h1 { font-size: 1.4rem; } h2 { font-size: 1.05rem; margin: 1.6rem 0 0.2rem; } p.soft { color: var(--soft); }
.verdict { border-left: 4px solid var(--mark); padding-left: 0.8rem; } .fine { border-color: var(--line); }
svg { width: 100%; height: auto; } svg text { fill: var(--soft); font: 12px system-ui, sans-serif; }
.axis { stroke: var(--soft); stroke-width: 1; } .grid { stroke: var(--soft); stroke-opacity: 0.25; }
.line { fill: none; stroke: var(--line); stroke-width: 2; } .band { fill: var(--band); stroke: none; }
.mark { stroke: var(--mark); stroke-width: 2; stroke-dasharray: 5 4; } .limit { stroke: var(--soft); stroke-dasharray: 2 3; }
.known { fill: var(--known); }
"""


def write_page(policy: Policy, seen: Seen, drift: Drift, told: Sequence[str], source: str, path: Path) -> None:
    with replacing(path) as temporary:
        temporary.write_text(make_page(policy, seen, drift, told, source), encoding="utf-8")


def make_page(policy: Policy, seen: Seen, drift: Drift, told: Sequence[str], source: str) -> str:
    known = experience_of(policy)
    found = bool(drift.in_all or drift.by_column)
    marks = [stretch.start for stretch in drift.in_all]
    kind = "verdict" if found else "verdict fine"
    parts = [f'<div class="{kind}">', *(f"<p>{escape(sentence)}</p>" for sentence in told), "</div>"]
    warning = blindness(known)
    if warning:
        parts.append(f'<p class="soft">Beware: {escape(warning)}</p>')
    parts += ["<h2>Familiarity: median, and 10% to 90%</h2>", _familiarity(drift, seen, known.smallest, marks)]
    parts.append(f'<p class="soft">0.5 is ordinary. Dotted: {UNUSUAL:g}. It is {escape(spell(known))}.</p>')
    parts += [f"<h2>Share of rows with a familiarity below {UNUSUAL:g}</h2>", _unusual(drift, seen, marks)]
    names, units = columns_of(policy), units_of(policy)
    shown = list(drift.by_column)[:MOST_COLUMNS]
    for column in shown:
        name = names[column] if names else f"number {column} (counted from 0)"
        unit = f" [{units[name]}]" if name in units and units[name] not in name else ""
        parts += [f"<h2>{escape(name + unit)}</h2>", _column(drift, seen, known.observation[:, column], column)]
    if shown:
        parts.append('<p class="soft">Shaded: where 99% of the recorded values are. Line: the median; around it 10% to 90%.</p>')
    if len(drift.by_column) > len(shown):
        parts.append(f'<p class="soft">{len(drift.by_column) - len(shown)} more columns are not drawn.</p>')
    title = escape(f"What the policy saw: {source}")
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    about = f"{len(seen.rows):,} observations in {len(drift.unusual):,} stretches; {str(policy).splitlines()[0]}"
    body = "\n".join([f"<h1>{title}</h1>", f'<p class="soft">{escape(about)}</p>', *parts])
    return f'<!doctype html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head><body>\n{body}\n</body></html>\n'


def _familiarity(drift: Drift, seen: Seen, smallest: float, marks: Sequence[int]) -> str:
    bands = _quantiles(drift.familiarity, drift.bins)
    least = max(smallest, 1e-6)
    levels = [10.0**power for power in range(int(np.floor(np.log10(least))), 1) if 10.0**power >= least * 0.99]
    chart = _Chart(drift, seen, np.log10(least), 0.0, [(np.log10(level), f"{level:g}") for level in levels])
    chart.limit(np.log10(UNUSUAL))
    return chart.drawn(np.log10(np.maximum(bands, least)), marks)


def _unusual(drift: Drift, seen: Seen, marks: Sequence[int]) -> str:
    chart = _Chart(drift, seen, 0.0, 1.0, [(share, f"{share:.0%}") for share in (0.0, 0.25, 0.5, 0.75, 1.0)])
    return chart.drawn(np.repeat(drift.unusual[:, None], 3, axis=1), marks)


def _column(drift: Drift, seen: Seen, recorded: np.ndarray, column: int) -> str:
    bands = _quantiles(seen.rows[:, column], drift.bins)
    low, high = np.quantile(recorded, TAILS)
    bottom, top = min(float(bands.min()), float(low)), max(float(bands.max()), float(high))
    room = 0.05 * ((top - bottom) or 1.0)
    ticks = [(value, f"{value:.4g}") for value in np.linspace(bottom, top, 4)]
    chart = _Chart(drift, seen, bottom - room, top + room, ticks)
    chart.known(float(low), float(high))
    return chart.drawn(bands, [stretch.start for stretch in drift.by_column[column]])


def _quantiles(values: np.ndarray, bins: np.ndarray) -> np.ndarray:
    """`(bins, 3)`: 10%, the median and 90% of each stretch."""
    return np.stack([np.quantile(values[a:b], (0.1, 0.5, 0.9)) for a, b in pairwise(bins)])


class _Chart:
    """A line with a band around it, over the rows of the log."""

    def __init__(self, drift: Drift, seen: Seen, low: float, high: float, ticks: Sequence[tuple[float, str]]) -> None:
        self.seen, self.low, self.high, self.rows = seen, low, high, int(drift.bins[-1])
        self.middles = (drift.bins[:-1] + drift.bins[1:]) / 2
        self.below: list[str] = []
        for value, text in ticks:
            y = self._y(value)
            self.below.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
            self.below.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')

    def limit(self, value: float) -> None:
        y = self._y(value)
        self.below.append(f'<line class="limit" x1="{LEFT}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')

    def known(self, low: float, high: float) -> None:
        top, bottom = self._y(high), self._y(low)
        self.below.append(f'<rect class="known" x="{LEFT}" y="{top:.1f}" width="{WIDTH - LEFT}" height="{bottom - top:.1f}"/>')

    def drawn(self, bands: np.ndarray, marks: Sequence[int]) -> str:
        points = [[f"{self._x(x):.1f},{self._y(y):.1f}" for x, y in zip(self.middles, band, strict=True)] for band in bands.T]
        lines = [f'<line class="mark" x1="{self._x(row):.1f}" x2="{self._x(row):.1f}" y1="0" y2="{HEIGHT}"/>' for row in marks]
        ends = [(LEFT, "start", 0), (WIDTH, "end", self.rows - 1)]
        labels = [
            f'<text x="{x}" y="{HEIGHT + 18}" text-anchor="{anchor}">{escape(self.seen.when(row))}</text>'
            for x, anchor, row in ends
        ]
        axis = f'<line class="axis" x1="{LEFT}" x2="{WIDTH}" y1="{HEIGHT}" y2="{HEIGHT}"/>'
        band = f'<polygon class="band" points="{" ".join([*points[0], *reversed(points[2])])}"/>'
        line = f'<polyline class="line" points="{" ".join(points[1])}"/>'
        whole = "".join([*self.below, axis, band, line, *lines, *labels])
        return f'<svg viewBox="0 {-TOP} {WIDTH + 8} {HEIGHT + BOTTOM + TOP}" role="img">{whole}</svg>'

    def _x(self, row: float) -> float:
        return LEFT + (WIDTH - LEFT) * row / self.rows

    def _y(self, value: float) -> float:
        share = (value - self.low) / ((self.high - self.low) or 1.0)
        return HEIGHT * (1.0 - min(max(share, 0.0), 1.0))

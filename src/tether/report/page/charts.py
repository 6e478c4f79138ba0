"""Charts as inline SVG: lines with bands, and histograms. Colours are classes, so that light and dark are the page's matter.

Sizes are those of a phone's width, where a chart is shown as it is; on a wider screen it is drawn larger.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape

import numpy as np

from tether.report.figures import spell_steps

WIDTH, HEIGHT = 440, 270
LEFT, RIGHT, TOP, BOTTOM = 56, 18, 12, 40
COLOURS = 7  # of page.css; seven further lines are dashed, and seven more are dotted

Spell = Callable[[float], str]


@dataclass(frozen=True)
class Line:
    """One curve, and the band around it."""

    label: str
    x: np.ndarray
    y: np.ndarray
    low: np.ndarray = field(default_factory=lambda: np.zeros(0))
    high: np.ndarray = field(default_factory=lambda: np.zeros(0))
    marked: bool = True  # a dot at every point
    target: str = ""  # the panel of the runs behind it, which a click on the line opens


def line_chart(lines: Sequence[Line], x_label: str, y_label: str, title: str, spell_x: Spell = spell_steps) -> str:
    """All lines over one pair of axes, with a legend below that switches them off and on."""
    xs = np.concatenate([line.x for line in lines])
    ys = np.concatenate([part[np.isfinite(part)] for line in lines for part in (line.y, line.low, line.high)])
    if not len(xs) or not len(ys):
        return ""
    x_ticks, y_ticks = ticks(min(0.0, xs.min()) if xs.min() < 0.2 * xs.max() else xs.min(), xs.max()), ticks(ys.min(), ys.max())
    place_x, place_y = _placing(x_ticks, LEFT, WIDTH - RIGHT), _placing(y_ticks, HEIGHT - BOTTOM, TOP)
    parts = [*_axes(x_ticks, y_ticks, place_x, place_y, x_label, y_label, spell_x)]
    for number, line in enumerate(lines):
        parts.append(_drawn(line, number, place_x, place_y, spell_x))
    return _figure(parts, [line.label for line in lines], title)


def histogram_chart(edges: np.ndarray, shares: dict[str, np.ndarray], x_label: str, title: str) -> str:
    """Outlines over common bins. The edges are spaced by ratio where that is how the bins were made."""
    logarithmic = bool(edges[0] > 0 and len(edges) > 2 and not np.allclose(np.diff(edges), edges[1] - edges[0], rtol=1e-3))
    x = np.log10(edges) if logarithmic else edges
    x_ticks = ticks(x[0], x[-1])
    if logarithmic:
        x_ticks = [tick for tick in x_ticks if float(tick).is_integer()] or x_ticks
    y_ticks = ticks(0.0, max(float(np.max(share)) for share in shares.values()))
    place_x, place_y = _placing([x[0], x[-1]], LEFT, WIDTH - RIGHT), _placing(y_ticks, HEIGHT - BOTTOM, TOP)

    def spell(value: float) -> str:
        return f"{10.0**value:.3g}" if logarithmic else f"{value:.3g}"

    parts = [*_axes(x_ticks, y_ticks, place_x, place_y, x_label, "share of pairs", spell)]
    for number, (kind, share) in enumerate(shares.items()):
        corners = [(place_x(x[0]), place_y(0.0))]
        for left, right, height in zip(x[:-1], x[1:], share, strict=True):
            corners += [(place_x(left), place_y(height)), (place_x(right), place_y(height))]
        corners.append((place_x(x[-1]), place_y(0.0)))
        fill = "band" if number == 0 else "none"
        parts.append(
            f'<g class="series {_colour(number)}" data-series="{number}"><title>{escape(kind)}</title>'
            f'<path class="{fill}" d="{_path(corners)}"/><path class="line" d="{_path(corners)}"/></g>'
        )
    return _figure(parts, list(shares), title)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers from at most `low` to at least `high`."""
    low, high = float(low), float(high)
    if high <= low:
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    rough = (high - low) / (most - 1)
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10, 20) if size * factor >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def _placing(ends: Sequence[float], start: float, stop: float) -> Callable[[float], float]:
    first, span = ends[0], (ends[-1] - ends[0]) or 1.0
    return lambda value: start + (float(value) - first) / span * (stop - start)


def _axes(
    x_ticks: Sequence[float],
    y_ticks: Sequence[float],
    place_x: Callable[[float], float],
    place_y: Callable[[float], float],
    x_label: str,
    y_label: str,
    spell_x: Spell,
) -> list[str]:
    bottom = HEIGHT - BOTTOM
    parts = []
    for tick in y_ticks:
        y = place_y(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick end" x="{LEFT - 6}" y="{y + 4:.1f}">{_number(tick)}</text>')
    for tick in x_ticks:
        if LEFT - 1 <= place_x(tick) <= WIDTH - RIGHT + 1:
            parts.append(f'<text class="tick middle" x="{place_x(tick):.1f}" y="{bottom + 16}">{escape(spell_x(tick))}</text>')
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}"/>')
    parts.append(f'<text class="label middle" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}">{escape(x_label)}</text>')
    middle = (TOP + bottom) / 2
    turned = f'transform="rotate(-90 12 {middle})"'
    parts.append(f'<text class="label middle" x="12" y="{middle}" {turned}>{escape(y_label)}</text>')
    return parts


def _drawn(line: Line, number: int, place_x: Callable[[float], float], place_y: Callable[[float], float], spell_x: Spell) -> str:
    parts = [f'<g class="series {_colour(number)}" data-series="{number}">']
    parts += [f'<a href="#{line.target}" aria-label="runs of {escape(line.label)}">'] if line.target else []
    if len(line.low):
        there = [(place_x(x), place_y(y)) for x, y in zip(line.x, line.high, strict=True)]
        back = [(place_x(x), place_y(y)) for x, y in zip(line.x, line.low, strict=True)]
        parts.append(f'<path class="band" d="{_path([*there, *reversed(back)])}Z"/>')
    points = [(place_x(x), place_y(y)) for x, y in zip(line.x, line.y, strict=True) if np.isfinite(y)]
    parts.append(f'<path class="line" d="{_path(points)}"/>')
    if line.marked:
        for index, (x, y) in enumerate(zip(line.x, line.y, strict=True)):
            if not np.isfinite(y):
                continue
            between = f" [{line.low[index]:.1f}, {line.high[index]:.1f}]" if len(line.low) else ""
            told = escape(f"{line.label}: {y:.1f}{between} at {spell_x(x)}")
            parts.append(f'<circle cx="{place_x(x):.1f}" cy="{place_y(y):.1f}" r="2.5"><title>{told}</title></circle>')
    return "".join([*parts, "</a>" if line.target else "", "</g>"])


def _figure(parts: Sequence[str], labels: Sequence[str], title: str) -> str:
    legend = "".join(
        f'<button type="button" class="key {_colour(number)}" data-series="{number}" aria-pressed="true">'
        f"<i></i>{escape(label)}</button>"
        for number, label in enumerate(labels)
    )
    drawing = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>'
    return f'<figure class="chart"><figcaption>{escape(title)}</figcaption>{drawing}<div class="keys">{legend}</div></figure>'


def _colour(number: int) -> str:
    return f"c{number % COLOURS}" + ("", " dashed", " dotted")[number // COLOURS % 3]


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "".join(f"{'L' if index else 'M'}{x:.1f} {y:.1f}" for index, (x, y) in enumerate(points))


def _number(value: float) -> str:
    return spell_steps(value) if abs(value) >= 1e4 else f"{value:g}"

"""How far a long job is: a live display in a terminal, a plain line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress, TaskID

SECONDS_BETWEEN_LINES = 10.0


class Bar(Protocol):
    """What the job sees of its progress display."""

    def update(self, step: int, **fields: float | str) -> None:
        """The job is at `step`; show these values, and those given before under other names."""


class BarWithParts(Protocol):
    """The same of a job that is made of others."""

    def update(self, step: int, **fields: float | str) -> None:
        """As above."""

    def show_parts(self, parts: Sequence[str]) -> None:
        """How far those are that are under way, a line each; in a log there is no room for them."""

    def set_total(self, total: int) -> None:
        """There is less to do than was thought: a part has been given up."""

    def seconds_left(self) -> float | None:
        """At the rate so far; None where there is none yet, or nothing is shown."""


@contextmanager
def progress(
    title: str,
    total: int,
    unit: str = "steps",
    *,
    start: int = 0,
    enabled: bool = True,
    file: IO[str] | None = None,
    seconds_between_lines: float = SECONDS_BETWEEN_LINES,
) -> Iterator[BarWithParts]:
    """Show a job of `total` steps, on stderr unless told otherwise. A resumed job is at `start`, which its rate leaves out."""
    from rich.console import Console

    console = Console(file=file or sys.stderr)
    if not enabled:
        yield _Silence()
    elif console.is_terminal and not console.is_dumb_terminal and not console.is_jupyter:
        from rich.live import Live

        display = _live_display(title, total, unit, start)
        with Live(get_renderable=display.render, console=console, refresh_per_second=4):
            yield display
    else:
        lines = _Lines(title, total, unit, start, console.file, seconds_between_lines)
        try:
            yield lines
        finally:
            lines.print()


@dataclass
class _Silence:
    def update(self, step: int, **fields: float | str) -> None:
        pass

    def show_parts(self, parts: Sequence[str]) -> None:
        pass

    def set_total(self, total: int) -> None:
        pass

    def seconds_left(self) -> None:
        return None


@dataclass
class _Lines:
    """One line at most every few seconds, and one at the end."""

    title: str
    total: int
    unit: str
    start: int
    file: IO[str]
    seconds_between_lines: float
    fields: dict[str, float | str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.step = self.start
        self.began = self.printed = time.monotonic()
        self.counted_from: tuple[float, int] | None = (self.began, self.start)  # time and step; None: until the first is done

    def update(self, step: int, **fields: float | str) -> None:
        """Told that nothing is done yet, the rate leaves out that time: a sweep begins with a fit, and minutes without a step."""
        if step == self.start:
            self.counted_from = None
        elif self.counted_from is None:
            self.counted_from = time.monotonic(), step
        self.step = step
        self.fields |= fields
        if time.monotonic() - self.printed >= self.seconds_between_lines:
            self.print()

    def show_parts(self, parts: Sequence[str]) -> None:
        pass

    def set_total(self, total: int) -> None:
        self.total = total

    def seconds_left(self) -> float | None:
        rate = self._rate(time.monotonic())
        return (self.total - self.step) / rate if rate > 0 else None

    def _rate(self, now: float) -> float:
        since, first = self.counted_from or (now, self.step)
        return (self.step - first) / (now - since) if now > since else 0.0

    def print(self) -> None:
        self.printed = time.monotonic()
        rate = self._rate(self.printed)
        parts = [f"{self.title}: {self.step:,}/{self.total:,} {self.unit}", _clock(self.printed - self.began)]
        if rate > 0:
            parts.append(f"{_number(rate)} {self.unit}/s")
            if self.step < self.total:
                parts.append(f"{_clock((self.total - self.step) / rate)} left")
        print("  ".join([*parts, _spell(self.fields)]).rstrip(), file=self.file, flush=True)


@dataclass
class _Display:
    """A bar with the rate and the time left; below it the time spent and the latest fields, then its parts. Fits 80 columns."""

    bar: Progress
    task: TaskID
    fields: dict[str, float | str] = field(default_factory=dict)
    parts: Sequence[str] = ()

    def update(self, step: int, **fields: float | str) -> None:
        self.fields |= fields
        self.bar.update(self.task, completed=step)
        speed = self.bar.tasks[0].speed
        self.bar.update(self.task, rate=f"{_number(speed)}/s" if speed else "")

    def show_parts(self, parts: Sequence[str]) -> None:
        self.parts = parts

    def set_total(self, total: int) -> None:
        self.bar.update(self.task, total=total)

    def seconds_left(self) -> float | None:
        return self.bar.tasks[0].time_remaining

    def render(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        elapsed = _clock(self.bar.tasks[0].elapsed or 0.0)
        lines = [f"  {elapsed}  {_spell(self.fields)}", *(f"  {part}" for part in self.parts)]
        return Group(self.bar, *(Text(line, style="dim", no_wrap=True, overflow="ellipsis") for line in lines))


def _live_display(title: str, total: int, unit: str, start: int) -> _Display:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=16),
        TextColumn(f"{{task.completed:,}}/{{task.total:,}} {unit}"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("left"),
        auto_refresh=False,  # Live draws it
        speed_estimate_period=120.0,  # an epoch, and so the time between updates, may last a good part of a minute
    )
    return _Display(bar, bar.add_task(title, total=total, completed=start, rate=""))


def _spell(fields: dict[str, float | str]) -> str:
    parts = (f"{name.replace('_', ' ')} {value if isinstance(value, str) else _number(value)}" for name, value in fields.items())
    return "  ".join(parts)


def _number(value: float) -> str:
    """Three digits that matter, and no exponent for what fits in a word."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.3g}"


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"

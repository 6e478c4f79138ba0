"""What is behind a number: its runs, their settings, the command that makes them again, versions and hashes."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

from tether.report.gathered import Group
from tether.report.tables import run_row
from tether.runs.reading import Run


def runs_section(group: Group, name: str, others: Sequence[Group], policy: str | None) -> str:
    """A group's runs, closed until a number that comes from them is clicked. `name` is the section's in the page."""
    first = group.runs[0]
    seeds = f"{group.seeds} seeds" if len(group.runs) + group.missing > 1 else "1 run"
    rows = "".join(_run_line(run, policy) for run in group.runs)
    differs = differing(group, others)
    told = "; ".join(f"{key} = {value}" for key, value in differs.items())
    return (
        f'<details class="runs" id="{name}"><summary>{escape(group.label)}: {seeds}</summary>'
        + _runs_table(rows)
        + (f"<p>Differs from the others of {escape(group.method)} here in: <code>{escape(told)}</code></p>" if told else "")
        + f"<p>Makes them again:</p><pre>{escape(command(group))}</pre>"
        + _facts_table("dataset", _dataset(first))
        + _facts_table("versions", _versions(group))
        + _facts_table("settings", dict(settings(first.config)))
        + "</details>"
    )


def all_runs_section(groups: Sequence[Group], name: str, panels: Sequence[str], policy: str | None) -> str:
    """One method's runs on several tasks, and from each task to its panel, with settings, command and versions."""
    rows = "".join(_run_line(run, policy) for group in groups for run in group.runs)
    tasks = ", ".join(f'<a href="#{panel}">{escape(group.task)}</a>' for group, panel in zip(groups, panels, strict=True))
    number = sum(len(group.runs) for group in groups)
    return (
        f'<details class="runs" id="{name}"><summary>{escape(groups[0].label)}: {number} runs on {len(groups)} tasks</summary>'
        f"{_runs_table(rows)}<p>Settings, command and versions: {tasks}</p></details>"
    )


def _runs_table(rows: str) -> str:
    return (
        '<div class="scroll"><table><thead><tr><th>run</th><th>seed</th><th>last</th><th>last ten</th><th>best</th>'
        f"<th>steps</th><th>time</th><th>result.json, sha256</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )


def command(group: Group) -> str:
    """With every setting spelt out, so that it says the same whatever later versions take for usual."""
    run = group.runs[0]
    if run.config.get("online") or run.config.get("start"):
        return "\n".join(_going_on(each.config) for each in group.runs)
    seeds = sorted(int(run.config.get("seed", 0)) for run in group.runs)
    words = ["tether", "train", "--dataset", str(run.config.get("dataset")), "--agent", group.agent, "--bonus", group.bonus]
    words += ["--seed", str(seeds[0])] if len(seeds) == 1 else ["--seeds", ",".join(map(str, seeds))]
    lines = [shlex.join(words)]
    pairs = [f"{key}={value}" for key, value in settings(run.config) if "." in key and not key.endswith(".name") and value != ""]
    if pairs:
        lines.append("    --set " + " \\\n        ".join(shlex.quote(pair) for pair in pairs))
    return " \\\n".join(lines)


_FLAGS = {"anneal_steps": "anneal", "exploration_noise": "noise", "env_id": "env"}


def _going_on(config: dict[str, Any]) -> str:
    """The command of one run that went on from another; the run before it has its own."""
    start, online = config.get("start") or {}, config.get("online")
    words = ["tether", "finetune", start.get("run", "RUN"), "--seed", str(config.get("seed", 0))]
    if online:
        for key, value in online.items():
            words += [f"--{_FLAGS.get(key, key).replace('_', '-')}", str(value)]
        words += [] if start else ["--fresh"]
    else:
        steps = config.get("training", {}).get("steps", 0) - start.get("step", 0)
        words += ["--log", str(start.get("log", "")).split(" + ")[-1], "--steps", str(steps)]
    known = {key: value for key, value in settings(config) if key.partition(".")[0] in ("agent", "training", "evaluation")}
    fixed = ("agent.name", "training.steps", "evaluation.env_id")
    pairs = [shlex.quote(f"{key}={value}") for key, value in known.items() if key not in fixed and value != ""]
    return " \\\n".join([shlex.join(words), "    --set " + " \\\n        ".join(pairs)])


def settings(config: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """By dotted name, as `--set` takes them."""
    for key, value in config.items():
        if isinstance(value, dict):
            yield from settings(value, f"{prefix}{key}.")
        elif isinstance(value, list):
            yield prefix + key, ",".join(map(str, value))
        else:
            yield prefix + key, str(value)


def differing(group: Group, others: Sequence[Group]) -> dict[str, str]:
    """The settings of a group that not all others of its agent and bonus share."""
    mine = dict(settings(group.runs[0].config))
    theirs = [dict(settings(o.runs[0].config)) for o in others if o is not group and o.method == group.method]
    return {
        key: value
        for key, value in mine.items()
        if key not in ("seed", "dataset") and any(other.get(key) != value for other in theirs)
    }


def _run_line(run: Run, policy: str | None) -> str:
    assert run.result is not None
    row = run_row("", run, policy)
    scores = "".join(f"<td>{escape(str(row.scores.get(title, '–')))}</td>" for title in ("last", "last ten", "best"))
    seconds, resumed = run.result.get("wall_time_seconds"), run.result.get("resumed_from_step")
    others = max((len(sitting["seeds"]) - 1 for sitting in run.result.get("together", ())), default=0)
    steps, whole = run.config.get("training", {}).get("steps"), _sha256(run.path / "result.json")
    facts = [
        f"{steps:,}" if isinstance(steps, int) else "",
        ("" if seconds is None else f"{seconds / 60:,.0f} min")
        + (f", resumed from {resumed:,}" if resumed else "")
        + (f", in one program with {others} other seed{'s' * (others > 1)}" if others else ""),
        f'<code title="{whole}">{whole[:16]}</code>',
    ]
    cells = "".join(f"<td>{fact}</td>" for fact in facts)
    return f"<tr><td><code>{escape(run.path.as_posix())}</code></td><td>{run.config.get('seed', '')}</td>{scores}{cells}</tr>"


def _dataset(run: Run) -> dict[str, str]:
    assert run.result is not None
    data = run.result["dataset"]
    told = {key: data[key] for key in ("name", "env_id", "transitions", "episodes", "sha256") if data.get(key) is not None}
    return {key: f"{value:,}" if isinstance(value, int) else str(value) for key, value in told.items()}


def _versions(group: Group) -> dict[str, str]:
    """Of all runs; one that they do not share is listed with every value."""
    found: dict[str, list[str]] = {}
    for run in group.runs:
        for package, version in (run.result or {}).get("versions", {}).items():
            if version not in found.setdefault(package, []):
                found[package].append(str(version))
    return {package: ", ".join(versions) for package, versions in found.items()}


def _facts_table(title: str, facts: dict[str, str]) -> str:
    if not facts:
        return ""
    rows = "".join(f"<tr><th>{escape(key)}</th><td><code>{escape(value)}</code></td></tr>" for key, value in facts.items())
    return f'<details class="facts"><summary>{title}</summary><div class="scroll"><table>{rows}</table></div></details>'


def _sha256(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""

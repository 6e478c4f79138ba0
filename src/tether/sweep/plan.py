"""A plan: one TOML file that stands for many runs. Whatever is wrong in it is said with the file, the key and what would do."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tether.errors import TetherError
from tether.presets import PRESETS
from tether.sweep.tables import Table, flat, quotes_advice
from tether.sweep.variants import SAFE, WAYS, Variant, read_variants

SCORES = ("last", "last_ten")  # "best" would choose with the simulator that offline learning does not have
PER = ("dataset", "group", "all")
FITS = ("shared", "own")  # of a bonus, by all seeds of an agent or by each seed
KEYS = (
    *("name", "out", "datasets", "agents", "bonuses", "preset", "steps", "seeds", "fits", "settings"),
    *WAYS,
    *("choose", "final"),
)
LEAST = 'at the least the line datasets = ["halfcheetah-mixed-tether"]'


@dataclass(frozen=True)
class Choice:
    """How the winner among variants is found."""

    by: str = "last"
    policy: str = ""  # empty: each run's own
    per: str = "dataset"
    seeds: tuple[int, ...] = ()  # of the runs that are compared; empty: all of the plan


@dataclass(frozen=True)
class Plan:
    path: Path
    name: str
    out: Path
    datasets: tuple[str, ...]
    agents: tuple[str, ...] = ()  # none named: the preset's usual one
    bonuses: tuple[str, ...] = ()  # none named: each agent's usual one
    preset: str = PRESETS[0]
    seeds: tuple[int, ...] = (0,)
    fits: str = FITS[0]
    settings: dict[str, Any] = field(default_factory=dict)
    variants: tuple[Variant, ...] = (Variant(""),)
    choose: Choice | None = None
    final_seeds: tuple[int, ...] = ()  # of the runs with the chosen settings

    def runs_on(self, variant: Variant, dataset: str, seed: int) -> bool:
        """Whether the plan has a run of a variant on a dataset with a seed of its search."""
        return (not variant.datasets or dataset in variant.datasets) and (not variant.seeds or seed in variant.seeds)

    def refusal(self, key: str, what: str) -> TetherError:
        return TetherError(f"{self.path}: {key}: {what}")


def read_plan(path: Path, out: Path | None = None) -> Plan:
    """The plan in a file. `out` goes before the folder that it names."""
    try:
        text = path.read_text(encoding="utf-8-sig")  # as editors of Windows write it, with a mark before it
    except FileNotFoundError:
        raise TetherError(f"there is no plan {path}; it is a TOML file, {LEAST}") from None
    except IsADirectoryError:
        advice = f"`tether report {path}` tells what runs lie in it"
        raise TetherError(f"{path} is a folder, and a plan is a TOML file, {LEAST}; {advice}") from None
    except OSError as error:
        raise TetherError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TetherError(f"{path} is not valid TOML: {error}") from error
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TetherError(f"{path} is not valid TOML: {error}{quotes_advice(text, str(error))}") from error
    table = Table(path, content, KEYS)
    name = table.text("name", path.stem)
    if not SAFE.fullmatch(name):
        raise table.wrong("name", f"is {name!r}; it takes letters, digits and . _ -")
    datasets = table.texts("datasets")
    if not datasets:
        raise TetherError(f'{path} names no datasets; datasets = ["halfcheetah-mixed-tether"] would do')
    settings = flat(content.get("settings", {}), "settings", path)
    steps = table.whole("steps")
    if steps is not None:
        if "training.steps" in settings:
            raise table.wrong(
                "steps", f"is {steps}, and settings.training.steps {settings['training.steps']}; leave one of them out"
            )
        settings["training.steps"] = steps
    choose, final_seeds = _read_choice(path, content, seeds := table.seeds("seeds", (0,)))
    return Plan(
        path=path,
        name=name,
        out=out or Path(table.text("out", f"runs/{name}")).expanduser(),
        datasets=datasets,
        agents=table.texts("agents", Plan.agents),
        bonuses=table.texts("bonuses"),
        preset=table.text("preset", Plan.preset, PRESETS),
        seeds=seeds,
        fits=table.text("fits", Plan.fits, FITS),
        settings=settings,
        variants=read_variants(path, content, datasets, seeds),
        choose=choose,
        final_seeds=final_seeds,
    )


def _read_choice(path: Path, content: dict[str, Any], seeds: tuple[int, ...]) -> tuple[Choice | None, tuple[int, ...]]:
    """How to choose, and the seeds of the final runs, which are none of those chosen on."""
    if "choose" not in content:
        if "final" in content:
            raise TetherError(f"{path}: [final] has the chosen settings, and there is no [choose]; {_example_choice()}")
        return None, ()
    table = Table(path, content["choose"], ("by", "policy", "per", "seeds"), "choose.")
    choice = Choice(
        by=table.text("by", Choice.by, SCORES),
        policy=table.text("policy", ""),
        per=table.text("per", Choice.per, PER),
        seeds=table.seeds("seeds", seeds),
    )
    strange = [seed for seed in choice.seeds if seed not in seeds]
    if strange:
        raise table.wrong("seeds", f"has {strange[0]}, of which the plan has no runs; its seeds are {list(seeds)}")
    if "final" not in content:
        return choice, ()
    final = Table(path, content["final"], ("seeds",), "final.")
    final_seeds = final.seeds("seeds")
    if not final_seeds:
        raise TetherError(f"{path}: [final] names no seeds; seeds = [10, 11, 12] would do")
    shared = [seed for seed in final_seeds if seed in seeds]
    if shared:
        raise final.wrong("seeds", f"has {shared[0]}, which the choice has seen; fresh ones are not among {list(seeds)}")
    return choice, final_seeds


def _example_choice() -> str:
    return 'by = "last" and per = "group" in [choose] would do'

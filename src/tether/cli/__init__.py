"""The `tether` command: finds the function of a subcommand, lets tyro read its arguments, turns errors into exit codes.

A command is a plain function whose annotated arguments and docstring are its interface. Its module is imported only when it
is called or listed, and imports JAX and the like inside the function, so that `tether --help` answers at once.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable

from tether.errors import TetherError, did_you_mean

COMMANDS = {
    "train": "tether.cli.train:train",
    "sweep": "tether.cli.sweep:sweep",
    "sweep status": "tether.cli.sweep:status",
    "finetune": "tether.cli.finetune:finetune",
    "evaluate": "tether.cli.evaluate:evaluate",
    "select": "tether.cli.select:select",
    "verdict": "tether.cli.verdict:verdict",
    "collect": "tether.cli.collect:collect",
    "report": "tether.cli.report:report",
    "bonus": "tether.cli.bonus:bonus",
    "export": "tether.cli.export:export",
    "familiarity": "tether.cli.familiarity:familiarity",
    "serve": "tether.cli.serve:serve",
    "watch": "tether.cli.watch:watch",
    "data info": "tether.cli.data.info:info",
    "data list": "tether.cli.data.listing:list_datasets",
    "data download": "tether.cli.data.download:download",
    "data split": "tether.cli.data.split:split",
    "data concat": "tether.cli.data.concat:concat",
    "data subsample": "tether.cli.data.subsample:subsample",
    "data filter": "tether.cli.data.filter:filter_episodes",
    "data import": "tether.cli.data.importing:import_tables",
    "data export": "tether.cli.data.export:export",
    "data minari": "tether.cli.data.minari:minari",
    "demo": "tether.cli.demo:demo",
    "theory": "tether.cli.theory:theory",
    "bench": "tether.cli.bench:bench",
}

# What a command's --help adds below its arguments.
MORE_HELP = {"train": "tether.cli.train:settings_help"}

HELP = """\
Tether: offline reinforcement learning that stays near its data, by subtracting an exploration bonus.

usage: tether COMMAND [OPTIONS]

commands:
{commands}

options:
  -h, --help      show this, or after a command what it takes
  --version       show the version

examples:
  tether data info halfcheetah-mixed-tether
  tether train --dataset halfcheetah-mixed-tether --run-dir runs/first
  tether evaluate runs/first --episodes 10
"""


def main(argv: list[str] | None = None) -> int:
    """Run one command line and give its exit code: 0, 2 for what the user can mend, 130 when interrupted."""
    try:
        code = _run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()  # here, where a reader who has left can still be handled
        return code
    except TetherError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Python flushes stdout once more as it ends; give it a place to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # as the shell counts a death by SIGPIPE


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(HELP.format(commands=_list_commands(COMMANDS)), end="")
    elif arguments[0] == "--version":
        print(f"tether {_version()}")
    else:
        name, rest = _find_command(arguments)
        if name in COMMANDS:
            return _call(name, rest)
        print(f"usage: tether {name} COMMAND [OPTIONS]\n\ncommands:\n{_list_commands(_group(name))}")
    return 0


def _find_command(arguments: list[str]) -> tuple[str, list[str]]:
    """The command, or the group when that is all that was given, and the arguments after it."""
    first, *rest = arguments
    if rest and f"{first} {rest[0]}" in COMMANDS:
        return f"{first} {rest[0]}", rest[1:]
    if first in COMMANDS:
        return first, rest
    group = _group(first)
    if not group:
        raise TetherError(f"there is no command {first}{did_you_mean(first, {name.split()[0] for name in COMMANDS})}")
    if not rest or rest[0] in ("-h", "--help"):
        return first, []
    name = f"{first} {rest[0]}"
    raise TetherError(f"there is no command {name}{did_you_mean(name, group)}")


def _group(first: str) -> list[str]:
    return [name for name in COMMANDS if name.startswith(f"{first} ")]


def _call(name: str, arguments: list[str]) -> int:
    import tyro

    function = _load(name)
    # Everything above the arguments, with its line breaks: left to itself tyro drops the section of examples.
    description = (inspect.getdoc(function) or "").split("\nArgs:\n")[0].strip()
    markers = (tyro.conf.DisallowNone, tyro.conf.FlagCreatePairsOff, tyro.conf.PositionalMetavarFromFieldName)
    try:
        tyro.cli(function, prog=f"tether {name}", description=description, args=arguments, config=markers)
    except SystemExit as end:  # after --help, or arguments that cannot be read
        if not end.code and name in MORE_HELP:
            print(_import(MORE_HELP[name])())
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _list_commands(names: list[str] | dict[str, str]) -> str:
    return "\n".join(f"  {name:14}  {(inspect.getdoc(_load(name)) or '').splitlines()[0]}" for name in names)


def _load(name: str) -> Callable[..., object]:
    return _import(COMMANDS[name])


def _import(address: str) -> Callable[..., object]:
    module, function = address.split(":")
    return getattr(importlib.import_module(module), function)


def _version() -> str:
    from importlib.metadata import version

    return version("tether-rl")

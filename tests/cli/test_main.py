"""The `tether` command: what it shows, what it imports, and how each way of failing ends."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tether import cli

VERSION = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text())["project"]["version"]

SAMPLE = '''
from tether.errors import TetherError

def sample(source: str, /, how: str = "well", steps: int | None = None, loud: bool = False) -> int:
    """Do a sample thing.

    It takes
    a while.

    Examples:
        tether sample x --how badly
        tether sample y \\\\
            --loud

    Args:
        source: What to do it to.
        how: In which way to end.
        steps: How often.
        loud: Whether to say more.
    """
    if how == "badly":
        raise TetherError("no thing x; did you mean y?")
    if how == "broken":
        raise RuntimeError("a bug")
    if how == "interrupted":
        raise KeyboardInterrupt
    print(f"{source} {how} {steps} {loud}")
    while how == "endless":
        print("and again")
    return 7
'''


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "sample_command.py").write_text(SAMPLE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(cli.COMMANDS, "sample", "sample_command:sample")
    monkeypatch.setitem(cli.COMMANDS, "group one", "sample_command:sample")
    return tmp_path


@pytest.mark.parametrize("arguments", [[], ["-h"], ["--help"]])
def test_help_names_every_command_and_gives_examples(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    assert cli.main(arguments) == 0
    shown = capsys.readouterr().out
    for name in cli.COMMANDS:
        assert f"\n  {name} " in shown
    assert shown.count("\n  tether ") == 3


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_is_documented_with_examples(name: str):
    module, function_name = cli.COMMANDS[name].split(":")
    function = getattr(importlib.import_module(module), function_name)
    doc = inspect.getdoc(function) or ""
    assert len(doc.splitlines()[0]) <= 100
    assert f"\nExamples:\n    tether {name}" in doc
    for argument in inspect.signature(function).parameters:
        assert f"\n    {argument}: " in doc


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_shows_its_help(name: str, capsys: pytest.CaptureFixture[str]):
    assert cli.main([*name.split(), "--help"]) == 0
    assert f"Examples:\n    tether {name}" in capsys.readouterr().out


def test_help_imports_no_jax_but_where_the_settings_are_listed():
    script = """
import sys
from tether.cli import COMMANDS, MORE_HELP, main
for command in ["", *(COMMANDS.keys() - MORE_HELP.keys())]:
    assert main([*command.split(), "--help"]) == 0
print("loaded:", [name for name in ("jax", "equinox", "matplotlib", "mujoco", "h5py") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "loaded: []"


def test_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"tether {VERSION}\n"


def test_python_dash_m_is_the_same_command():
    done = subprocess.run([sys.executable, "-m", "tether", "--version"], check=True, capture_output=True, text=True)
    assert done.stdout == f"tether {VERSION}\n"


def test_arguments_reach_the_function(sample: Path, capsys: pytest.CaptureFixture[str]):
    assert cli.main(["sample", "x", "--steps", "3", "--loud"]) == 0
    assert capsys.readouterr().out == "x well 3 True\n"


def test_help_of_a_command_keeps_its_examples_line_by_line(sample: Path, capsys: pytest.CaptureFixture[str]):
    assert cli.main(["sample", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "\nDo a sample thing.\n\nIt takes a while.\n\n" in shown
    assert "\nExamples:\n    tether sample x --how badly\n    tether sample y \\\n        --loud\n" in shown
    assert "Args:" not in shown
    for text in ("SOURCE", "What to do it to.", "--how STR", "--steps INT", "(default: well)"):
        assert text in shown


@pytest.mark.parametrize("arguments", [["group"], ["group", "--help"]])
def test_a_group_lists_its_commands(sample: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]):
    assert cli.main(arguments) == 0
    assert "\n  group one       Do a sample thing.\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sampel"], "error: there is no command sampel; did you mean sample?\n"),
        (["--sample"], "error: there is no command --sample; did you mean sample?\n"),
        (["group", "won"], "error: there is no command group won; did you mean group one?\n"),
        (["sample", "x", "--how", "badly"], "error: no thing x; did you mean y?\n"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    sample: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
):
    assert cli.main(arguments) == 2
    assert capsys.readouterr() == ("", message)


@pytest.mark.parametrize("arguments", [["sample"], ["sample", "x", "--stepz", "3"], ["sample", "x", "--steps", "many"]])
def test_arguments_that_cannot_be_read_are_exit_code_2(sample: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]):
    assert cli.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err


def test_a_bug_keeps_its_traceback(sample: Path):
    with pytest.raises(RuntimeError, match="a bug"):
        cli.main(["sample", "x", "--how", "broken"])


def test_an_interruption_is_one_line_and_exit_code_130(sample: Path, capsys: pytest.CaptureFixture[str]):
    assert cli.main(["sample", "x", "--how", "interrupted"]) == 130
    assert capsys.readouterr() == ("", "interrupted\n")


@pytest.mark.parametrize("arguments", ["x", "x --how endless", "--help"])
def test_a_reader_who_leaves_early_is_no_error(sample: Path, arguments: str):
    script = """
import sys
sys.path.insert(0, sys.argv[1])
from tether import cli
cli.COMMANDS["sample"] = "sample_command:sample"
sys.stdin.read()  # until the reader of stdout has left
sys.exit(cli.main(["sample", *sys.argv[2:]]))
"""
    command = [sys.executable, "-c", script, str(sample), *arguments.split()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        process.stdin.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=20) == 141

"""The command ``rulerlib COMMAND ...``, and what its parts share.

Each command is a module with a function ``main``. An error of the user is one line on standard
error.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import rulerlib
from rulerlib import packages
from rulerlib.errors import MissingExtraError, ParameterError, RulerError, one_of

WRONG = 2
"""The exit code after an error of rulerlib."""

STOPPED = 128 + 2
"""The exit code after Ctrl-C (SIGINT is 2)."""


class Command(NamedTuple):
    """A command: its description, and the module with its ``main``."""

    does: str
    module: str


COMMANDS = {
    "make": Command("write questions into a folder", "rulerlib.making"),
    "run": Command("execute a notebook: ask a model, and see what came of it", "rulerlib.commands"),
    "compare": Command("tell whether a change made a model worse", "rulerlib.compare"),
    "effective": Command("find out how far a model can be used", "rulerlib.effective"),
    "export": Command("write questions for another harness", "rulerlib.export.formats"),
    "explore": Command("write a site that shows every answer", "rulerlib.explore.site"),
    "memory": Command("ask a model with memories", "rulerlib.memory.bench"),
}
"""All commands by name."""


Main = Callable[..., int]
"""Runs a command line, by default that of this process, and returns the exit code."""


def command(main: Main) -> Main:
    """Decorate a ``main``: print errors of rulerlib as one line, and Ctrl-C without a traceback."""

    @functools.wraps(main)
    def ended(arguments: Sequence[str] | None = None) -> int:
        try:
            return main(arguments)
        except RulerError as error:
            print(error, file=sys.stderr)
            return WRONG
        except KeyboardInterrupt:
            print("\nStopped; completed answers are stored.", file=sys.stderr)
            return STOPPED

    return ended


def parser(module: str, usage: str, about: str, example: str) -> argparse.ArgumentParser:
    """Return an argument parser for the command of a module.

    Parameters
    ----------
    usage, example
        The arguments after the command's name, in general and in an example.
    about
        The description of the command.
    """
    modules = {row.module.removesuffix(".__main__"): name for name, row in COMMANDS.items()}
    prog = f"rulerlib {modules[module]}"
    return argparse.ArgumentParser(
        prog=prog,
        usage=f"%(prog)s {usage}",
        description=about,
        epilog=f"example:\n  {prog} {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return the exit code."""
    given = [*(sys.argv[1:] if arguments is None else arguments)]
    if not given or given[0] in ("-h", "--help"):
        print("usage: rulerlib COMMAND ...; rulerlib COMMAND --help lists its arguments.\n")
        print("\n".join(f"  {name:10} {row.does}" for name, row in COMMANDS.items()))
        print("\nexample:\n  rulerlib run niah --length 2048")
        return 0 if given else 2
    if given[0] == "--version":
        print(f"rulerlib {rulerlib.__version__}")
        return 0
    name = one_of("command", given[0], COMMANDS)
    if name == "run":
        return execute(given[1:])
    try:
        module = importlib.import_module(COMMANDS[name].module)
    except ModuleNotFoundError as error:
        raise MissingExtraError(str(error.name), "notebook", f"'rulerlib {name}'") from error
    return int(module.main(given[1:]))


def notebooks() -> Path:
    """Return the folder of the notebooks: in the package of a wheel, otherwise next to it."""
    here = Path(__file__).parent
    inside = here / "notebooks"
    return inside if inside.is_dir() else here.parent / "notebooks"


def execute(arguments: Sequence[str]) -> int:
    """Execute a notebook of the project with papermill, and return papermill's exit code.

    Raises
    ------
    ParameterError
        If there is no such notebook.
    MissingExtraError
        If papermill is not installed.
    """
    options = parser(
        "rulerlib.commands",
        "NOTEBOOK [OUT] [--PARAMETER VALUE] [papermill's options]",
        "Execute the notebook of a task or study. Each parameter of the notebook is an\n"
        "option, such as --length 8192. Other options are papermill's, such as -f FILE\n"
        "for a file of parameters.",
        "niah runs/niah.ipynb --model smollm2 --language en",
    )
    there = {path.stem: path for path in sorted(notebooks().glob("*.ipynb"))}
    options.add_argument("notebook", help=f"one of {', '.join(there)}")
    options.add_argument("out", nargs="?", help="the executed notebook (runs/NOTEBOOK.ipynb)")
    if "-h" in arguments or "--help" in arguments:
        arguments = ["--help"]
    # argparse would read the value of an unknown option as OUT.
    count = 2 if len(arguments) > 1 and not arguments[1].startswith("-") else 1
    given, further = options.parse_args(arguments[:count]), arguments[count:]
    if not there:
        raise ParameterError("notebook", given.notebook, "run where notebooks are installed")
    notebook = there[one_of("notebook", Path(given.notebook).stem, there)]
    papermill = packages.load("papermill.cli", "notebook", "Executing a notebook").papermill
    theirs = {option for item in papermill.params for option in item.opts + item.secondary_opts}
    further = _with_parameters(further, parameters(notebook), theirs)
    out = Path(given.out or f"runs/{notebook.name}")
    out.parent.mkdir(parents=True, exist_ok=True)
    return subprocess.call([sys.executable, "-m", "papermill", str(notebook), str(out), *further])


def parameters(notebook: Path) -> list[str]:
    """Return the names in the cell of a notebook that is tagged ``parameters``."""
    for cell in json.loads(notebook.read_text("utf-8"))["cells"]:
        if "parameters" in cell["metadata"].get("tags", []):
            return re.findall(r"^(\w+) *=", "".join(cell["source"]), re.MULTILINE)
    return []


def _with_parameters(
    arguments: Sequence[str], names: Sequence[str], theirs: Collection[str]
) -> list[str]:
    """Return papermill's arguments: ``--NAME VALUE`` of a parameter becomes ``-p NAME VALUE``.

    The parameters ``engine`` and ``language`` take precedence over papermill's options.
    """
    made = list[str]()
    for argument in arguments:
        option, equals, value = argument.partition("=")
        name = option.removeprefix("--").replace("-", "_")
        if not option.startswith("--") or (name not in names and option in theirs):
            made.append(argument)
        else:
            one_of("option", f"--{name}", [f"--{each}" for each in names])
            made += ["-p", name, *([value] if equals else [])]
    return made

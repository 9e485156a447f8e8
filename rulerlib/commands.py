"""The command ``rulerlib COMMAND ...``, and what its parts share.

Each command is a module with a function ``main``. An error of the user is one line on standard
error.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import rulerlib
from rulerlib.errors import MissingExtraError, RulerError, load_package, one_of

WRONG = 2
"""The exit code after an error of rulerlib."""

STOPPED = 128 + 2
"""The exit code after Ctrl-C (SIGINT is 2)."""


COMMANDS = {
    "run": ("execute a notebook: ask a model, and see what came of it", "rulerlib.commands"),
    "compare": ("tell whether a change made a model worse", "rulerlib.compare"),
    "effective": ("find out how far a model can be used", "rulerlib.effective"),
    "export": ("write questions for any harness", "rulerlib.export.formats"),
    "explore": ("write a site that shows every answer", "rulerlib.explore.site"),
    "memory": ("ask a model with memories", "rulerlib.memory.bench"),
}
"""What each command does, and the module with its ``main``, by name."""


def command(main: Callable[..., int]) -> Callable[..., int]:
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
    (name,) = (name for name, (_, its_module) in COMMANDS.items() if its_module == module)
    return argparse.ArgumentParser(
        prog=f"rulerlib {name}",
        usage=f"%(prog)s {usage}",
        description=about,
        epilog=f"example:\n  rulerlib {name} {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return the exit code."""
    given = [*(sys.argv[1:] if arguments is None else arguments)]
    if not given or given[0] in ("-h", "--help"):
        print("usage: rulerlib COMMAND ...; rulerlib COMMAND --help lists its arguments.\n")
        print("\n".join(f"  {name:10} {does}" for name, (does, _) in COMMANDS.items()))
        print("\nexample:\n  rulerlib run niah runs/niah.ipynb -p length 2048")
        return 0 if given else 2
    if given[0] == "--version":
        print(f"rulerlib {rulerlib.__version__}")
        return 0
    name = one_of("command", given[0], COMMANDS)
    if name == "run":
        return execute(given[1:])
    try:
        module = importlib.import_module(COMMANDS[name][1])
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
    there = {path.stem: path for path in sorted(notebooks().glob("*.ipynb"))}
    options = parser(
        "rulerlib.commands",
        "NOTEBOOK OUT.ipynb [-p NAME VALUE] [papermill's options]",
        "Execute the notebook of a task or study: papermill with the notebook's name.",
        "niah runs/niah.ipynb -p model smollm2 -p language en",
    )
    options.add_argument("notebook", help=f"one of {', '.join(there)}")
    options.add_argument("further", nargs=argparse.REMAINDER, help="the arguments of papermill")
    given = options.parse_args(arguments)
    notebook = there[one_of("notebook", given.notebook, there)]
    load_package("papermill", "notebook", "Executing a notebook")
    return subprocess.call([sys.executable, "-m", "papermill", str(notebook), *given.further])

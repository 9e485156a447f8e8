"""One command for all of rulerlib: ``rulerlib COMMAND ...``, or ``python -m rulerlib COMMAND ...``.

Each command is a thin skin over a module of the library, and says with ``--help`` what it takes.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rulerlib import commands, packages
from rulerlib.errors import RulerError, one_of, require

RUN, WRONG = "run", 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what a command line asks for, and return the exit code."""
    given = [*(sys.argv[1:] if arguments is None else arguments)]
    if not given or given[0] in ("-h", "--help"):
        print(__doc__)
        print("\n".join(f"  {name:10} {row.does}" for name, row in commands.COMMANDS.items()))
        print("\nexample:\n  rulerlib run niah -p length 2048")
        return 0 if given else WRONG
    try:
        name = one_of("command", given[0], commands.COMMANDS)
        if name == RUN:
            return execute(given[1:])
        module = importlib.import_module(commands.COMMANDS[name].module)
        return int(module.main(given[1:]))
    except RulerError as error:
        print(error, file=sys.stderr)
        return WRONG


def execute(arguments: Sequence[str]) -> int:
    """Execute a notebook of the project with papermill, and return papermill's exit code.

    Raises
    ------
    ParameterError
        If there is no such notebook.
    MissingExtraError
        If papermill is not installed.
    """
    parser = commands.parser(
        "rulerlib",
        "NOTEBOOK [OUT] [papermill's options]",
        "Execute the notebook of a task or study; further options are papermill's, such as\n"
        "-p NAME VALUE for a parameter and -f FILE for a file of them.",
        "niah runs/niah.ipynb -p model smollm2 -p language en -p length 2048",
    )
    notebooks = {path.stem: path for path in sorted(commands.notebooks().glob("*.ipynb"))}
    about = f"one of {', '.join(notebooks)}"
    parser.add_argument("notebook", help=about)
    parser.add_argument("out", nargs="?", help="the executed notebook; runs/NOTEBOOK.ipynb")
    given, further = parser.parse_known_args(arguments)
    if given.out and given.out.startswith("-"):
        given.out, further = None, [given.out, *further]
    require(notebooks, "notebook", given.notebook, "where notebooks are installed")
    notebook = notebooks[one_of("notebook", Path(given.notebook).stem, notebooks)]
    packages.load("papermill", "notebook", "Executing a notebook")
    out = Path(given.out or f"runs/{notebook.name}")
    out.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "papermill", str(notebook), str(out), *further]
    return subprocess.call(command)


if __name__ == "__main__":
    sys.exit(commands.run(main))

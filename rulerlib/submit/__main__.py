"""The command line of `rulerlib.submit`. Exit code 1: a submission does not hold; 2: it could not
be packed, or not be looked at.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rulerlib import commands
from rulerlib.escaping import visible
from rulerlib.submit.checking import DRAWN, check
from rulerlib.submit.folder import FOLDER, pack

HOLDS = "complete, and its questions are those that follow from its settings."


@commands.command()
def main(arguments: Sequence[str] | None = None) -> int:
    """Pack a run or check a submission, and return the exit code."""
    parser = commands.parser(
        "rulerlib.submit",
        "FOLDER [FOLDER ...] [options]",
        "Pack a model's run into a small folder for a pull request, or check one.",
        "runs/mine --claimed 131072",
    )
    about = "the run, runs/<model>; with --check: submissions"
    parser.add_argument("folders", nargs="+", metavar="folder", help=about)
    about = "say what speaks against submissions"
    parser.add_argument("--check", action="store_true", help=about)
    parser.add_argument("--out", default=FOLDER, help=f"where submissions stand ({FOLDER})")
    parser.add_argument("--claimed", type=int, help="the context length that its makers claim")
    parser.add_argument("--tokenizer", help="with --check: a folder in which the tokenizer stands")
    parser.add_argument("--all", action="store_true", help="with --check: make all questions again")
    given = parser.parse_args(arguments)
    folders, faults = given.folders, list[str]()
    if not given.check:
        folders = [pack(run, given.out, given.claimed) for run in folders]
    for folder in folders:
        sentences = check(folder, given.tokenizer, drawn=None if given.all else DRAWN)
        faults += sentences
        for sentence in sentences or [HOLDS]:
            # One line, whatever is in it: a workflow may read commands at the beginning of one.
            print(visible(f"{folder}: {sentence}").replace("\n", "␤"))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

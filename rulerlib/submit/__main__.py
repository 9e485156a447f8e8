"""The command line of `rulerlib.submit`. Exit code 1: a submission does not hold; 2: it could not
be packed, or not be looked at.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rulerlib import commands
from rulerlib.errors import RulerError
from rulerlib.escaping import visible
from rulerlib.submit import again, changed, check, pack
from rulerlib.submit.packing import FOLDER


def main(arguments: Sequence[str] | None = None) -> int:
    """Pack a run, check a submission or ask its model again, and return the exit code."""
    parser = commands.parser(
        "rulerlib.submit",
        "FOLDER [FOLDER ...] [options]",
        "Pack a model's run into a small folder for a pull request, or check one.",
        "runs/mine --claimed 131072",
    )
    said = "the run, runs/<model>; with --check or --again: submissions; with --changed: none"
    parser.add_argument("folders", nargs="*", metavar="folder", help=said)
    does = parser.add_mutually_exclusive_group()
    does.add_argument("--check", action="store_true", help="say what speaks against submissions")
    does.add_argument("--again", action="store_true", help="ask the model some questions again")
    does.add_argument("--changed", metavar="BASE", help="check what this branch changed since BASE")
    parser.add_argument("--out", default=FOLDER, help=f"where submissions stand ({FOLDER})")
    parser.add_argument("--claimed", type=int, help="the context length that its makers claim")
    parser.add_argument("--tokenizer", help="with --check: a folder in which the tokenizer stands")
    parser.add_argument("--count", type=int, default=20, help="with --again: how many answers")
    given = parser.parse_args(arguments)
    if bool(given.folders) == (given.changed is not None):
        parser.error("it needs folders, or --changed and none")
    try:
        if given.changed is not None:
            folders, stray = changed(given.changed, given.out)
            for sentence in stray:
                _print(sentence)
            if not folders:
                print("No model was handed in.")
            return max([bool(stray), *(_check(str(each), given.tokenizer) for each in folders)])
        if given.again:
            return max(_again(folder, given.count) for folder in given.folders)
        if given.check:
            return max(_check(folder, given.tokenizer) for folder in given.folders)
        packed = [pack(run, given.out, given.claimed) for run in given.folders]
        return max(_check(str(folder), given.tokenizer) for folder in packed)
    except RulerError as error:
        print(error, file=sys.stderr)
        return 2


def _check(folder: str, tokenizer: str | None) -> int:
    found = check(folder, tokenizer)
    for sentence in found or ["complete, and all of it follows from its answers."]:
        _print(f"{folder}: {sentence}")
    return 1 if found else 0


def _print(sentence: str) -> None:
    """Print a sentence in one line, whatever names and values of strangers are part of it."""
    print(visible(sentence).replace("\n", "␤"))


def _again(folder: str, count: int) -> int:
    asked = []
    for each in again(folder, count):
        print(each, flush=True)
        asked.append(each)
    same, alike = sum(each.same for each in asked), sum(each.was == each.now for each in asked)
    print(f"{folder}: of {len(asked)} answers {same} are the same, and {alike} score the same.")
    return 0 if alike == len(asked) else 1


if __name__ == "__main__":
    sys.exit(commands.run(main))

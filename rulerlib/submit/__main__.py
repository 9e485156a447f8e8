"""The command line of `rulerlib.submit`. Exit code 1: a submission does not hold; 2: it could not
be packed, or not be looked at.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rulerlib import analysis, commands
from rulerlib.analysis.tables import thousands
from rulerlib.errors import RulerError
from rulerlib.escaping import visible
from rulerlib.submit.checking import DRAWN, again, check
from rulerlib.submit.folder import FOLDER, named, pack, read


def main(arguments: Sequence[str] | None = None) -> int:
    """Pack a run, check a submission or ask its model again, and return the exit code."""
    parser = commands.parser(
        "rulerlib.submit",
        "FOLDER [FOLDER ...] [options]",
        "Pack a model's run into a small folder for a pull request, or check one.",
        "runs/mine --claimed 131072",
    )
    about = "the run, runs/<model>; with --check or --again: submissions"
    parser.add_argument("folders", nargs="+", metavar="folder", help=about)
    does = parser.add_mutually_exclusive_group()
    does.add_argument("--check", action="store_true", help="say what speaks against submissions")
    does.add_argument("--again", action="store_true", help="ask the model some questions again")
    parser.add_argument("--out", default=FOLDER, help=f"where submissions stand ({FOLDER})")
    parser.add_argument("--claimed", type=int, help="the context length that its makers claim")
    parser.add_argument("--tokenizer", help="with --check: a folder in which the tokenizer stands")
    parser.add_argument("--all", action="store_true", help="with --check: make all questions again")
    parser.add_argument("--count", type=int, default=20, help="with --again: how many answers")
    given = parser.parse_args(arguments)
    folders, faults = given.folders, list[str]()
    try:
        if given.again:
            return max(_again(folder, given.count) for folder in folders)
        if not given.check:
            folders = [pack(run, given.out, given.claimed) for run in folders]
        for folder in folders:
            sentences = check(folder, given.tokenizer, drawn=None if given.all else DRAWN)
            faults += sentences
            for sentence in sentences or _averages(folder):
                _print(f"{folder}: {sentence}")
    except RulerError as error:
        print(error, file=sys.stderr)
        return 2
    return 1 if faults else 0


def _averages(folder: str | Path) -> Iterator[str]:
    """Yield what follows from a folder that holds: RULER's averages in each language."""
    table = read(named(folder)).table()
    lengths = [thousands(length) for length in sorted(table["length"].unique().tolist())]
    for row in analysis.summary(table).to_dict("records"):
        means = ", ".join(f"{row[length]:.1f} % at {length}" for length in lengths)
        yield f"{row['language']}: {means}; effective length {row['effective']}."
    yield "complete, and its questions are those that follow from its settings."


def _print(sentence: str) -> None:
    """Print a sentence in one line, whatever names and values of strangers are part of it."""
    print(visible(sentence).replace("\n", "␤"))


def _again(folder: str, count: int) -> int:
    answers = []
    for answer in again(folder, count):
        print(answer, flush=True)
        answers.append(answer)
    same, alike = sum(one.same for one in answers), sum(one.was == one.now for one in answers)
    print(f"{folder}: of {len(answers)} answers {same} are the same, and {alike} score the same.")
    return 0 if alike == len(answers) else 1


if __name__ == "__main__":
    sys.exit(commands.run(main))

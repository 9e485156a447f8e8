"""The command line of `rulerlib.conformance`: it prints a report and says by its exit code what is
in it. 0: nothing differs from RULER; 1: something does; 2: the files could not be read.

With ``--vectors`` it prints those of `rulerlib.conformance.vectors`.
With ``--language`` it says what a language pack can ask, see `rulerlib.conformance.packs`.
With ``--reveal SEED`` it says instead whether that seed gives the questions of a commitment.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rulerlib import commands, making
from rulerlib.conformance import check, packs, vectors
from rulerlib.errors import require


@commands.command()
def main(arguments: Sequence[str] | None = None) -> int:
    """Print what the files of a folder do otherwise than RULER, and return the exit code."""
    parser = commands.parser(
        "rulerlib.conformance",
        "[FOLDER] [options]",
        "Say what a port of RULER does otherwise than RULER, from the files it wrote;\n"
        "or whether a seed that was secret gives the questions of a commitment.",
        "runs/lille --tokenizer lille",
    )
    parser.add_argument(
        "folder", nargs="?", help="with prompts, answers and scores; or a commitment.json"
    )
    parser.add_argument("--tokenizer", help="the tokenizer it counted with: a name or a folder")
    parser.add_argument("--length", type=int, help="the context length, if no name says it")
    parser.add_argument("--reveal", metavar="SEED", type=int, help="the seed of the commitment")
    about = "print instead answers to try a scorer on"
    parser.add_argument("--vectors", action="store_true", help=about)
    parser.add_argument("--language", help="say instead what a pack can ask: a code or a folder")
    given = parser.parse_args(arguments)
    if given.language:
        print(packs.report(given.language, given.tokenizer or "lille"))
        return 0
    if given.vectors:
        print(vectors.FILE.read_text("utf-8").rstrip())
        return 0
    require(given.folder, "folder", given.folder, "a folder, a commitment.json, or --vectors")
    if given.reveal is not None:
        holds, sentence = making.reveal(given.folder, given.reveal)
        print(sentence)
        return 0 if holds else 1
    report = check(given.folder, given.tokenizer, given.length)
    print(report)
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())

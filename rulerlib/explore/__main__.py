"""The command line of `rulerlib.explore`. Exit code 2: the runs could not be read, or not shown."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rulerlib import commands
from rulerlib.explore import write


@commands.command
def main(arguments: Sequence[str] | None = None) -> int:
    """Write the explorer of some runs into a folder, and return the exit code."""
    parser = commands.parser(
        "rulerlib.explore",
        "RUNS [RUNS ...] FOLDER [options]",
        "Write a folder of static files that shows every score and every answer.",
        "runs explorer",
    )
    parser.add_argument("runs", nargs="+", help="the folders of runs, and at last the new folder")
    parser.add_argument(
        "--prompts", action="store_true", help="write every prompt in full, too, as a file each"
    )
    given = parser.parse_args(arguments)
    *folders, out = given.runs
    if not folders:
        parser.error("it needs a folder of runs, and the folder to write")
    cells, samples = write(folders, out, given.prompts)
    print(f"{out}: {samples:,} answers in {cells:,} cells.")
    print(f"To read it: python -m http.server --directory {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

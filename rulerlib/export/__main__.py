"""The command ``rulerlib export``, which writes questions for another harness."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rulerlib import commands, making
from rulerlib.export import formats


@commands.command
def main(arguments: Sequence[str] | None = None) -> int:
    """Write questions for a harness, print the command that runs them, and return the exit code."""
    reader = commands.parser(
        "rulerlib.export",
        "TASKS FOLDER --to HARNESS [options]",
        "Write the same questions, byte for byte, in the format of another harness.",
        "qa_1,vt harness --to lm-eval --length 4096 --language en",
    )
    making.add_options(reader)
    reader.add_argument("--to", required=True, help=", ".join(formats.HARNESSES))
    given = reader.parse_args(arguments)
    print(formats.write(given.to, given.folder, making.stated(given)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

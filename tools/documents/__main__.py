"""The command line: writes one file of questions to standard output."""

from __future__ import annotations

import argparse
import json
import sys

from tools.documents.encyclopedia import HERE
from tools.documents.formats import FORMATS


def main() -> None:
    """Write the file that the arguments name."""
    codes = sorted(path.name for path in (HERE / "languages").iterdir())
    parser = argparse.ArgumentParser(prog="python -m tools.documents", description=__doc__)
    parser.add_argument("format", choices=FORMATS)
    parser.add_argument("--language", choices=codes, required=True)
    parser.add_argument("--seed", type=int, required=True, help="another seed, other documents")
    arguments = parser.parse_args()
    file = FORMATS[arguments.format](arguments.language, arguments.seed)
    json.dump(file, sys.stdout, ensure_ascii=False, separators=(",", ":"))
    print()


if __name__ == "__main__":
    main()

"""One command for all of rulerlib, ``python -m rulerlib COMMAND ...``; see `rulerlib.commands`."""

import sys

from rulerlib.commands import main

if __name__ == "__main__":
    sys.exit(main())

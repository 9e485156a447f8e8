"""Our command lines by name, and what they have in common: their help, and how they end.

``rulerlib sweep status PLAN | head -1`` closes its end of the pipe after one line. That
is no mistake, and ends the command in silence, as it ends those that come with a system:

>>> run(lambda: 2)
2
"""

from __future__ import annotations

import argparse
import os
import select
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TextIO

CLOSED = 128 + 13
"""The exit code that a shell gives a command that a closed pipe has ended (SIGPIPE is 13)."""


class Command(NamedTuple):
    """A command: what it does, and the module whose ``main`` does it."""

    does: str
    module: str


COMMANDS = {
    "make": Command("write questions, in secret if need be", "rulerlib.making"),
    "run": Command("execute a notebook: ask a model, and see what came of it", "rulerlib.__main__"),
    "compare": Command("tell whether a change made a model worse", "rulerlib.compare"),
    "check": Command("say what a port of RULER does otherwise", "rulerlib.conformance.__main__"),
    "explore": Command("write a site that shows every answer", "rulerlib.explore.__main__"),
    "submit": Command("pack a model's run, or check one", "rulerlib.submit.__main__"),
    "memory": Command("ask a model with memories", "rulerlib.memory.bench"),
    "sweep": Command("plan, run and collect many runs", "rulerlib.sweep.__main__"),
}
"""All commands by name."""


def notebooks() -> Path:
    """Return the folder of the notebooks: within the package in a wheel, else beside it."""
    here = Path(__file__).parent
    return next(filter(Path.is_dir, (here / "notebooks", here.parent / "notebooks")), here)


def parser(module: str, usage: str, about: str, example: str) -> argparse.ArgumentParser:
    """Return a parser for the command of a module, whose help ends with an example.

    Parameters
    ----------
    usage, example
        What stands behind the command's name: in general, and as somebody would type it.
    about
        What the command does, as a sentence.
    """
    modules = {row.module.removesuffix(".__main__"): name for name, row in COMMANDS.items()}
    prog = f"rulerlib {modules[module.removesuffix('.__main__')]}"
    return argparse.ArgumentParser(
        prog=prog,
        usage=f"%(prog)s {usage}",
        description=about,
        epilog=f"example:\n  {prog} {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def run(main: Callable[[], int]) -> int:
    """Return the exit code of a command line, `CLOSED` where nobody reads on.

    Parameters
    ----------
    main
        Does what the command line asks for, and returns the exit code.
    """
    try:
        try:
            return main()
        finally:
            # Now, and not when Python ends, where nobody could catch the error.
            sys.stdout.flush()
    except BrokenPipeError:
        closed = [stream for stream in (sys.stdout, sys.stderr) if _is_closed(stream)]
        if not closed:
            # Another pipe broke, such as that to a server.
            raise
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in closed:
            # What Python still holds is written there when it ends.
            os.dup2(nowhere, stream.fileno())
        return CLOSED


def _is_closed(stream: TextIO) -> bool:
    """Return whether a stream is a pipe that nobody reads; true where a system cannot say."""
    if not hasattr(select, "poll"):
        return True
    # Not by writing to it: what was written before may be gone, or may still be held.
    poll = select.poll()
    poll.register(stream.fileno(), 0)
    return any(happened & (select.POLLERR | select.POLLHUP) for _, happened in poll.poll(0))

"""How command lines end: in silence where nobody reads on."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rulerlib
from rulerlib import commands


def unread(stream: str, unbuffered: str, *words: str) -> tuple[int, str]:
    """Return the exit code of a command whose stream nobody reads, and what it says on others."""
    reader, writer = os.pipe()
    os.close(reader)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: writer}
    how = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run([sys.executable, *words], text=True, timeout=60, env=how, **streams)
    os.close(writer)
    return done.returncode, (done.stdout or "") + (done.stderr or "")


@pytest.mark.parametrize(("stream", "words"), [
    ("stdout", ("1", "-m", "rulerlib.sweep", "folder", "params/sweeps/small.yaml")),
    ("stdout", ("", "-m", "rulerlib.sweep", "folder", "params/sweeps/small.yaml")),
    ("stdout", ("", "-m", "rulerlib.sweep", "--help")),
    ("stderr", ("", "-m", "rulerlib.sweep", "folder", "nowhere.yaml")),
])  # fmt: skip
def test_a_command_that_nobody_reads_ends_in_silence(stream, words):
    assert unread(stream, *words) == (commands.CLOSED, "")


def test_head_ends_a_command_that_has_more_to_say():
    """As a shell does it: ``head`` reads one line and goes, while there is more than a pipe takes.

    Without `commands.run` it ends with a traceback and the exit code 1.
    """
    script = (
        "import sys\nfrom rulerlib import commands\n"
        "def main():\n    for number in range(100_000):\n        print(number)\n    return 0\n"
        "sys.exit(commands.run(main))"
    )
    shell = f"{sys.executable} -c '{script}' | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == (f"0\n{commands.CLOSED}\n", "")


def test_other_errors_and_exit_codes_stay_what_they_are():
    def broken() -> int:
        raise BrokenPipeError("the pipe to a server")

    with pytest.raises(BrokenPipeError, match="to a server"):
        commands.run(broken)
    with pytest.raises(ZeroDivisionError):
        commands.run(lambda: 1 // 0)
    assert commands.run(lambda: 3) == 3


def test_every_command_line_of_the_library_ends_like_this():
    ends = {}
    for path in Path(rulerlib.__file__).parent.rglob("*.py"):
        source = path.read_text("utf-8")
        if re.search(r'^if __name__ == "__main__":', source, re.MULTILINE):
            ends[path.name] = source.rstrip().endswith("sys.exit(commands.run(main))")
    assert len(ends) >= 4
    assert all(ends.values()), ends

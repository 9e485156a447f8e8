"""The lock: one writer at a time, until its process ends."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from rulerlib import files
from rulerlib.errors import BusyError

HOLDER = """
import sys
from rulerlib import files
with files.lock(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "new" / "niah.jsonl"


@pytest.fixture
def holder(path):
    """Another process that holds the lock."""
    command = [sys.executable, "-c", HOLDER, str(path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_lock_ends_with_its_block(path):
    with pytest.raises(ZeroDivisionError), files.lock(path):
        raise ZeroDivisionError
    with files.lock(path), files.lock(path.parent / "other.jsonl"):
        pass
    assert list(path.parent.iterdir()) == []


def test_the_process_that_holds_a_lock_is_named_until_it_is_killed(path, holder):
    with pytest.raises(BusyError) as error, files.lock(path):
        pass
    assert str(error.value) == (
        f"{path} is being written by process {holder.pid}: wait until it is done, or choose"
        " another output folder."
    )
    threading.Timer(0.2, holder.kill).start()
    with files.lock(path, wait=True):
        assert holder.wait(10)

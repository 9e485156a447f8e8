"""The lock: one writer at a time, who says who it is, on any system and however it ends."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys

import pytest

from rulerlib import files
from rulerlib.errors import BusyError

HOLDER = """
import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.lockf(descriptor, fcntl.LOCK_EX)
os.write(descriptor, sys.argv[2].encode())
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "quite" / "new" / "niah.jsonl"


@pytest.fixture
def beside(path):
    return path.parent / ".niah.jsonl.lock"


@contextlib.contextmanager
def held_elsewhere(beside, said):
    """Another process, without rulerlib, that holds the lock and says something about itself."""
    beside.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-S", "-c", HOLDER, str(beside), said]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.stdin.close()


def test_the_same_process_is_told_and_the_first_holder_goes_on(path, beside):
    with pytest.raises(ZeroDivisionError), files.alone(path):
        raise ZeroDivisionError
    with files.alone(path):
        with (
            pytest.raises(BusyError, match=r"niah\.jsonl is being written by this very process"),
            files.alone(path.parent / ".." / "new" / "niah.jsonl"),
        ):
            pass
        assert beside.exists()
        with files.alone(path.parent / "other.jsonl"):
            pass
    with files.alone(path):
        pass


def test_another_process_is_named(path, beside):
    said = '{"process": 17, "host": "vega", "since": "noon"}'
    with held_elsewhere(beside, said):
        for _ in range(2):
            with pytest.raises(BusyError) as error, files.alone(path):
                pass
            assert str(error.value) == (
                f"{path} is being written by process 17 on vega since noon: wait until it is done,"
                " or choose another output folder."
            )
        assert beside.read_text() == said
    # It has ended, and left its file.
    with files.alone(path):
        assert json.loads(beside.read_bytes())["process"] == os.getpid()

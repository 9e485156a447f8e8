"""The lock: one writer at a time, who says who it is, on any system and however it ends."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import subprocess
import sys

import pytest

from rulerlib import files
from rulerlib.errors import BusyError, ParameterError

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


@pytest.mark.parametrize("said", ["", "{", '{"process": 17}'])
def test_another_process_may_not_have_said_yet_who_it_is(path, beside, said, monkeypatch):
    pauses = []
    monkeypatch.setattr(files.time, "sleep", pauses.append)
    with (
        held_elsewhere(beside, said),
        pytest.raises(BusyError, match="written by another process:"),
        files.alone(path),
    ):
        pass
    assert 0.1 <= sum(pauses) <= 1, "it is given a moment, and not more"


def test_a_lock_that_was_removed_before_it_was_taken_is_none(path, beside, monkeypatch):
    """Who held it before removes the file after we opened it: what we took has no name then."""
    whole, tries = files._try, []

    def late(descriptor, named):
        tries.append(named)
        if len(tries) == 1:
            beside.unlink()
        if len(tries) == 2:
            # And somebody else has a new one already.
            beside.unlink()
            beside.touch()
        return whole(descriptor, named)

    monkeypatch.setattr(files, "_try", late)
    descriptors = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None
    with files.alone(path):
        assert len(tries) == 3
        assert json.loads(beside.read_bytes())["process"] == os.getpid()
    assert not beside.exists()
    if descriptors is not None:
        assert len(os.listdir("/proc/self/fd")) == descriptors, "none is left open"


def test_an_interrupt_while_it_is_taken_gives_it_back(path, beside, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os.path, "samestat", interrupted)
        with pytest.raises(KeyboardInterrupt), files.alone(path):
            pass
    assert files.holder(path) is None
    with files.alone(path):
        assert files.holder(path) == f"process {os.getpid()}, this one"


def test_a_disk_without_locks_is_named(path, beside, monkeypatch):
    """By a warning that names the line that asked for the lock."""

    def refused(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "lockf", refused)
    said = f"{re.escape(str(path))} cannot be locked \\(No locks available\\): see"
    with pytest.warns(UserWarning, match=said) as warned, files.alone(path):
        assert beside.exists()
    assert not beside.exists()
    assert str(warned[0].message).endswith("see to it that no other process writes it.")
    assert warned[0].filename == __file__


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "niah.jsonl"
    with pytest.raises(ParameterError) as error, files.alone(path):
        pass
    assert str(path) in str(error.value)
    assert "output is" in str(error.value)

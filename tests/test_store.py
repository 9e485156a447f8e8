"""Cells and their folders, and files that are written as a whole or not at all."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import threading

import pytest
from helpers_store import FIVE, write_records

from rulerlib import files
from rulerlib.errors import BusyError, ParameterError
from rulerlib.prompts import PromptFormat
from rulerlib.store import LONGEST, Cell

# Values that are awkward in the name of a folder.
AWKWARD = [
    "a b", "a/b", "a--b", "é", "\ud800", "..", "-", "../..", "a+b", "[1]", "x" * 500, "seed=7",
]  # fmt: skip


@pytest.mark.parametrize("text", AWKWARD)
def test_names_are_short_and_safe(text):
    more = {"knobs": {text: text}, "texts": text, "options": {"a": [text]}, "study": text}
    cell = Cell(text, "qa_1", "zh-Hans", 512, format=PromptFormat(system_prompt=text), **more)
    for name in (cell.name, cell.label):
        assert len(name) <= LONGEST
        assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._+=#-]*", name)
    for path in (cell.answers("runs"), cell.questions("runs")):
        assert ".." not in path.parts
        assert all(len(part) <= 120 and not part.startswith(".") for part in path.parts)


def full(*_):
    raise OSError(28, "No space left on device")


def test_an_error_while_writing_keeps_the_old_file(five, monkeypatch):
    before = five.read_bytes()

    def broken():
        yield FIVE[0]
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        write_records(five, broken())
    with monkeypatch.context() as patched:
        patched.setattr(pathlib.Path, "replace", full)
        with pytest.raises(ParameterError, match=r"can be written \(No space left on device\)\.$"):
            write_records(five, FIVE * 2)
    with pytest.raises(ParameterError, match=r"^output is '.*', but must be a file that can be"):
        files.write_object(five / "folder" / "x.json", {})
    assert five.read_bytes() == before
    assert os.listdir(five.parent) == [five.name], "no temporary file is left"


# --- The lock -----------------------------------------------------------------------------------


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


def test_a_lock_is_held_until_its_process_is_killed(path, holder):
    with pytest.raises(BusyError) as error, files.lock(path):
        pass
    assert str(error.value) == (
        f"{path} is being written by another process: wait until it is done, or choose"
        " another output folder."
    )
    threading.Timer(0.2, holder.kill).start()
    with files.lock(path, wait=True):
        assert holder.wait(10)
